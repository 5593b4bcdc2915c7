"""Images of a training: moved and mirrored on the device."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Augmentation:
    """What is done to the images of a training.

    Attributes:
        shift: pixels, by which an image is moved at most; what leaves it on one side, its edge fills on the other.
        flip: whether half of them are mirrored.
    """

    shift: int = 0
    flip: bool = False


def augmented(how: Augmentation, images: Tensor, noise: Tensor) -> Tensor:
    """Move and mirror images.

    Args:
        how: by how much.
        images: (b, height, width, channels).
        noise: between 0 and 1, (b, 3): down, right, mirrored.
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
