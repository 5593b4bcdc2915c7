"""Documents of tokens, one after the other, cut into rows of a length."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from nightshift.neural.data import Batch, ResidentDataset

Tokens = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float32]


def pack(documents: Sequence[Tokens], start: int, length: int) -> tuple[Tokens, Weights]:
    """Return documents as rows, none of which is empty but for its end.

    A row's last token is the next one's first, so that each token but `start` is predicted once.

    Args:
        documents: numbers of tokens, of which the first is `start`, int32 (tokens,) each; at least one document.
        start: the number that begins a document, and fills up the last row.
        length: tokens of a row, each of which predicts the next one.

    Returns:
        rows, int32 (n, length + 1); and what each token after the first counts, float32 (n, length): 1, but 0 where it
        is `start`, which nothing predicts.
    """
    stream = np.concatenate(documents)
    count = max(1, -(-(len(stream) - 1) // length))
    filled = np.full(count * length + 1, start, np.int32)
    filled[: len(stream)] = stream
    rows: Tokens = np.lib.stride_tricks.sliding_window_view(filled, length + 1)[::length].copy()
    return rows, (rows[:, 1:] != start).astype(np.float32)


class PackedDataset(ResidentDataset):
    """Packed rows (n, length + 1), whose labels are what each token after the first counts, float32 (n, length).

    Those of a batch are scaled so that its loss is the mean over its tokens.
    """

    def _batches(self, order: Tensor, skip: int) -> Iterator[Batch]:
        for rows, weights in super()._batches(order, skip):
            yield rows, weights * (len(weights) / weights.sum().clamp(min=1))
