"""The inputs of a graph: an array each, by name, whose first axis is the rows; most graphs have one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.contracts.package import INPUT

Array = npt.NDArray[Any]
Tensors = Mapping[str, Array]


def by_name(inputs: Array | Tensors) -> Tensors:
    """Return inputs by name; an array is the input of a graph that has one."""
    return {INPUT: inputs} if isinstance(inputs, np.ndarray) else inputs


def row_count(tensors: Tensors) -> int:
    """Return how many rows there are."""
    return len(next(iter(tensors.values())))


def take_rows(tensors: Tensors, rows: "slice | Sequence[int] | npt.NDArray[np.integer[Any]]") -> Tensors:
    """Return some rows, in that order; those of a slice are no copy."""
    return {name: array[rows] for name, array in tensors.items()}


def split_rows(tensors: Tensors, size: int) -> Iterator[Tensors]:
    """Yield all rows in batches of a size, the last one of what is left; none is a copy."""
    for first in range(0, row_count(tensors), size):
        yield take_rows(tensors, slice(first, first + size))


def concatenate(parts: Sequence[Tensors]) -> Tensors:
    """Return the rows of one or more parts with the same names, one part after the other; one alone is no copy."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
