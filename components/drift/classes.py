"""What may have changed where a task has classes, beside how far columns have moved."""

from collections.abc import Iterator
from dataclasses import dataclass

from components.classes import statistics
from components.common.config.policy import Drift
from components.common.contracts.drift import Column, Promise, Signal
from components.common.contracts.package import ModelPackage
from components.drift import core

PREDICTED = "predicted"


@dataclass(frozen=True)
class Due:
    """What is known of the days whose labels are due.

    Attributes:
        newest: rows with labels on the newest of these days.
        rows: with labels, on all of them.
        right: those of them whose class was predicted.
    """

    newest: int
    rows: int
    right: int


@dataclass(frozen=True)
class Found:
    """What signals are made of, beside the columns.

    Attributes:
        rows: of the newest day.
        expected: rows a day while the model was trained.
        due: None when no day's labels are due.
        promised: what to expect of the model, None when nobody has measured it.
    """

    rows: int
    expected: float
    due: Due | None
    promised: Promise | None


def numeric(model: ModelPackage) -> list[str]:
    """Return the columns that are compared as numbers."""
    return [*statistics.names(model.classes), core.SCORE]


def columns(model: ModelPackage) -> list[str]:
    """Return all columns that are compared; the class that is predicted counts as an input: what there is of each."""
    return [*statistics.names(model.classes), PREDICTED, core.SCORE]


def signals(columns: list[Column], found: Found, limits: Drift) -> Iterator[Signal]:
    """Yield everything that may have changed."""
    yield from core.shifts(columns, limits)
    yield core.volume(found.rows, found.expected, limits.volume)
    if found.due is None:
        return
    yield core.labels(found.due.newest, found.expected)
    if found.promised is not None:
        yield performance(found.due, found.promised, limits)


def performance(due: Due, promised: Promise, limits: Drift) -> Signal:
    """Compare the accuracy on rows whose labels have arrived with what the model promised."""
    limit = limits.accuracy
    if due.rows < limits.min_rows:
        reason = f"{due.rows} rows with labels; at least {limits.min_rows} are needed to judge the model."
        return Signal(name="performance", value=None, limit=limit, raised=False, reason=reason)
    reached = due.right / due.rows
    lost = promised.value - reached
    reason = f"Accuracy {reached:.3f} where labels are due ({due.rows} rows), {promised.value:.3f} {promised.measured}."
    return Signal(name="performance", value=lost, limit=limit, raised=lost > limit, reason=reason)
