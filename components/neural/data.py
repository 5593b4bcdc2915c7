"""Rows of a training: an epoch is one permutation of them, cut into batches.

No row is ever collated on its own. An epoch can be entered at any batch, so a training resumes inside it.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor]
Gather = Callable[[Tensor], Tensor]
Change = Callable[[Batch, Tensor], Batch]  # by noise between 0 and 1, (b, NOISE)
NOISE = 4


def unchanged(batch: Batch, _: Tensor) -> Batch:
    """Change nothing."""
    return batch


class Resident:
    """All rows of a training, on the device as a whole, in random order once an epoch.

    Args:
        inputs: (n, ...), on the device.
        labels: (n, ...), on the device.
        size: rows of a batch.
    """

    def __init__(self, inputs: Tensor, labels: Tensor, size: int) -> None:
        self.inputs, self.labels, self.size = inputs, labels, size
        self._generator = torch.Generator(labels.device)
        self._state = self._generator.get_state()

    def __len__(self) -> int:
        """Batches of an epoch."""
        return -(-len(self.labels) // self.size)

    def seed(self) -> None:
        """Draw from here on what PyTorch's own generator of the device would draw."""
        cuda = self.labels.device.type == "cuda"
        self._state = torch.cuda.get_rng_state() if cuda else torch.get_rng_state()

    def epoch(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of the next epoch, but for the first so many."""
        self._generator.set_state(self._state)
        order = torch.randperm(len(self.labels), generator=self._generator, device=self.labels.device)
        # of all rows, since the last bits of a product may depend on where in memory a batch lies
        batches = [torch.split(rows[order], self.size)[skip:] for rows in (self.inputs, self.labels)]
        *before, last = zip(*batches, strict=True)
        yield from before
        self._state = self._generator.get_state()
        yield last

    def state(self) -> Tensor:
        """Return what the order of the epoch's rows follows from, or the next one's after its last batch; uint8."""
        return self._state

    def load(self, state: Tensor) -> None:
        """Go back to where `state` was called, in whole epochs."""
        self._state = state.clone()


class Gathered(Resident):
    """Rows that are gathered a batch at a time, and changed; what is random follows from the state of that epoch.

    Args:
        gather: numbers of rows, int64 (b,) on the labels' device -> (b, ...) there.
        labels: int64 (n,), on the device.
        size: rows of a batch.
        change: what is done to a batch.
    """

    def __init__(self, gather: Gather, labels: Tensor, size: int, change: Change) -> None:
        super().__init__(labels, labels, size)
        self._gather, self._change = gather, change

    def epoch(self, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of the next epoch, but for the first so many."""
        self._generator.set_state(self._state)
        count, device = len(self.labels), self.labels.device
        order = torch.randperm(count, generator=self._generator, device=device)
        noise = torch.rand((count, NOISE), generator=self._generator, device=device)
        after = self._generator.get_state()
        for first in range(skip * self.size, count, self.size):
            chosen, drawn = order[first : first + self.size], noise[first : first + self.size]
            if first + self.size >= count:
                self._state = after
            yield self._change((self._gather(chosen), self.labels[chosen]), drawn)
