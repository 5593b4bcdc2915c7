"""What may have changed where a task has classes, beside how far columns have moved.

A window holds a thousand images where a table has a hundred thousand rows. So a limit is what the config says, or what
samples of these sizes show by chance, whichever is larger: too few rows raise nothing, and many are held to the config.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.stats import chi2, norm

from components.classes import statistics
from components.common.config.policy import Drift
from components.common.contracts.drift import Column, Promise, Signal
from components.common.contracts.package import ModelPackage
from components.drift import core, embeddings
from components.drift.embeddings import RARE, Effect, Floats

PREDICTED = "predicted"
FEWEST, MOST = 20, 2000  # newest rows by which embeddings are compared, all with all


def numeric(model: ModelPackage) -> list[str]:
    """Return the columns that are compared as numbers."""
    return [*statistics.names(model.classes), core.SCORE]


def columns(model: ModelPackage) -> list[str]:
    """Return all columns that are compared; the class that is predicted counts as an input: what there is of each."""
    return [*statistics.names(model.classes), PREDICTED, core.SCORE]


@dataclass(frozen=True)
class Due:
    """What is known of the days whose labels are due.

    Attributes:
        newest: rows with labels on the newest of these days.
        rows: with labels, on all of them.
        right: those of them whose class was predicted.
        unlearned: class that no training row has -> those of them that have it.
    """

    newest: int
    rows: int
    right: int
    unlearned: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What signals are made of, beside the columns.

    Attributes:
        rows: of the newest day.
        expected: rows a day while the model was trained.
        due: None when no day's labels are due.
        promised: what to expect of the model, None when nobody has measured it.
        reference: embeddings of the reference, (m, width).
        days: embeddings of each of the newest days that have rows, the newest last, (n, width) each.
    """

    rows: int | None
    expected: float
    reference: Floats
    days: list[Floats]
    due: Due | None
    promised: Promise | None


def stacked(embedded: pd.Series) -> Floats:
    """Return a column of embeddings as float64 (n, width), without the rows that have none."""
    found = embedded.dropna().to_list()
    return np.array(found, dtype=float).reshape(len(found), -1 if found else 0)


def beyond_chance(limits: Drift, reference: pd.DataFrame, rows: int) -> Drift:
    """Return limits of columns that samples of these sizes exceed by chance once in 1 / `RARE` times at most.

    Where nothing has changed, the stability index is a multiple of chi square (Yurdakul, Statistical properties of
    population stability index, 2018). The 1-Wasserstein distance is no less than that of the means, and has been seen
    to exceed what those exceed as rarely, within a tenth, for normal, log-normal, uniform and confidence-like values.

    Args:
        limits: the config's.
        reference: `columns`.
        rows: with which it is compared.
    """
    scale, bins = 1 / len(reference) + 1 / max(rows, 1), max(core.BINS, reference[PREDICTED].nunique())
    psi, distance = float(chi2.isf(RARE, bins)) * scale, float(norm.isf(RARE / 2)) * scale**0.5
    return limits.model_copy(update={"psi": max(limits.psi, psi), "wasserstein": max(limits.wasserstein, distance)})


def signals(columns: list[Column], found: Found, limits: Drift) -> Iterator[Signal]:
    """Yield everything that may have changed."""
    yield from core.shifts(columns, limits)
    yield from seen(found.reference, found.days, limits)
    yield core.volume(found.rows, found.expected, limits.volume)
    if found.due is None:
        return
    yield core.labels(found.due.newest, found.expected)
    if any(found.due.unlearned.values()):
        yield unlearned(found.due, limits)
    if found.promised is not None:
        yield performance(found.due, found.promised, limits)


def seen(reference: Floats, days: Sequence[Floats], limits: Drift) -> Iterator[Signal]:
    """Yield how far the network's view of the newest days lies from its view of the reference, given enough of both.

    Novelty is looked for on the newest day, the newest two and so on: of many rows a day shows it, of few the window.

    Args:
        reference: embeddings, (m, width).
        days: embeddings of each of the newest days that have rows, the newest last, (n, width) each.
        limits: of the config.
    """
    if min(len(reference), sum(map(len, days))) < FEWEST:
        return
    reference, days = embeddings.standardized(reference, days)
    new = [_novelty(rows, found, limits) for rows, found in embeddings.novelties(reference, days)]
    yield max(new, key=lambda signal: (signal.value or 0) / signal.limit)
    window = np.concatenate(days)
    window = window[:: -(-len(window) // MOST)]
    told = embeddings.separability(reference, window)
    reason = f"A classifier tells newest rows from the reference with a ROC AUC of {0.5 + told.value:.3f}"
    yield _signal("domain_classifier", told, limits.domain_classifier, reason)
    far = embeddings.discrepancy(reference, window)
    reason = f"The maximum mean discrepancy of newest rows and the reference is {far.value:.3f}"
    yield _signal("mmd", far, limits.mmd, reason)


def _novelty(rows: int, found: Effect, limits: Drift) -> Signal:
    unlike = f"{found.value:.1%} of the newest {rows:,} rows are less like the reference than"
    return _signal("novelty", found, limits.novelty, f"{unlike} {embeddings.KNOWN:.0%} of its own")


def _signal(name: str, found: Effect, limit: float, reason: str) -> Signal:
    limit = max(limit, found.chance)
    told = f"{reason} (effect {found.value:.3f}, limit {limit:.3f})."
    return Signal(name=name, value=found.value, limit=limit, raised=found.value > limit, reason=told)


def unlearned(due: Due, limits: Drift) -> Signal:
    """Return how many labeled rows are of classes that no training row has; too many are news as `novelty` is."""
    rows = sum(due.unlearned.values())
    share = rows / due.rows
    told = ", ".join(f"{name!r} ({count})" for name, count in due.unlearned.items() if count)
    reason = f"{rows} of {due.rows} labeled rows are of classes that no training row of the model has: {told}."
    return Signal(name="classes", value=share, limit=limits.novelty, raised=share > limits.novelty, reason=reason)


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
