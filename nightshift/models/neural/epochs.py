"""The rows of an epoch in the order of its batches, and which of them a process has."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowShare:
    """Which rows of each batch a process has: one of equal parts, in order.

    Attributes:
        index: of the part.
        processes: how many parts there are.
        multiple: rows that are taken together, from the batch's first on: those around the part's own are taken too.
    """

    index: int = 0
    processes: int = 1
    multiple: int = 1

    def bounds(self, size: int) -> tuple[int, int]:
        """Return where the process's own rows of a batch begin and end; it may have none."""
        return self.index * size // self.processes, (self.index + 1) * size // self.processes

    def span(self, size: int) -> slice:
        """Return the rows of a batch that the process takes: at least one, if the batch has any."""
        start, end = self.bounds(size)
        before, after = start % self.multiple, -max(end, start + 1) % self.multiple
        return slice(start - before, min(max(end, start + 1) + after, size))

    def select(self, values: Tensor, size: int) -> Tensor:
        """Return what the process takes of an epoch's values, (n, ...), in batches of a size; (m, ...)."""
        whole = len(values) // size
        batches, rest = values[: whole * size].view(whole, size, *values.shape[1:]), values[whole * size :]
        return torch.cat([batches[:, self.span(size)].flatten(0, 1), rest[self.span(len(rest))]])

    def sizes(self, rows: int, size: int) -> list[int]:
        """Return how many rows the process takes of each batch of an epoch."""
        counts = [size] * (rows // size) + [rows % size] * (rows % size > 0)
        return [span.stop - span.start for span in map(self.span, counts)]


WHOLE = RowShare()


@dataclass(frozen=True)
class Epoch:
    """An epoch, as a process goes through it.

    Attributes:
        order: numbers of all rows, (n,).
        size: rows of a batch.
        share: what the process has of each batch.
        skip: batches that it has had before.
    """

    order: Tensor
    size: int
    share: RowShare = WHOLE
    skip: int = 0

    @property
    def rows(self) -> Tensor:
        """Numbers of the process's rows, (m,); of skipped batches too."""
        return self.select(self.order)

    @property
    def counts(self) -> list[int]:
        """How many rows the process takes of each batch; of skipped ones too."""
        return self.share.sizes(len(self.order), self.size)

    @property
    def sizes(self) -> list[int]:
        """Rows of each whole batch that is left."""
        return WHOLE.sizes(len(self.order), self.size)[self.skip :]

    def select(self, values: Tensor) -> Tensor:
        """Return what the process takes of values in the order of the epoch, (n, ...) -> (m, ...)."""
        return values if self.share == WHOLE else self.share.select(values, self.size)

    def split(self, values: Tensor) -> Sequence[Tensor]:
        """Return values of the process's rows, (m, ...), by batches that are left."""
        return torch.split(values, self.counts)[self.skip :]
