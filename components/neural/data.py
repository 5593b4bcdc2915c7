"""Rows that lie on the device as a whole: an epoch is one permutation of them, cut into batches that are views.

No row is ever collated on its own. An epoch can be entered at any batch, so a training resumes inside it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor]


class Resident:
    """All rows of a training, in random order once an epoch.

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
        order = order[skip * self.size :]
        batches = [torch.split(rows[order], self.size) for rows in (self.inputs, self.labels)]
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
