"""The inputs of a graph: arrays by name with rows on the first axis; most graphs have one input."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.contracts.package import INPUT, Tensor

Array = npt.NDArray[Any]
Tensors = Mapping[str, Array]


def by_name(inputs: Array | Tensors) -> Tensors:
    """Return inputs by name; a structured array has one a field, any other array is the input `inputs`."""
    if not isinstance(inputs, np.ndarray):
        return inputs
    return {name: inputs[name] for name in inputs.dtype.names} if inputs.dtype.names else {INPUT: inputs}


def make_zeros(inputs: Iterable[Tensor]) -> Tensors:
    """Return one row of zeros for inputs of a signature."""
    return {tensor.name: np.zeros((1, *tensor.shape[1:]), tensor.datatype.dtype) for tensor in inputs}


def row_count(tensors: Tensors) -> int:
    """Return the number of rows."""
    return len(next(iter(tensors.values())))


def take_rows(tensors: Tensors, rows: "slice | Sequence[int] | npt.NDArray[np.integer[Any]]") -> Tensors:
    """Return some rows, in this order; a slice's are not copied."""
    return {name: array[rows] for name, array in tensors.items()}


def split_rows(tensors: Tensors, size: int) -> Iterator[Tensors]:
    """Yield all rows in batches of a size, the last one perhaps smaller, without copies."""
    for first in range(0, row_count(tensors), size):
        yield take_rows(tensors, slice(first, first + size))


def concatenate(parts: Sequence[Tensors]) -> Tensors:
    """Concatenate the rows of parts with the same names; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
