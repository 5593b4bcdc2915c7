"""How far the newest rows lie from the rows a model was trained on, as effect sizes.

Effect sizes and not p-values: with many rows every test rejects, with few none does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import wasserstein_distance

from components.common.config import Drift

Floats = npt.NDArray[np.floating[Any]]

BINS = 10
EPSILON = 1e-4  # an empty bin counts as this share, or a single row in it would be an infinite shift
SCORE = "score"


@dataclass(frozen=True)
class Column:
    """How far one column has moved.

    Attributes:
        name: a model input, or `score`.
        psi: population stability index, at least 0.
        wasserstein: distance in standard deviations of the reference; None for categories, and where
            either side has no spread to measure it by.
        drifted: whether either exceeds its limit.
        reference_mean: None for categories.
        current_mean: None for categories.
    """

    name: str
    psi: float
    wasserstein: float | None
    drifted: bool
    reference_mean: float | None
    current_mean: float | None


@dataclass(frozen=True)
class Verdict:
    """What the columns amount to.

    Attributes:
        status: `drifted` when too many inputs have moved, or when the score has.
        drifted_share: share of the model's inputs that have moved, 0..1.
        reasons: sentences.
    """

    status: Literal["stable", "drifted"]
    drifted_share: float
    reasons: list[str]


def compare(reference: pd.DataFrame, current: pd.DataFrame, numeric: Iterable[str], limits: Drift) -> list[Column]:
    """Measure every column of the reference, in its order.

    Args:
        reference: rows the model was trained on; only its columns are looked at.
        current: the newest rows, with the same columns.
        numeric: columns that are numbers; the others are categories.
        limits: effect sizes above which a column has drifted.
    """
    numbers = set(numeric)
    return [
        _number(name, reference[name].to_numpy(dtype=float), current[name].to_numpy(dtype=float), limits)
        if name in numbers
        else _category(name, reference[name], current[name], limits)
        for name in reference.columns
    ]


def judge(columns: list[Column], limits: Drift) -> Verdict:
    """Decide from the columns, `score` among them, whether the data have drifted."""
    inputs = [column for column in columns if column.name != SCORE]
    score = next(column for column in columns if column.name == SCORE)
    moved = sorted((column for column in inputs if column.drifted), key=lambda column: -column.psi)
    share = len(moved) / len(inputs)
    drifted = share > limits.max_drifted_share or score.drifted
    reasons = [
        f"{len(moved)} of {len(inputs)} inputs drifted ({share:.0%}); at most {limits.max_drifted_share:.0%} may.",
        f"The score {'drifted' if score.drifted else 'did not drift'}: {_figures(score, limits)}.",
        *(f"Input {column.name} drifted: {_figures(column, limits)}." for column in moved),
    ]
    return Verdict("drifted" if drifted else "stable", share, reasons)


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


def shares(values: Floats, edges: Floats) -> Floats:
    """Return the share of values in each bin; the last bin is that of missing values.

    Args:
        values: shape (n,), NaN where missing.
        edges: inclusive upper edges, ascending; shape (b,).

    Returns:
        shape (b + 2,), summing to 1.
    """
    # NaN sorts after infinity, which closes the last bin of numbers
    bins = np.searchsorted(np.append(edges, np.inf), values, side="left")
    return np.bincount(bins, minlength=len(edges) + 2) / len(values)


def normalised_wasserstein(reference: Floats, current: Floats) -> float | None:
    """Return the 1-Wasserstein distance (earth mover's) in standard deviations of the reference.

    Args:
        reference: shape (n,), NaN where missing.
        current: shape (m,), NaN where missing.

    Returns:
        None when the reference is constant or either side has no finite value.
    """
    reference, current = reference[np.isfinite(reference)], current[np.isfinite(current)]
    if not len(current) or not len(reference):
        return None
    # rounding gives a constant a spread, and underflow takes it from tiny values
    spread = float(reference.std()) if np.ptp(reference) else 0.0
    return float(wasserstein_distance(reference, current)) / spread if spread else None


def _number(name: str, reference: Floats, current: Floats, limits: Drift) -> Column:
    edges = bin_edges(reference)
    psi = stability_index(shares(reference, edges), shares(current, edges))
    distance = normalised_wasserstein(reference, current)
    drifted = psi > limits.psi or (distance is not None and distance > limits.wasserstein)
    return Column(name, psi, distance, drifted, _mean(reference), _mean(current))


def _category(name: str, reference: pd.Series, current: pd.Series, limits: Drift) -> Column:
    before, now = (values.astype(str).value_counts(normalize=True) for values in (reference, current))
    categories = before.index.union(now.index)
    expected, actual = (found.reindex(categories, fill_value=0).to_numpy(dtype=float) for found in (before, now))
    psi = stability_index(expected, actual)
    return Column(name, psi, None, psi > limits.psi, None, None)


def _mean(values: Floats) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def _figures(column: Column, limits: Drift) -> str:
    text = f"PSI {column.psi:.3f} (limit {limits.psi:g})"
    if column.wasserstein is None:
        return text
    return f"{text}, Wasserstein {column.wasserstein:.3f} standard deviations (limit {limits.wasserstein:g})"
