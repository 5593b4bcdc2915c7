"""Reasons of a score: the inputs that moved it most, signed, in the model's margin, with a text for people."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nightshift import kinds, storage
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.preprocessing import Inputs
from nightshift.models.contributions import Array, Contributions
from nightshift.runtime.errors import UserError
from nightshift.tabular.reason_texts import ReasonTexts, Values

GUIDE = "docs/guides/reasons.md"


class Reason(NamedTuple):
    """Why a score is as it is.

    Attributes:
        input: its name.
        contribution: to the margin, above 0 where it raises the score.
        text: for people.
    """

    input: str
    contribution: float
    text: str


@dataclass(frozen=True)
class Explainer:
    """What a model's scores are explained by.

    Attributes:
        inputs: of the model.
        contributions: of the columns of its matrix.
    """

    inputs: Inputs
    contributions: Contributions

    @classmethod
    def load(cls, uri: str, model: ModelPackage) -> "Explainer":
        """Read the reasons of the model at a URI.

        Raises:
            UserError: when it has none, or their bytes are not those that the manifest names.
        """
        if model.reasons is None:
            raise UserError(
                f"the model at {uri} has no reasons: {missing(model)}; train again with one of them, or write "
                "scoring.reasons: 0"
            )
        path = storage.join(uri, model.reasons.name)
        content = storage.read_bytes(path)
        package.check(path, storage.sha256(content), model.reasons)
        return cls(model.inputs, Contributions.read(content))

    def explain(self, matrix: Array, most: int) -> list[list[Reason]]:
        """Return the reasons of each row, the largest contribution first, equal ones in the order of the inputs.

        Args:
            matrix: as the graph takes it, float32 (n, d).
            most: reasons of a row; one that contributes nothing is none.
        """
        names, texts = self._names, self._texts
        # row by row, so that the bits of a sum do not depend on how many rows there are
        total = np.array([np.bincount(self._owners, row, len(names)) for row in self.contributions.compute(matrix)])
        total = total.reshape(len(matrix), len(names))
        largest = np.argsort(-np.abs(total), axis=1, kind="stable")[:, :most]
        return [
            [
                Reason(names[column], float(row[column]), texts.write(names[column], values))
                for column in chosen
                if row[column]
            ]
            for row, chosen, values in zip(total, largest.tolist(), read_values(self.inputs, matrix), strict=True)
        ]

    @cached_property
    def _names(self) -> list[str]:
        return [*self.inputs.numeric, *sorted(self.inputs.categorical)]

    @cached_property
    def _owners(self) -> npt.NDArray[np.intp]:
        """Which input each column of the matrix is of, (columns,)."""
        numbers = [1] * len(self.inputs.numeric)
        widths = [len(categories) for _, categories in sorted(self.inputs.categorical.items())]
        return np.repeat(np.arange(len(self._names)), [*numbers, *widths])

    @cached_property
    def _texts(self) -> ReasonTexts:
        return ReasonTexts(self.inputs)


def missing(model: ModelPackage) -> str:
    """Return why a model has no reasons, and where those that have some are named."""
    if not kinds.find(model.kind).config_class.EXPLAINS:
        return f"scores of task {model.kind} have no reasons"
    kind = model.candidates[model.selected].kind
    return f"its candidate {model.selected!r} of kind {kind} is not explained; {GUIDE} names the kinds that are"


def read_values(inputs: Inputs, matrix: Array) -> Iterator[Values]:
    """Yield the inputs of each row by name: a number, a category, or None where it is missing or new."""
    first = len(inputs.numeric)
    for row in matrix:
        values: dict[str, float | str | None] = {
            name: None if np.isnan(value) else float(value)
            for name, value in zip(inputs.numeric, row[:first], strict=True)
        }
        start = first
        for column, categories in sorted(inputs.categorical.items()):
            marks = np.flatnonzero(row[start : start + len(categories)])
            values[column] = categories[marks[0]] if len(marks) else None
            start += len(categories)
        yield values
