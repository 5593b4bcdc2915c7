"""Named features to a model's input matrix, without a DataFrame, which would take most of a request's time."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nightshift.contracts.preprocessing import Inputs
from nightshift.errors import nearest
from nightshift.serving.errors import RequestError
from nightshift.serving.payloads import check_list
from nightshift.values import canonical

LARGEST = float(np.finfo(np.float32).max)


class Rows:
    """Turns requests into a model's input matrix."""

    def __init__(self, inputs: Inputs, most: int) -> None:
        """Lay out the matrix.

        Args:
            inputs: the model's named inputs.
            most: instances a request may have.
        """
        self._columns, self._known, self._numeric = inputs.columns, frozenset(inputs.columns), inputs.numeric
        self._most = most
        self._places: dict[str, dict[str, int]] = {}
        self._width = len(inputs.numeric)
        for column, categories in sorted(inputs.categorical.items()):
            self._places[column] = {category: self._width + i for i, category in enumerate(categories)}
            self._width += len(categories)

    def matrix(self, request: object) -> npt.NDArray[np.float32]:
        """Return a request as `inputs.matrix` gives its frame, float32 of shape (instances, inputs.width).

        Args:
            request: `{"instances": [{feature: value, ...}, ...]}`, 1 or more instances, features in any order.

        Raises:
            RequestError: at the first thing that is not so.
        """
        if not isinstance(request, dict) or set(request) != {"instances"}:
            raise RequestError("body", request, 'an object {"instances": [...]}')
        instances = check_list("instances", request["instances"], self._most)
        rows = np.zeros((len(instances), self._width), dtype=np.float32)
        for i, instance in enumerate(instances):
            self._fill(rows[i], instance, f"instances[{i}]")
        return rows

    def joined(
        self, numeric: Sequence[Sequence[float]], categories: Sequence[Mapping[str, str]]
    ) -> npt.NDArray[np.float32]:
        """Return rows whose numeric inputs are known, float32 of shape (rows, inputs.width).

        Args:
            numeric: the numeric inputs of each row, in their order.
            categories: the categorical inputs of each row, by column.
        """
        known = np.array(numeric, dtype=np.float32)
        if not self._places:
            return known
        rows = np.zeros((len(numeric), self._width), dtype=np.float32)
        rows[:, : len(self._numeric)] = known
        for row, values in zip(rows, categories, strict=True):
            self._mark(row, values)
        return rows

    def _fill(self, row: npt.NDArray[np.float32], instance: object, where: str) -> None:
        if not isinstance(instance, dict):
            raise RequestError(where, instance, f"an object with {', '.join(self._columns)}")
        if instance.keys() != self._known:
            self._refuse_names(instance, where)
        row[: len(self._numeric)] = [_number(instance[name], name, where) for name in self._numeric]
        self._mark(row, {name: _text(instance[name], name, where) for name in self._places})

    def _mark(self, row: npt.NDArray[np.float32], values: Mapping[str, str]) -> None:
        for name, places in self._places.items():
            place = places.get(values[name])
            if place is not None:  # a category that training never saw is all zeros
                row[place] = 1

    def _refuse_names(self, instance: dict[str, object], where: str) -> None:
        for name in instance:
            if name not in self._known:
                close = nearest(name, self._columns)
                raise RequestError(f"{where}.{name}", instance[name], f"only {', '.join(self._columns)}{close}")
        missing = next(name for name in self._columns if name not in instance)
        raise RequestError(f"{where}.{missing}", "missing", f"all of {', '.join(self._columns)}")


def _number(value: object, name: str, where: str) -> float:
    # True is an int to Python; a comparison with NaN is false
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise RequestError(f"{where}.{name}", value, "a finite number within the range of float32")
    return float(value)


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{where}.{name}", value, "a text")
    return canonical(value) or value
