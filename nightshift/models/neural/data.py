"""Rows of a training: an epoch is one permutation of them, cut into batches, of which each process has a share.

No row is ever collated on its own. An epoch can be entered at any batch, so a training resumes inside it. What is
random is drawn for all rows in every process, so that it does not depend on how many processes there are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nightshift.models.neural.epochs import WHOLE, Epoch, RowShare
from nightshift.models.neural.prefetching import Prefetcher

RESIDENT = 1 << 30  # bytes of inputs that are copied to the device as a whole; of more, a batch at a time is
BLOCK = 1 << 20  # bytes that are gathered at once, if a batch has fewer: handing over small ones takes longer
AHEAD = 1 << 28  # bytes that are gathered ahead at most, but for two blocks or batches
NOISE = 4
ALIGNED = 64  # bytes, as PyTorch allocates on the CPU

Inputs = Any  # of rows, (b, ...): a tensor, or several by name
Samples = tuple[Inputs, Tensor]  # labels (b, ...)
Take = Callable[[npt.NDArray[np.int64]], npt.NDArray[Any]]  # numbers of rows (b,) -> what they hold (b, ...)
# numbers of rows (n,), how many of them each batch has, batches to skip -> inputs of each of the others
Gather = Callable[[Tensor, list[int], int], Iterator[Inputs]]


class BatchShare(NamedTuple):
    """A process's share of a batch.

    Attributes:
        inputs: (b, ...); of one row that does not count, where the process has none.
        labels: of the same rows, (b, ...).
        size: rows of the whole batch.
    """

    inputs: Inputs
    labels: Tensor
    size: int


@dataclass(frozen=True)
class Transform:
    """What is done to the samples of a batch, on the device.

    Attributes:
        call: changes samples by noise between 0 and 1, (b, NOISE).
        together: how many samples, from the batch's first on, are changed together; 1: each by itself.
    """

    call: Callable[[Samples, Tensor], Samples]
    together: int = 1


KEEP = Transform(lambda samples, _: samples)


class TrainingDataset:
    """Rows of a training, in random order once an epoch.

    Args:
        labels: (n, ...), on the device.
        size: rows of a batch.
    """

    def __init__(self, labels: Tensor, size: int) -> None:
        self.labels, self.size = labels, size
        self.held_out = 0
        self._generator = torch.Generator(labels.device)
        self._state = self._generator.get_state()

    def __len__(self) -> int:
        """Batches of an epoch."""
        return -(-(len(self.labels) - self.held_out) // self.size)

    def hold_out(self, part: float) -> None:
        """Leave the last rows, at least one, out of every epoch."""
        self.held_out = min(max(1, round(part * len(self.labels))), len(self.labels) - 1) if part else 0

    def held_out_batches(self, share: RowShare = WHOLE) -> Iterator[BatchShare]:
        """Yield a process's share of the batches of the rows that are left out, unchanged and in order."""
        count = len(self.labels)
        order = torch.arange(count - self.held_out, count, device=self.labels.device)
        epoch = Epoch(order, self.size, share)
        for (inputs, labels), size in zip(self._unchanged(epoch), epoch.sizes, strict=True):
            yield BatchShare(inputs, labels, size)

    def seed(self) -> None:
        """Draw from here on what PyTorch's own generator of the device would draw."""
        cuda = self.labels.device.type == "cuda"
        self._state = torch.cuda.get_rng_state() if cuda else torch.get_rng_state()

    def epoch(self, skip: int = 0, share: RowShare = WHOLE) -> Iterator[BatchShare]:
        """Yield a process's share of the batches of the next epoch, skipping the first `skip`."""
        self._generator.set_state(self._state)
        count = len(self.labels) - self.held_out
        order = torch.randperm(count, generator=self._generator, device=self.labels.device)
        epoch = Epoch(order, self.size, share, skip)
        batches = zip(self._batches(epoch), epoch.sizes, strict=True)
        for number, ((inputs, labels), size) in enumerate(batches, skip + 1):
            if number == len(self):
                self._state = self._generator.get_state()
            yield BatchShare(inputs, labels, size)

    def state(self) -> Tensor:
        """Return what the order of the epoch's rows follows from, or the next one's after its last batch; uint8."""
        return self._state

    def load(self, state: Tensor) -> None:
        """Go back to where `state` was called, in whole epochs."""
        self._state = state.clone()

    def _batches(self, epoch: Epoch) -> Iterator[Samples]:
        """Yield what is left of an epoch; whatever is drawn for it is drawn before the first batch."""
        raise NotImplementedError

    def _unchanged(self, epoch: Epoch) -> Iterator[Samples]:
        """Yield the same without what is random."""
        return self._batches(epoch)


class ResidentDataset(TrainingDataset):
    """All rows of a training, on the device as a whole.

    Args:
        inputs: (n, ...), on the device.
        labels: (n, ...), on the device.
        size: rows of a batch.
    """

    def __init__(self, inputs: Tensor, labels: Tensor, size: int) -> None:
        super().__init__(labels, size)
        self.inputs = inputs

    def _batches(self, epoch: Epoch) -> Iterator[Samples]:
        # all rows are copied: the last bits of a product may depend on where in memory a batch lies
        own = epoch.rows
        copies = (values.index_select(0, own) for values in (self.inputs, self.labels))  # twice as fast as values[own]
        yield from zip(*map(epoch.split, copies), strict=True)


class GatherDataset(TrainingDataset):
    """Rows whose inputs are gathered a batch at a time.

    Args:
        gather: gives inputs on the device.
        labels: (n, ...), on the device.
        size: rows of a batch.
    """

    def __init__(self, gather: Gather, labels: Tensor, size: int) -> None:
        super().__init__(labels, size)
        self._gather = gather

    def _batches(self, epoch: Epoch) -> Iterator[Samples]:
        own = epoch.rows
        for chosen, inputs in zip(epoch.split(own), self._gather(own, epoch.counts, epoch.skip), strict=True):
            yield inputs, self.labels[chosen]


class AugmentedDataset(GatherDataset):
    """Rows that are gathered a batch at a time, and changed; what is random follows from the state of that epoch.

    Args:
        gather: gives inputs on the device.
        labels: (n, ...), on the device.
        size: rows of a batch.
        change: what is done to a batch.
    """

    def __init__(self, gather: Gather, labels: Tensor, size: int, change: Transform) -> None:
        super().__init__(gather, labels, size)
        self._change = change

    def _batches(self, epoch: Epoch) -> Iterator[Samples]:
        noise = torch.rand((len(epoch.order), NOISE), generator=self._generator, device=epoch.order.device)
        wide = replace(epoch, share=replace(epoch.share, multiple=self._change.together))
        changed = map(self._change.call, super()._batches(wide), wide.split(wide.select(noise)))
        for (inputs, labels), size in zip(changed, epoch.sizes, strict=True):
            own, read = epoch.share.span(size), wide.share.span(size)
            inside = slice(own.start - read.start, own.stop - read.start)
            yield select_rows(inputs, inside), labels[inside]

    def _unchanged(self, epoch: Epoch) -> Iterator[Samples]:
        return super()._batches(epoch)


def select_rows(inputs: Inputs, rows: slice) -> Inputs:
    """Return some rows of inputs."""
    if isinstance(inputs, Mapping):
        return {name: values[rows] for name, values in inputs.items()}
    return inputs[rows]


def gather_together(gathers: Mapping[str, Gather]) -> Gather:
    """Gather inputs of several kinds, by name."""

    def gather(rows: Tensor, sizes: list[int], skip: int) -> Iterator[dict[str, Tensor]]:
        gathered = [one(rows, sizes, skip) for one in gathers.values()]
        return (dict(zip(gathers, inputs, strict=True)) for inputs in zip(*gathered, strict=True))

    return gather


def gather_resident(inputs: Tensor) -> Gather:
    """Gather from inputs that lie on the device as a whole, (n, ...)."""
    return lambda rows, sizes, skip: (inputs[chosen] for chosen in torch.split(rows, sizes)[skip:])


def gather_array(values: npt.NDArray[Any], resident: int, device: torch.device) -> Gather:
    """Gather from an array, (n, ...), which is copied to the device as a whole if it has few bytes."""
    if values.nbytes <= resident:
        return gather_resident(torch.from_numpy(values).to(device))
    return gather_streamed(values.__getitem__, values[0].nbytes, device)


def gather_streamed(take: Take, width: int, device: torch.device) -> Gather:
    """Gather on the host, ahead, in memory from which a GPU copies while it computes.

    Args:
        take: gathers rows.
        width: bytes of a row.
        device: where they go.
    """

    def gather(block: tuple[int, Tensor]) -> Tensor:
        first, chosen = block
        inputs = torch.from_numpy(take(chosen.numpy()))
        if device.type == "cuda":
            return inputs.pin_memory()
        # where it would lie among all rows, up to the width of a register: last bits depend on it
        before = first * width % ALIGNED // inputs.element_size()
        return torch.empty(before + inputs.numel(), dtype=inputs.dtype)[before:].view(inputs.shape).copy_(inputs)

    prefetcher = Prefetcher(gather)

    def batches(rows: Tensor, sizes: list[int], skip: int) -> Iterator[Tensor]:
        first, left, largest = sum(sizes[:skip]), sizes[skip:], width * max(sizes)
        together = max(1, BLOCK // largest)
        blocks = [left[number : number + together] for number in range(0, len(left), together)]
        # the numbers are copied once: each copy from a GPU waits for what it computes
        chosen = torch.split(rows[first:].cpu(), [*map(sum, blocks)])
        firsts = accumulate(map(len, chosen), initial=first)
        gathered = prefetcher.run(zip(firsts, chosen, strict=False), AHEAD // max(BLOCK, largest))
        for inputs, counts in zip(gathered, blocks, strict=True):
            yield from torch.split(inputs.to(device, non_blocking=True), counts)

    return batches
