"""How sure a metric is: the bootstrap of the test rows, seeded.

Of a yes-or-no label, positives and genuine rows are drawn separately, so that every resample holds as many of each. Of
classes, a group is drawn with all of its rows, since those of one patient, author or camera err together. The seed is
fixed, so two scorers of the same rows see the same resamples, and the difference of their metrics is paired.
Intervals are percentiles (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13). They speak
of these days: what differs from one week to another, and positives that come in series, would widen them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.stats.ranking import Ranking

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]

RESAMPLES = 200
SEED = 0
TAILS = (0.025, 0.975)


@dataclass(frozen=True)
class BootstrapInterval:
    """A 95 % interval."""

    low: float
    high: float

    @classmethod
    def from_resamples(cls, values: Floats) -> "BootstrapInterval":
        """Return the interval that holds 95 % of some resampled values, shape (resamples,)."""
        low, high = np.quantile(values, TAILS)
        return cls(float(low), float(high))


def draws(positive: npt.NDArray[np.bool_]) -> Iterator[Labels]:
    """Yield the rows of each of `RESAMPLES` resamples: first as many positive ones as there are, then the others.

    Args:
        positive: shape (n,); what is drawn is int64 of the same shape.
    """
    random = np.random.default_rng(SEED)
    strata = [rows for rows in (np.flatnonzero(positive), np.flatnonzero(~positive)) if len(rows)]
    for _ in range(RESAMPLES):
        yield np.concatenate([rows[random.integers(0, len(rows), len(rows))] for rows in strata])


def draw_rows(count: int) -> Labels:
    """Return the rows of each resample of rows of one kind, int64 of shape (`RESAMPLES`, count)."""
    return np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))


def draw_counts(groups: int) -> Iterator[npt.NDArray[np.float64]]:
    """Yield how often each group is drawn in each resample, (groups,)."""
    return (np.bincount(drawn, minlength=groups).astype(float) for drawn in draw_rows(groups))


def number_groups(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the number of each row's group, (n,): that of the row itself where there are no groups."""
    if "group" not in rows:
        return np.arange(len(rows))
    return pd.factorize(rows["group"])[0].astype(np.int64)


def average_precision(labels: Labels, scores: Floats) -> Floats:
    """Return the average precision of every resample of the rows, float64 of shape (`RESAMPLES`,).

    Average precision changes only where a fraud is, so rows are counted by the fraud scores they reach,
    and no resample is sorted. Equal scores share a threshold, as scikit-learn has it.

    Args:
        labels: 0 or 1, at least one of each, shape (n,).
        scores: float, shape (n,).
    """
    positives = labels == 1
    thresholds, count = np.unique(scores[positives]), int(positives.sum())
    reached = np.searchsorted(thresholds, scores, side="right")

    def precision(resample: Labels) -> float:
        levels = reached[resample]
        hits = np.bincount(levels[:count], minlength=len(thresholds) + 1)[:0:-1]
        flagged = np.bincount(levels, minlength=len(thresholds) + 1)[:0:-1].cumsum()
        return float((hits * hits.cumsum() / np.maximum(flagged, 1)).sum() / count)

    return np.array([precision(resample) for resample in draws(positives)])


def average_precision_of_groups(labels: Labels, scores: Floats, groups: Labels) -> Floats:
    """Return the average precision of every resample of whole groups, float64 of shape (`RESAMPLES`,).

    Args:
        labels: 0 or 1, shape (n,).
        scores: float, shape (n,).
        groups: each row's, from 0, shape (n,).
    """
    order = np.argsort(-scores, kind="stable")
    labels, scores, groups = labels[order], scores[order], groups[order]
    draws_of_groups = draw_counts(int(groups.max()) + 1)
    return np.array([weighted_average_precision(labels, scores, counts[groups], True) for counts in draws_of_groups])


def weighted_average_precision(labels: Labels, scores: Floats, weights: Floats, is_sorted: bool = False) -> float:
    """Return the average precision of weighted rows, 0 without positives; equal scores share a threshold.

    Args:
        labels: 0 or 1, shape (n,).
        scores: float, shape (n,).
        weights: how often each row counts, shape (n,).
        is_sorted: whether scores fall from row to row.
    """
    labels, weights, ends = _rank(labels, scores, weights, is_sorted)
    hits, flagged = np.cumsum(weights * (labels == 1))[ends], np.cumsum(weights)[ends]
    gained = np.diff(hits, prepend=0.0)
    return float((gained * hits / np.maximum(flagged, 1)).sum() / hits[-1]) if hits[-1] else 0.0


def weighted_auc(labels: Labels, scores: Floats, weights: Floats, is_sorted: bool = False) -> float:
    """Return the area under the ROC curve of weighted rows, NaN without rows of both labels; equal scores are ties.

    Args:
        labels: 0 or 1, shape (n,).
        scores: float, shape (n,).
        weights: how often each row counts, shape (n,).
        is_sorted: whether scores fall from row to row.
    """
    labels, weights, ends = _rank(labels, scores, weights, is_sorted)
    hits, misses = (np.cumsum(weights * (labels == label))[ends] for label in (1, 0))
    above = hits - np.diff(hits, prepend=0.0) / 2  # a positive of the same score counts half
    pairs = hits[-1] * misses[-1]
    return float(np.diff(misses, prepend=0.0) @ above / pairs) if pairs else np.nan


def _rank(
    labels: Labels, scores: Floats, weights: Floats, is_sorted: bool
) -> tuple[Labels, Floats, npt.NDArray[np.intp]]:
    """Return labels and weights by falling score, (n,), and the last row of each score."""
    if not is_sorted:
        order = np.argsort(-scores, kind="stable")
        labels, scores, weights = labels[order], scores[order], weights[order]
    return labels, weights, np.flatnonzero(np.append(scores[1:] != scores[:-1], True))


def mean_of_groups(values: Floats, groups: Labels, part: npt.NDArray[np.bool_] | None = None) -> Floats:
    """Return the means of every resample of whole groups, float64 of shape (`RESAMPLES`, ...).

    The parts of the same rows meet the same resamples, so that their differences are paired.

    Args:
        values: of the rows, (n, ...).
        groups: each row's, from 0, shape (n,).
        part: rows that count, shape (n,); None: all. Each resample has to have one.
    """
    kept = slice(None) if part is None else part
    sizes = np.bincount(groups[kept], minlength=int(groups.max()) + 1).astype(float)
    sums = np.zeros((len(sizes), *values.shape[1:]))
    np.add.at(sums, groups[kept], values[kept])
    return np.stack([np.tensordot(counts, sums, 1) / (counts @ sizes) for counts in draw_counts(len(sizes))])


def precision_at_k(rows: pd.DataFrame, scores: Floats, top_k: int) -> Floats:
    """Return precision at k of every resample of the entities, float64 of shape (`RESAMPLES`,).

    What is drawn is a customer with all of their days, since one found on one day is left out on the next:
    customers positive in these days and the others separately. One drawn twice counts as two.

    Args:
        rows: `event_time`, `customer`, `label`; n rows.
        scores: float, shape (n,).
        top_k: entities that can be checked per day.
    """
    ranking = Ranking.from_scores(rows, scores)
    copies = (np.bincount(resample, minlength=len(ranking.positive)) for resample in draws(ranking.positive))
    return np.array([ranking.precision(counts, top_k) for counts in copies])


def mean(labels: Labels, values: Floats) -> Floats:
    """Return the mean of a value of the rows over every resample, float64 of shape (`RESAMPLES`,).

    Args:
        labels: 0 or 1, shape (n,).
        values: float, shape (n,).
    """
    return np.array([values[resample].mean() for resample in draws(labels == 1)])
