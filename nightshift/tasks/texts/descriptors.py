"""What can be said of texts without a model."""

import numpy as np
import numpy.typing as npt

from nightshift.contracts.preprocessing import TextPreprocessing
from nightshift.items.tokens import Tokens

NAMES: tuple[str, ...] = ("tokens", "variety")


def describe(preprocessing: TextPreprocessing, tokens: Tokens) -> list[npt.NDArray[np.float32]]:
    """Return the figures of each text, (n,) each; see `measure`."""
    return measure(tokens, preprocessing.pad)


def measure(tokens: Tokens, pad: int) -> list[npt.NDArray[np.float32]]:
    """Return how many tokens each text has, and the share of them that are different ones, (n,) each.

    Args:
        tokens: numbers, int32 (n, length).
        pad: the number that fills texts up.
    """
    ordered = np.sort(tokens, axis=1)
    is_first = np.diff(ordered, axis=1, prepend=-1) != 0
    count, different = (tokens != pad).sum(1), (is_first & (ordered != pad)).sum(1)
    return [count.astype(np.float32), (different / np.maximum(count, 1)).astype(np.float32)]
