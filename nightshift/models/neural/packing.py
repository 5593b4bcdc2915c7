"""Sequence packing: tokenized documents are concatenated and cut into rows of equal length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nightshift.models.neural.data import Gather, GatherDataset, Samples
from nightshift.models.neural.epochs import Epoch

BLOCK = 1 << 10  # rows whose targets are counted at once

Tokens = npt.NDArray[np.int32]
Targets = npt.NDArray[np.float32]


def pack(documents: Sequence[Tokens], start: int, length: int) -> Tokens:
    """Pack documents into rows; only the last row is padded.

    A row's last token is the next row's first, so that each token but `start` is a target once.

    Args:
        documents: token ids, int32 (tokens,) each, beginning with `start`; at least one document.
        start: id of the token that begins a document; also pads the last row.
        length: sequence length in predicted tokens.

    Returns:
        rows, int32 (n, length + 1).
    """
    stream = np.concatenate(documents)
    count = max(1, -(-(len(stream) - 1) // length))
    filled = np.full(count * length + 1, start, np.int32)
    filled[: len(stream)] = stream
    rows: Tokens = np.lib.stride_tricks.sliding_window_view(filled, length + 1)[::length].copy()
    return rows


@dataclass(frozen=True)
class TargetTokens:
    """Which tokens a network learns to predict.

    Attributes:
        start: the id that begins a document, which is none.
        vocabulary: ids below it are learned; those from it on stand for the same tokens, which are read only.
    """

    start: int
    vocabulary: int

    def weigh(self, rows: Tensor) -> Tensor:
        """Return the loss weights of the tokens after the first, (b, length + 1) -> float32 (b, length): 0 or 1."""
        after = rows[:, 1:]
        return ((after != self.start) & (after < self.vocabulary)).float()

    def count(self, rows: Tokens) -> Targets:
        """Return how many tokens of each row are targets, (n, length + 1) -> float32 (n,)."""
        blocks = torch.split(torch.from_numpy(rows), BLOCK)
        counts: Targets = torch.cat([self.weigh(block).sum(1) for block in blocks]).numpy()
        return counts


class PackedDataset(GatherDataset):
    """Packed rows, whose labels are the loss weights of the tokens after the first, (n, length).

    The weights of a whole batch are scaled so that its loss is the mean over its target tokens.

    Args:
        gather: gives packed rows, (n, length + 1), on the device.
        counts: target tokens of each row, (n,), on the device.
        size: rows of a batch.
        targets: which tokens they are.
    """

    def __init__(self, gather: Gather, counts: Tensor, size: int, targets: TargetTokens) -> None:
        super().__init__(gather, counts, size)
        self._targets = targets

    def _batches(self, epoch: Epoch) -> Iterator[Samples]:
        whole = torch.split(self.labels[epoch.order], epoch.size)[epoch.skip :]
        for (rows, _), counts in zip(super()._batches(epoch), whole, strict=True):
            scale = len(counts) / counts.sum().clamp(min=1)
            yield rows % self._targets.vocabulary, self._targets.weigh(rows) * scale
