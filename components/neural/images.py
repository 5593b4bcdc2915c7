"""Images of a training: gathered a batch at a time, moved and mirrored on the device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from components.neural.data import Batch, Resident

Gather = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Augmentation:
    """What is done to the images of a training.

    Attributes:
        shift: pixels, by which an image is moved at most; what leaves it on one side, its edge fills on the other.
        flip: whether half of them are mirrored.
    """

    shift: int = 0
    flip: bool = False


class Pictures(Resident):
    """All images of a training, in random order once an epoch; what is random follows from the state of that epoch.

    Args:
        gather: numbers of images, int64 (b,) on the labels' device -> uint8 (b, height, width, channels) there.
        labels: int64 (n,), on the device.
        size: images of a batch.
        augmentation: what is done to them.
    """

    def __init__(self, gather: Gather, labels: Tensor, size: int, augmentation: Augmentation) -> None:
        super().__init__(labels, labels, size)
        self._gather, self._augmentation = gather, augmentation

    def epoch(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of the next epoch, but for the first so many."""
        self._generator.set_state(self._state)
        count, device = len(self.labels), self.labels.device
        order = torch.randperm(count, generator=self._generator, device=device)
        noise = torch.rand((count, 3), generator=self._generator, device=device)
        after = self._generator.get_state()
        for first in range(skip * self.size, count, self.size):
            chosen, drawn = order[first : first + self.size], noise[first : first + self.size]
            if first + self.size >= count:
                self._state = after
            yield augmented(self._gather(chosen), drawn, self._augmentation), self.labels[chosen]


def augmented(images: Tensor, noise: Tensor, how: Augmentation) -> Tensor:
    """Move and mirror images.

    Args:
        images: (b, height, width, channels).
        noise: between 0 and 1, (b, 3): down, right, mirrored.
        how: by how much.
    """
    if not how.shift and not how.flip:
        return images
    height, width = images.shape[1:3]
    moved = (noise[:, :2] * (2 * how.shift + 1)).long() - how.shift
    rows, columns = (
        (torch.arange(size, device=images.device) - moved[:, axis, None]).clamp(0, size - 1)
        for axis, size in enumerate((height, width))
    )
    if how.flip:
        columns = torch.where(noise[:, 2:] < 0.5, width - 1 - columns, columns)
    each = torch.arange(len(images), device=images.device)[:, None, None]
    return images[each, rows[:, :, None], columns[:, None, :]]
