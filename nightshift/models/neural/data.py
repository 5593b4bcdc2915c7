"""Rows of a training: an epoch is one permutation of them, cut into batches.

No row is ever collated on its own. An epoch can be entered at any batch, so a training resumes inside it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

RESIDENT = 1 << 30  # bytes of inputs that are copied to the device as a whole; of more, a batch at a time is
BLOCK = 1 << 20  # bytes that are gathered at once, if a batch has fewer: handing over small ones takes longer
AHEAD = 2  # such blocks, or batches, that are gathered before they are asked for
NOISE = 4
ALIGNED = 64  # bytes, as PyTorch allocates on the CPU

Batch = tuple[Tensor, Tensor]
Take = Callable[[npt.NDArray[np.int64]], npt.NDArray[Any]]  # numbers of rows (b,) -> what they hold (b, ...)
# numbers of an epoch's rows (n,), rows of a batch, batches to skip -> inputs of each of the others
Gather = Callable[[Tensor, int, int], Iterator[Tensor]]
Change = Callable[[Batch, Tensor], Batch]  # by noise between 0 and 1, (b, NOISE)

T = TypeVar("T")
R = TypeVar("R")


def keep_batch(batch: Batch, _: Tensor) -> Batch:
    """Change nothing."""
    return batch


class TrainingDataset:
    """Rows of a training, in random order once an epoch.

    Args:
        labels: (n, ...), on the device.
        size: rows of a batch.
    """

    def __init__(self, labels: Tensor, size: int) -> None:
        self.labels, self.size = labels, size
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
        """Yield the batches of the next epoch, skipping the first `skip`."""
        self._generator.set_state(self._state)
        order = torch.randperm(len(self.labels), generator=self._generator, device=self.labels.device)
        for number, batch in enumerate(self._batches(order, skip), skip + 1):
            if number == len(self):
                self._state = self._generator.get_state()
            yield batch

    def state(self) -> Tensor:
        """Return what the order of the epoch's rows follows from, or the next one's after its last batch; uint8."""
        return self._state

    def load(self, state: Tensor) -> None:
        """Go back to where `state` was called, in whole epochs."""
        self._state = state.clone()

    def _batches(self, order: Tensor, skip: int) -> Iterator[Batch]:
        """Yield the batches of an epoch; whatever is drawn for it is drawn before the first one."""
        raise NotImplementedError


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

    def _batches(self, order: Tensor, skip: int) -> Iterator[Batch]:
        # all rows are copied: the last bits of a product may depend on where in memory a batch lies
        whole = (rows.index_select(0, order) for rows in (self.inputs, self.labels))  # twice as fast as rows[order]
        yield from zip(*(torch.split(rows, self.size)[skip:] for rows in whole), strict=True)


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

    def _batches(self, order: Tensor, skip: int) -> Iterator[Batch]:
        left = order[skip * self.size :]
        for chosen, inputs in zip(torch.split(left, self.size), self._gather(order, self.size, skip), strict=True):
            yield inputs, self.labels[chosen]


class AugmentedDataset(GatherDataset):
    """Rows that are gathered a batch at a time, and changed; what is random follows from the state of that epoch.

    Args:
        gather: gives inputs on the device.
        labels: int64 (n,), on the device.
        size: rows of a batch.
        change: what is done to a batch, on the device.
    """

    def __init__(self, gather: Gather, labels: Tensor, size: int, change: Change) -> None:
        super().__init__(gather, labels, size)
        self._change = change

    def _batches(self, order: Tensor, skip: int) -> Iterator[Batch]:
        noise = torch.rand((len(order), NOISE), generator=self._generator, device=order.device)
        drawn = torch.split(noise[skip * self.size :], self.size)
        yield from map(self._change, super()._batches(order, skip), drawn)


def gather_resident(inputs: Tensor) -> Gather:
    """Gather from inputs that lie on the device as a whole, (n, ...)."""
    return lambda order, size, skip: (inputs[chosen] for chosen in torch.split(order, size)[skip:])


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

    def batches(order: Tensor, size: int, skip: int) -> Iterator[Tensor]:
        together = max(1, BLOCK // (width * size)) * size
        # the order is copied once: each copy from a GPU waits for what it computes
        left = torch.split(order[skip * size :].cpu(), together)
        firsts = range(skip * size, len(order), together)
        for block in prefetch(gather, zip(firsts, left, strict=True)):
            yield from torch.split(block.to(device, non_blocking=True), size)

    return batches


def prefetch(call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield what a function returns for each item; a thread calls it for the next ones meanwhile.

    What the function raises is raised for that item. The thread ends with the iterator, however early.
    """
    pool, rest = ThreadPoolExecutor(1, thread_name_prefix="ahead"), iter(items)
    try:
        waiting = deque(pool.submit(call, item) for item in islice(rest, AHEAD))
        while waiting:
            output = waiting.popleft().result()
            waiting.extend(pool.submit(call, item) for item in islice(rest, 1))
            yield output
    finally:
        pool.shutdown(cancel_futures=True)
