"""Reasons by request, `/score?reasons=3`: those of the version that scores a row, within a budget of milliseconds."""

import asyncio
import timeit
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import numpy as np

from nightshift.http.errors import OverloadedError, RefusedError, RequestError
from nightshift.models.contributions import Array
from nightshift.serving.batching import QUICK_SECONDS
from nightshift.tabular.reasons import Explainer, Reason, missing

if TYPE_CHECKING:
    from nightshift.serving.versions import Model

FIELD = "reasons"
TIMED_CALLS = 6
MAX_DIGITS = 4  # no model has as many inputs


class ReasonLimits:
    """Explains rows of one version, as long as that takes no longer than a budget.

    Attributes:
        explainer: of the version.
        row_ms: milliseconds that a row takes, measured when the version is loaded.
        budget_ms: milliseconds that a request may take, those that wait before it included.
    """

    def __init__(self, explainer: Explainer, budget_ms: float) -> None:
        self.explainer, self.budget_ms = explainer, budget_ms
        self.row_ms = _time_row(explainer)
        self._thread = ThreadPoolExecutor(1, FIELD)  # started by the first request that takes long
        self._waiting = 0  # rows

    def check(self, rows: int) -> None:
        """Refuse more rows than the budget allows, which is the same for every request.

        Raises:
            RefusedError: naming how many it allows.
        """
        if rows * self.row_ms <= self.budget_ms:
            return
        most = int(self.budget_ms / self.row_ms)
        advice = f"send at most {most} at a time, or" if most else "train with fewer or smaller trees, or"
        raise RefusedError(
            f"reasons of {rows} rows take about {rows * self.row_ms:.0f} ms, more than the budget of "
            f"{self.budget_ms:g} ms; {advice} start the server with a larger --reasons-ms",
            field=FIELD,
        )

    async def explain(self, matrix: Array, most: int) -> list[list[Reason]]:
        """Return the reasons of rows; see `Explainer.explain`.

        Raises:
            RefusedError: when there are too many rows, or so many wait that the budget would not be kept.
        """
        rows = len(matrix)
        self.check(rows)
        if rows * self.row_ms < 1000 * QUICK_SECONDS:
            return self.explainer.explain(matrix, most)
        if (self._waiting + rows) * self.row_ms > self.budget_ms:
            raise OverloadedError(f"reasons of {self._waiting} rows are computed already; try again later")
        self._waiting += rows
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self.explainer.explain, matrix, most)
        finally:
            self._waiting -= rows


def _time_row(explainer: Explainer) -> float:
    """Return the milliseconds of a warm call with one row: the least of several, since other work delays some."""
    row = np.zeros((1, explainer.inputs.width), np.float32)
    return 1000 * min(timeit.repeat(lambda: explainer.explain(row, 1), number=1, repeat=TIMED_CALLS))


def read_count(query: bytes, model: "Model") -> int:
    """Return how many reasons a request wants of each row; 0: it does not ask for any.

    Raises:
        RefusedError: when it is no number that the model can give.
    """
    values = parse_qs(query.decode("latin-1"), keep_blank_values=True).get(FIELD)
    if values is None:
        return 0
    text, most = ",".join(values), len(find_limits(model).explainer.inputs.columns)
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS and 1 <= int(text) <= most):
        raise RequestError(FIELD, text, f"a whole number from 1 to {most}, the inputs of the model")
    return int(text)


def refuse_tensors(query: bytes) -> None:
    """Refuse reasons of tensors, whose answers have no place for them.

    Raises:
        RefusedError: naming the path that has.
    """
    if FIELD in parse_qs(query.decode("latin-1"), keep_blank_values=True):
        raise RefusedError("reasons: tensors have none; send instances or events to /score?reasons=3", field=FIELD)


def find_limits(model: "Model") -> ReasonLimits:
    """Return what explains a version's scores.

    Raises:
        RefusedError: when nothing does.
    """
    if model.reasons is None:
        raise RefusedError(
            f"reasons: version {model.pointer.version} has none: {missing(model.package)}; leave reasons out",
            field=FIELD,
        )
    return model.reasons


def check_count(model: "Model", rows: int, most: int) -> None:
    """Refuse more reasons than a version gives; see `add_reasons`."""
    if most:
        find_limits(model).check(rows)


async def add_reasons(
    model: "Model", matrix: Array, predictions: Sequence[Mapping[str, Any]], most: int
) -> Sequence[Mapping[str, Any]]:
    """Return predictions with the reasons of the version that they are of; as they are where none are wanted.

    Args:
        model: the version.
        matrix: the rows, float32 (n, d).
        predictions: of the rows.
        most: reasons of each; 0: none.

    Raises:
        RefusedError: when the version has none, or they take too long.
    """
    if not most:
        return predictions
    explained = await find_limits(model).explain(matrix, most)
    return [
        {**prediction, FIELD: [reason._asdict() for reason in reasons]}
        for prediction, reasons in zip(predictions, explained, strict=True)
    ]
