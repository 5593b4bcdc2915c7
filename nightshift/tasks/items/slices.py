"""Slices of items by numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

THIRDS = (1 / 3, 2 / 3)


def split_thirds(name: str, values: npt.NDArray[Any]) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield what thirds of n rows are called, by a figure of each, (n,), and which rows they are, bool (n,)."""
    edges = np.unique(np.quantile(values, THIRDS, method="lower"))
    third = np.searchsorted(edges, values, side="left")
    for number, edge in enumerate(edges):
        yield f"{name} {f'{edges[number - 1]:.4g} to' if number else 'up to'} {edge:.4g}", third == number
    yield f"{name} above {edges[-1]:.4g}", third == len(edges)
