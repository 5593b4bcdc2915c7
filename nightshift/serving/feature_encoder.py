"""Encodes named features as a model's input matrix, without a DataFrame, which would take most of a request's time."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nightshift.contracts.preprocessing import Inputs
from nightshift.data.values import canonical
from nightshift.http.errors import RequestError
from nightshift.runtime.errors import nearest
from nightshift.serving.payloads import check_list

LARGEST = float(np.finfo(np.float32).max)


class FeatureEncoder:
    """Encodes requests as a model's input matrix.

    Attributes:
        nullable: positions in the matrix of the numbers that may be missing.
    """

    def __init__(self, inputs: Inputs, max_rows: int) -> None:
        """Lay out the matrix.

        Args:
            inputs: the model's named inputs.
            max_rows: most instances of a request.
        """
        self._columns, self._known, self._numeric = inputs.columns, frozenset(inputs.columns), inputs.numeric
        self._nullable, self._max_rows = frozenset(inputs.nullable), max_rows
        self.nullable = frozenset(map(inputs.numeric.index, inputs.nullable))
        self._indexes: dict[str, dict[str, int]] = {}
        self._width = len(inputs.numeric)
        for column, categories in sorted(inputs.categorical.items()):
            self._indexes[column] = {category: self._width + i for i, category in enumerate(categories)}
            self._width += len(categories)

    def encode(self, request: object) -> npt.NDArray[np.float32]:
        """Encode a request as `inputs.matrix` does its frame: float32 of shape (instances, inputs.width).

        Args:
            request: `{"instances": [{feature: value, ...}, ...]}`, 1 or more instances, features in any order.

        Raises:
            RequestError: for the first field that is not valid.
        """
        if not isinstance(request, dict) or set(request) != {"instances"}:
            raise RequestError("body", request, 'an object {"instances": [...]}')
        instances = check_list("instances", request["instances"], self._max_rows)
        rows = np.zeros((len(instances), self._width), dtype=np.float32)
        for i, instance in enumerate(instances):
            self._fill(rows[i], instance, f"instances[{i}]")
        return rows

    def encode_columns(
        self, numeric: Sequence[Sequence[float]], categories: Sequence[Mapping[str, str]]
    ) -> npt.NDArray[np.float32]:
        """Encode rows with computed numeric inputs: float32 of shape (rows, inputs.width).

        Args:
            numeric: the numeric inputs of each row, in their order.
            categories: the categorical inputs of each row, by column.
        """
        columns = np.array(numeric, dtype=np.float32)
        if not self._indexes:
            return columns
        rows = np.zeros((len(numeric), self._width), dtype=np.float32)
        rows[:, : len(self._numeric)] = columns
        for row, values in zip(rows, categories, strict=True):
            self._mark(row, values)
        return rows

    def _fill(self, row: npt.NDArray[np.float32], instance: object, field: str) -> None:
        if not isinstance(instance, dict):
            raise RequestError(field, instance, f"an object with {', '.join(self._columns)}")
        if instance.keys() != self._known:
            self._refuse_names(instance, field)
        row[: len(self._numeric)] = [self._number(instance[name], name, field) for name in self._numeric]
        self._mark(row, {name: _parse_text(instance[name], name, field) for name in self._indexes})

    def _number(self, value: object, name: str, instance: str) -> float:
        # True is an int to Python; a comparison with NaN is false
        if not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= LARGEST:
            return float(value)
        if value is None and name in self._nullable:
            return math.nan
        allowed = "a finite number within the range of float32"
        raise RequestError(f"{instance}.{name}", value, f"{allowed}, or null" if name in self._nullable else allowed)

    def _mark(self, row: npt.NDArray[np.float32], values: Mapping[str, str]) -> None:
        for name, indexes in self._indexes.items():
            index = indexes.get(values[name])
            if index is not None:  # a category unknown to training is all zeros
                row[index] = 1

    def _refuse_names(self, instance: dict[str, object], field: str) -> None:
        for name in instance:
            if name not in self._known:
                close = nearest(name, self._columns)
                raise RequestError(f"{field}.{name}", instance[name], f"only {', '.join(self._columns)}{close}")
        missing = next(name for name in self._columns if name not in instance)
        raise RequestError(f"{field}.{missing}", "missing", f"all of {', '.join(self._columns)}")


def _parse_text(value: object, name: str, instance: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{instance}.{name}", value, "a text")
    text = canonical(value)
    return value if text is None else text
