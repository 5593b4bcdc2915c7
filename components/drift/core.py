"""How far the newest rows lie from the rows a model carries, as effect sizes.

Effect sizes and not p-values: with many rows every test rejects, with few none does. Rows are counted into
bins that the reference gives, batch by batch, so that a day of any size is one pass in bounded memory.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import wasserstein_distance

from components.common.config.policy import Drift
from components.common.contracts.drift import Column, Promise, Signal
from components.common.contracts.verdict import Decision, Measure, Verdict

Floats = npt.NDArray[np.floating[Any]]
Counts = dict[str, Floats]  # column -> counts of its bins

BINS = 10
FINE_BINS = 100  # of equal mass, and as many of equal width, for the distance
EPSILON = 1e-4  # an empty bin counts as this share, or a single row in it would be an infinite shift
SCORE, LABELS = "score", "labels"
SCORE_BITS = 12  # of float32, dropped where scores are ranked: what differs by less than 0.05 % is a tie
SCORE_BINS = (int(np.float32(1).view(np.int32)) >> SCORE_BITS) + 1
REFERENCE_POSITIVES = 50  # fewer are no reference
NAMED = 3  # drifted inputs among the reasons; drift.json has them all
LABELLED = 0.5  # share of a usual day's rows that have labels, below which labels are late


class Bins(Protocol):
    """The bins of one column, as its reference gives them."""

    def count(self, values: pd.Series) -> Floats:
        """Return what the measures need of some rows; the counts of batches add up."""

    def measure(self, name: str, before: Floats, now: Floats, limits: Drift) -> Column:
        """Return how far the counts `now` are from the counts `before`."""


@dataclass(frozen=True)
class Numbers:
    """Bins of a numeric column.

    Attributes:
        edges: inclusive upper edges of the fine bins, ascending; (b,). Two more bins follow: above, and missing.
        coarse: the bin of the stability index that each of the b + 2 fine bins lies in; (b + 2,).
        spread: standard deviation of the reference; 0 when it is constant.
    """

    edges: Floats
    coarse: npt.NDArray[np.intp]
    spread: float

    @classmethod
    def of(cls, reference: Floats) -> "Numbers":
        """Return the bins for a reference, (n,), NaN where missing."""
        coarse = bin_edges(reference)
        finite = reference[np.isfinite(reference)]
        edges = np.unique(np.concatenate([coarse, _fine_edges(finite)]))
        within = np.searchsorted(coarse, edges, side="left")
        # rounding gives a constant a spread, and underflow takes it from tiny values
        spread = float(finite.std()) if len(finite) and np.ptp(finite) else 0.0
        return cls(edges, np.append(within, [len(coarse), len(coarse) + 1]), spread)

    def count(self, values: pd.Series) -> Floats:
        """Return, a bin each: all rows, rows with a finite value, and the sum of these; (3, b + 2)."""
        numbers = values.to_numpy(dtype=float)
        finite = np.isfinite(numbers)
        # NaN sorts after infinity, which closes the last bin of numbers
        at, size = np.searchsorted(np.append(self.edges, np.inf), numbers, side="left"), len(self.edges) + 2
        sums = np.bincount(at, weights=np.where(finite, numbers, 0.0), minlength=size)
        return np.stack([np.bincount(at, minlength=size), np.bincount(at[finite], minlength=size), sums])

    def measure(self, name: str, before: Floats, now: Floats, limits: Drift) -> Column:
        """Return how far a numeric column has moved."""
        expected, actual = (np.bincount(self.coarse, weights=side[0]) / side[0].sum() for side in (before, now))
        psi, distance = stability_index(expected, actual), self.distance(before, now)
        drifted = psi > limits.psi or (distance is not None and distance > limits.wasserstein)
        return Column(
            name=name,
            psi=psi,
            wasserstein=distance,
            drifted=drifted,
            reference_mean=_mean(before),
            current_mean=_mean(now),
        )

    def distance(self, before: Floats, now: Floats) -> float | None:
        """Return the 1-Wasserstein distance (earth mover's) in standard deviations of the reference.

        Every bin's values are taken to lie at their mean. By the triangle inequality the error is at most the
        mean distance of values from their bin's mean, both sides added; it is 0 where all have moved one way
        beyond the bins of the other side, however far, since then only means count.

        Args:
            before: counts of the reference, as `count` returns them.
            now: counts of the newest rows.

        Returns:
            None when the reference is constant or either side has no finite value.
        """
        if not self.spread or not before[1].any() or not now[1].any():
            return None
        sides = [(side[2][side[1] > 0] / side[1][side[1] > 0], side[1][side[1] > 0]) for side in (before, now)]
        (positions, weights), (moved, moved_weights) = sides
        return float(wasserstein_distance(positions, moved, weights, moved_weights)) / self.spread


@dataclass(frozen=True)
class Categories:
    """Bins of a categorical column: its reference's categories, and one for all others."""

    names: pd.Index

    @classmethod
    def of(cls, reference: pd.Series) -> "Categories":
        """Return the categories of a reference."""
        return cls(pd.Index(reference.astype(str).unique()))

    def count(self, values: pd.Series) -> Floats:
        """Return the rows of each category, then those of any other; (categories + 1,)."""
        # the position of an unknown category is -1, the last bin
        positions = self.names.get_indexer(pd.Index(values.astype(str))) % (len(self.names) + 1)
        return np.bincount(positions, minlength=len(self.names) + 1).astype(float)

    def measure(self, name: str, before: Floats, now: Floats, limits: Drift) -> Column:
        """Return how far a categorical column has moved."""
        psi = stability_index(before / before.sum(), now / now.sum())
        drifted = psi > limits.psi
        return Column(name=name, psi=psi, wasserstein=None, drifted=drifted, reference_mean=None, current_mean=None)


@dataclass(frozen=True)
class Due:
    """What is known of the days whose labels are due.

    Attributes:
        labelled: rows with labels on the newest of these days.
        ranks: their rows with labels by score, as `rank` counts them.
        positives: the positives among them.
    """

    labelled: int
    ranks: npt.NDArray[np.int64]
    positives: pd.DataFrame


@dataclass(frozen=True)
class Found:
    """What signals are made of, beside the columns.

    Attributes:
        rows: of the newest day, None where it has none and may have none.
        expected: rows a day while the model was trained.
        due: None when no day's labels are due.
        promised: what to expect of the model, None when nobody has measured it.
        positives: those among the reference rows.
        numeric: names of the numeric inputs.
    """

    rows: int | None
    expected: float
    due: Due | None
    promised: Promise | None
    positives: pd.DataFrame
    numeric: list[str]


def signals(columns: list[Column], found: Found, limits: Drift) -> Iterator[Signal]:
    """Yield everything that may have changed: the one list to which a new signal is added."""
    yield from shifts(columns, limits)
    yield volume(found.rows, found.expected, limits.volume)
    if found.due is None:
        return
    yield labels(found.due.labelled, found.expected)
    if found.promised is not None:
        yield performance(found.due.ranks, found.promised, limits)
    yield positives(found.positives, found.due.positives, found.numeric, limits)


def compare(
    reference: pd.DataFrame, batches: Iterable[pd.DataFrame], numeric: Iterable[str], limits: Drift
) -> list[Column]:
    """Measure every column of the reference, in its order.

    Args:
        reference: rows that the model carries; only its columns are looked at.
        batches: the newest rows, with the same columns, in batches of any size; each is looked at once.
        numeric: columns that are numbers; the others are categories.
        limits: effect sizes above which a column has drifted.
    """
    bins = layout(reference, numeric)
    counts = (count(batch, bins) for batch in batches)
    return measure(bins, count(reference, bins), functools.reduce(add, counts), limits)


def layout(reference: pd.DataFrame, numeric: Iterable[str]) -> dict[str, Bins]:
    """Return the bins of every column of the reference."""
    numbers = set(numeric)

    def bins(name: str) -> Bins:
        column = reference[name]
        return Numbers.of(column.to_numpy(dtype=float)) if name in numbers else Categories.of(column)

    return {name: bins(name) for name in reference.columns}


def count(rows: pd.DataFrame, bins: Mapping[str, Bins]) -> Counts:
    """Count rows into the bins of every column."""
    return {name: column.count(rows[name]) for name, column in bins.items()}


def add(counts: Counts, others: Counts) -> Counts:
    """Return the counts of the rows of both."""
    return {name: counts[name] + others[name] for name in counts}


def measure(bins: Mapping[str, Bins], before: Counts, now: Counts, limits: Drift) -> list[Column]:
    """Return how far every column has moved between two counts."""
    return [column.measure(name, before[name], now[name], limits) for name, column in bins.items()]


def shifts(columns: list[Column], limits: Drift) -> list[Signal]:
    """Return what the columns, `score` among them, amount to: one signal of the inputs, one of the score."""
    score = next(column for column in columns if column.name == SCORE)
    inputs, moved, most = len(columns) - 1, len(_moved(columns)), limits.max_drifted_share
    share = moved / inputs
    return [
        Signal(
            name="inputs",
            value=share,
            limit=most,
            raised=share > most,
            reason=f"{moved} of {inputs} inputs drifted ({share:.0%}); at most {most:.0%} may.",
        ),
        Signal(
            name=SCORE,
            value=score.psi,
            limit=limits.psi,
            raised=score.drifted,
            reason=f"The score {'drifted' if score.drifted else 'did not drift'}: {_figures(score, limits)}.",
        ),
    ]


def judge(subject: str, columns: list[Column], signals: list[Signal], limits: Drift) -> Verdict:
    """Decide whether anything has drifted: a verdict that is reported and blocks nothing.

    Args:
        subject: identity of the model.
        columns: whose drifted inputs are named among the reasons.
        signals: everything that may have changed.
        limits: to be named.
    """
    reasons = [signal.reason for signal in signals]
    moved = _moved(columns)
    reasons += [f"Input {column.name} drifted: {_figures(column, limits)}." for column in moved[:NAMED]]
    reasons += [f"{len(moved) - NAMED} more inputs drifted."] if len(moved) > NAMED else []
    return Verdict(
        gate="drift",
        decision=Decision.FAIL if any(signal.raised for signal in signals) else Decision.PASS,
        reasons=reasons,
        measures=[_measure(signal) for signal in signals],
        subject=subject,
        advisory=True,
    )


def _moved(columns: list[Column]) -> list[Column]:
    """Return the inputs that have drifted, worst first."""
    moved = [column for column in columns if column.name != SCORE and column.drifted]
    return sorted(moved, key=lambda column: -column.psi)


def _measure(signal: Signal) -> Measure:
    return Measure(name=signal.name, value=signal.value, limit=signal.limit, higher_is_better=signal.name == LABELS)


def volume(rows: int | None, expected: float, limit: float) -> Signal:
    """Compare a day's rows with the reference's rows a day; the value is the larger ratio less 1.

    Args:
        rows: None where there are none and there may be none.
        expected: rows a day.
        limit: beyond which the signal is raised.
    """
    if rows is None:
        reason = "The newest day has no rows, which source.empty_days allows."
        return Signal(name="volume", value=None, limit=limit, raised=False, reason=reason)
    change = max(rows / expected, expected / rows) - 1 if rows else None
    raised = change is None or change > limit
    reason = f"{rows:,} rows on the newest day, {expected:,.0f} expected."
    return Signal(name="volume", value=change, limit=limit, raised=raised, reason=reason)


def labels(labelled: int, expected: float) -> Signal:
    """Return whether the labels that are due have arrived; the value is their share of a usual day's rows."""
    share = labelled / expected
    reason = f"{labelled:,} rows have labels on the newest day whose labels are due, {expected:,.0f} expected."
    return Signal(name=LABELS, value=share, limit=LABELLED, raised=share < LABELLED, reason=reason)


def rank(truth: npt.NDArray[np.int8], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Count the rows of each label by score; the counts of batches add up, so that any number of rows can be ranked.

    Args:
        truth: 0 or 1, (n,).
        scores: 0..1, (n,).

    Returns:
        rows without and with fraud, by ascending score; (2, SCORE_BINS).
    """
    # the bits of floats that are not negative have the floats' order; adding 0 turns -0 into 0
    bins = (np.clip(scores, 0, 1) + np.float32(0)).view(np.int32) >> SCORE_BITS
    return np.stack([np.bincount(bins[truth == label], minlength=SCORE_BINS) for label in (0, 1)])


def average_precision(ranks: npt.NDArray[np.int64]) -> float:
    """Return the mean, over positives, of the precision among the rows that score at least as high.

    Args:
        ranks: as `rank` counts them, with one fraud or more.
    """
    legitimate, stolen = np.cumsum(ranks[:, ::-1], axis=1)
    found = ranks[1, ::-1]
    seen = found > 0
    precision = stolen[seen] / (stolen[seen] + legitimate[seen])
    return float(np.sum(found[seen] * precision) / stolen[-1])


def performance(ranks: npt.NDArray[np.int64], promised: Promise, limits: Drift) -> Signal:
    """Compare the average precision on rows whose labels have arrived with what the model promised.

    Customers known as compromised stay in, which makes these rows a little easier than those of the promise.

    Args:
        ranks: the labeled rows, as `rank` counts them.
        promised: what to expect.
        limits: how much may be lost, and how few positives say nothing.
    """
    limit, (legitimate, positives) = limits.average_precision, (int(side) for side in ranks.sum(axis=1))
    if positives < limits.min_positives or not legitimate:
        reason = f"{positives} positives with labels; at least {limits.min_positives} are needed to judge the model."
        return Signal(name="performance", value=None, limit=limit, raised=False, reason=reason)
    reached = average_precision(ranks)
    lost = promised.value - reached
    told = f"{promised.value:.3f} {promised.measured}"
    reason = f"Average precision {reached:.3f} where labels are due ({positives} positives), {told}."
    return Signal(name="performance", value=lost, limit=limit, raised=lost > limit, reason=reason)


def positives(reference: pd.DataFrame, current: pd.DataFrame, numeric: list[str], limits: Drift) -> Signal:
    """Compare the positives alone, which inputs of all rows are too many to show: the input that moved most.

    Args:
        reference: the positives among the reference rows.
        current: the positives among rows whose labels have arrived.
        numeric: the inputs to compare.
        limits: only `positive_wasserstein` counts; with so few rows an index over bins is mostly noise.
    """
    limit = limits.positive_wasserstein
    if len(current) < limits.min_positives or len(reference) < REFERENCE_POSITIVES:
        needed = f"{limits.min_positives} and {REFERENCE_POSITIVES} are needed to compare them"
        reason = f"{len(current)} positives, and {len(reference)} for reference; at least {needed}."
        return Signal(name="positives", value=None, limit=limit, raised=False, reason=reason)
    columns = compare(reference[numeric], [current], numeric, limits)
    moved = max(columns, key=lambda column: column.wasserstein or 0)
    value = moved.wasserstein or 0.0
    reason = f"Among positives, {moved.name} moved most: {value:.2f} standard deviations (limit {limit:.3g})."
    return Signal(name="positives", value=value, limit=limit, raised=value > limit, reason=reason)


def stability_index(expected: Floats, actual: Floats) -> float:
    """Return the population stability index of two distributions: sum of (a - e) ln(a / e).

    It is the symmetrised Kullback-Leibler divergence (Jeffreys, 1946); as a measure of drift: Siddiqi,
    Credit Risk Scorecards (2006), where 0.1 is a slight and 0.25 a major shift.

    Args:
        expected: share of each bin in the reference, shape (bins,); shares below `EPSILON` are raised to it.
        actual: share of each bin now, shape (bins,).
    """
    expected, actual = np.maximum(expected, EPSILON), np.maximum(actual, EPSILON)
    return float(np.sum((actual - expected) * np.log(actual / expected)))


def bin_edges(reference: Floats) -> Floats:
    """Return the upper edges of the reference's quantile bins, ascending, at most 2 * `BINS` of them.

    A value so frequent that it fills more than one bin gets a bin of its own, so that constants and
    flags are binned by value, and leaving such a value in either direction is seen.

    Args:
        reference: values, NaN where missing; shape (n,).
    """
    values = reference[~np.isnan(reference)]
    if not len(values):
        return values
    quantiles = np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1], method="inverted_cdf")
    ties = quantiles[1:][np.diff(quantiles) == 0]
    return np.unique(np.concatenate([quantiles, np.nextafter(ties, -np.inf)]))


def _fine_edges(finite: Floats) -> Floats:
    """Return edges of bins of equal mass, for the bulk, and of equal width, for the tails."""
    if not len(finite):
        return finite
    mass = np.quantile(finite, np.linspace(0, 1, FINE_BINS + 1), method="inverted_cdf")
    return np.concatenate([mass, np.linspace(finite.min(), finite.max(), FINE_BINS + 1)])


def _mean(counts: Floats) -> float | None:
    rows = counts[1].sum()
    return float(counts[2].sum() / rows) if rows else None


def _figures(column: Column, limits: Drift) -> str:
    text = f"PSI {column.psi:.3f} (limit {limits.psi:.3g})"
    if column.wasserstein is None:
        return text
    return f"{text}, Wasserstein {column.wasserstein:.3f} standard deviations (limit {limits.wasserstein:.3g})"
