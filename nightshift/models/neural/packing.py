"""Sequence packing: tokenized documents are concatenated and cut into rows of equal length."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from nightshift.models.neural.data import Batch, ResidentDataset

Tokens = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float32]


def pack(documents: Sequence[Tokens], start: int, length: int) -> tuple[Tokens, Weights]:
    """Pack documents into rows; only the last row is padded.

    A row's last token is the next row's first, so that each token but `start` is a target once.

    Args:
        documents: token ids, int32 (tokens,) each, beginning with `start`; at least one document.
        start: id of the token that begins a document; also pads the last row.
        length: sequence length in predicted tokens.

    Returns:
        rows, int32 (n, length + 1); and the loss weights of the tokens after the first, float32 (n, length): 0 for
        `start`, else 1.
    """
    stream = np.concatenate(documents)
    count = max(1, -(-(len(stream) - 1) // length))
    filled = np.full(count * length + 1, start, np.int32)
    filled[: len(stream)] = stream
    rows: Tokens = np.lib.stride_tricks.sliding_window_view(filled, length + 1)[::length].copy()
    return rows, (rows[:, 1:] != start).astype(np.float32)


class PackedDataset(ResidentDataset):
    """Packed rows, (n, length + 1), whose labels are the loss weights of the tokens after the first, (n, length).

    The weights of a batch are scaled so that its loss is the mean over its target tokens.
    """

    def _batches(self, order: Tensor, skip: int) -> Iterator[Batch]:
        for rows, weights in super()._batches(order, skip):
            yield rows, weights * (len(weights) / weights.sum().clamp(min=1))
