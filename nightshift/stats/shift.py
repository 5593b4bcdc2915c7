"""How far columns of the newest rows lie from those of a reference, as effect sizes.

Effect sizes and not p-values: with many rows every test rejects, with few none does. Rows are counted into
bins that the reference gives, batch by batch, so that a day of any size is one pass in bounded memory.
"""

import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import chi2, norm, wasserstein_distance

from nightshift.config.policy import DriftLimits
from nightshift.contracts.drift import SCORE, ColumnDrift
from nightshift.stats import noise
from nightshift.stats.embeddings import RARE

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]

BINS = 10
FINE_BINS = 100  # bins of equal mass, and as many of equal width, for the distance
EPSILON = 1e-4  # an empty bin counts as this share, or a single row in it would be an infinite shift


@dataclass(frozen=True)
class EffectLimits:
    """Effect sizes above which one column has drifted."""

    psi: float
    wasserstein: float


class Bins(Protocol):
    """The bins of one column, as its reference gives them."""

    @property
    def size(self) -> int:
        """How many there are."""

    def locate(self, values: pd.Series) -> Ints:
        """Return the bin of each value, (n,)."""

    def count(self, values: pd.Series, at: Ints) -> Floats:
        """Return what the measures need of some rows and their bins; the counts of batches add up."""

    def measure(self, name: str, before: Floats, now: Floats, limits: EffectLimits) -> ColumnDrift:
        """Return how far the counts `now` are from the counts `before`."""

    def chance(self, before: Floats, now: Floats, differences: Floats) -> Floats:
        """Return stability index and distance of shares that differ by chance, (resamples, 2).

        Args:
            before: counts of the reference.
            now: counts of the newest rows.
            differences: of the bins' shares, (resamples, bins).
        """


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
    def from_reference(cls, reference: Floats) -> "Numbers":
        """Return the bins for a reference, (n,), NaN where missing."""
        coarse = bin_edges(reference)
        finite = reference[np.isfinite(reference)]
        edges = np.unique(np.concatenate([coarse, _fine_edges(finite)]))
        within = np.searchsorted(coarse, edges, side="left")
        # rounding gives a constant a spread, and underflow takes it from tiny values
        spread = float(finite.std()) if len(finite) and np.ptp(finite) else 0.0
        return cls(edges, np.append(within, [len(coarse), len(coarse) + 1]), spread)

    @property
    def size(self) -> int:
        """How many bins there are: b + 2."""
        return len(self.edges) + 2

    def locate(self, values: pd.Series) -> Ints:
        """Return the bin of each value, (n,)."""
        # NaN sorts after infinity, which closes the last bin of numbers
        return np.searchsorted(np.append(self.edges, np.inf), values.to_numpy(dtype=float), side="left")

    def count(self, values: pd.Series, at: Ints) -> Floats:
        """Return, a bin each: all rows, rows with a finite value, and the sum of these; (3, b + 2)."""
        numbers, size = values.to_numpy(dtype=float), self.size
        finite = np.isfinite(numbers)
        sums = np.bincount(at, weights=np.where(finite, numbers, 0.0), minlength=size)
        return np.stack([np.bincount(at, minlength=size), np.bincount(at[finite], minlength=size), sums])

    def measure(self, name: str, before: Floats, now: Floats, limits: EffectLimits) -> ColumnDrift:
        """Return how far a numeric column has moved."""
        expected, actual = (np.bincount(self.coarse, weights=side[0]) / side[0].sum() for side in (before, now))
        psi, distance = float(stability_index(expected, actual)), self.distance(before, now)
        drifted = psi > limits.psi or (distance is not None and distance > limits.wasserstein)
        return ColumnDrift(
            name=name,
            psi=psi,
            psi_limit=limits.psi,
            wasserstein=distance,
            wasserstein_limit=None if distance is None else limits.wasserstein,
            drifted=drifted,
            reference_mean=_mean(before),
            current_mean=_mean(now),
        )

    def chance(self, before: Floats, now: Floats, differences: Floats) -> Floats:
        """Return stability index and distance of shares that differ by chance, (resamples, 2)."""
        starts = np.unique(self.coarse, return_index=True)[1]
        shares = np.add.reduceat(before[0] / before[0].sum(), starts)
        indices = stability_index(shares, shares + np.add.reduceat(differences, starts, axis=1))
        return np.stack([indices, self._carry(before + now, differences)], axis=1)

    def _carry(self, counts: Floats, differences: Floats) -> Floats:
        """Return the distance that shares are carried, in standard deviations, values lying at their bins' means."""
        filled = np.flatnonzero(counts[1])
        if not self.spread or len(filled) < 2:
            return np.zeros(len(differences))
        gaps = np.diff(counts[2][filled] / counts[1][filled]) / self.spread
        carried = np.abs(np.cumsum(differences[:, filled], axis=1))[:, :-1] @ gaps
        distances: Floats = carried
        return distances

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
    def from_reference(cls, reference: pd.Series) -> "Categories":
        """Return the categories of a reference."""
        return cls(pd.Index(reference.astype(str).unique()))

    @property
    def size(self) -> int:
        """How many bins there are: one more than categories."""
        return len(self.names) + 1

    def locate(self, values: pd.Series) -> Ints:
        """Return the bin of each value, (n,)."""
        # the position of an unknown category is -1, the last bin
        return self.names.get_indexer(pd.Index(values.astype(str))) % self.size

    def count(self, _: pd.Series, at: Ints) -> Floats:
        """Return the rows of each category, then those of any other; (categories + 1,)."""
        return np.bincount(at, minlength=self.size).astype(float)

    def measure(self, name: str, before: Floats, now: Floats, limits: EffectLimits) -> ColumnDrift:
        """Return how far a categorical column has moved."""
        psi = float(stability_index(before / before.sum(), now / now.sum()))
        return ColumnDrift(
            name=name,
            psi=psi,
            psi_limit=limits.psi,
            wasserstein=None,
            wasserstein_limit=None,
            drifted=psi > limits.psi,
            reference_mean=None,
            current_mean=None,
        )

    def chance(self, before: Floats, _: Floats, differences: Floats) -> Floats:
        """Return the stability index of shares that differ by chance, and no distance; (resamples, 2)."""
        shares = before / before.sum()
        indices = stability_index(shares, shares + differences)
        return np.stack([indices, np.zeros(len(indices))], axis=1)


@dataclass(frozen=True)
class BinCounts:
    """Rows, counted into the bins of every column.

    Attributes:
        counts: column -> what its bins count.
        blocks: column -> blocking -> rows by block and bin, float32 (blocks, bins).
    """

    counts: dict[str, Floats]
    blocks: dict[str, dict[str, Floats]]

    def __add__(self, other: "BinCounts") -> "BinCounts":
        counts: dict[str, Floats] = {name: values + other.counts[name] for name, values in self.counts.items()}
        blocks: dict[str, dict[str, Floats]] = {
            name: {blocking: rows + other.blocks[name][blocking] for blocking, rows in blockings.items()}
            for name, blockings in self.blocks.items()
        }
        return BinCounts(counts, blocks)


def compare(
    reference: pd.DataFrame, batches: Iterable[pd.DataFrame], numeric: Iterable[str], limits: DriftLimits
) -> list[ColumnDrift]:
    """Measure every column of the reference, in its order.

    A column's limits are those of the config, or what days drawn alike show by chance, whichever are larger.

    Args:
        reference: rows that the model carries; only its columns are looked at, those of `noise.name_blocks` for chance.
        batches: the newest rows, with the same columns, in batches of any size; each is looked at once.
        numeric: columns that are numbers; the others are categories.
        limits: effect sizes above which a column has drifted.
    """
    bins = layout(reference, numeric)
    newest = functools.reduce(operator.add, (count(rows, bins) for rows in batches))
    return measure(bins, count(reference, bins), newest, limits)


def layout(reference: pd.DataFrame, numeric: Iterable[str]) -> dict[str, Bins]:
    """Return the bins of every column of the reference but its blocks."""
    numbers = set(numeric)

    def bins(name: str) -> Bins:
        column = reference[name]
        return (
            Numbers.from_reference(column.to_numpy(dtype=float))
            if name in numbers
            else Categories.from_reference(column)
        )

    return {name: bins(name) for name in reference.columns.difference(noise.list_blocks(reference), sort=False)}


def count(rows: pd.DataFrame, bins: Mapping[str, Bins]) -> BinCounts:
    """Count rows into the bins of every column, and of every block."""
    size = noise.limit_blocks(sum(column.size for column in bins.values()))
    blocks = {name: rows[name].to_numpy(np.int64) % size for name in noise.list_blocks(rows)}
    counts: dict[str, Floats] = {}
    by_block: dict[str, dict[str, Floats]] = {}
    for name, column in bins.items():
        at = column.locate(rows[name])
        counts[name] = column.count(rows[name], at)
        by_block[name] = {blocking: _cross(block, at, size, column.size) for blocking, block in blocks.items()}
    return BinCounts(counts, by_block)


def measure(bins: Mapping[str, Bins], before: BinCounts, now: BinCounts, limits: DriftLimits) -> list[ColumnDrift]:
    """Return how far every column has moved between two counts."""
    held = _find_limits(bins, before, now, limits)
    return [column.measure(name, before.counts[name], now.counts[name], held[name]) for name, column in bins.items()]


def _find_limits(
    bins: Mapping[str, Bins], before: BinCounts, now: BinCounts, limits: DriftLimits
) -> dict[str, EffectLimits]:
    """Return the limits of each column: the inputs make a signal together, and the score one of its own."""
    held = dict.fromkeys(bins, EffectLimits(limits.psi, limits.wasserstein))
    inputs = [name for name in bins if name != SCORE]
    for names, share in ((inputs, limits.max_drifted_share), ([name for name in bins if name == SCORE], 0.0)):
        effects = [_draw_effects(bins[name], before, now, name) for name in names if before.blocks[name]]
        if effects:
            allowed = noise.count_allowed(len(names), share)
            by_column = noise.find_limits(effects, np.array([limits.psi, limits.wasserstein]), allowed)
            held |= {name: EffectLimits(*map(float, row)) for name, row in zip(names, by_column, strict=True)}
    return held


def _draw_effects(column: Bins, before: BinCounts, now: BinCounts, name: str) -> Floats:
    differences = noise.draw(before.blocks[name], now.blocks[name])
    return column.chance(before.counts[name], now.counts[name], differences)


def _cross(blocks: Ints, at: Ints, size: int, bins: int) -> Floats:
    counts = np.bincount(blocks * bins + at, minlength=size * bins)
    return counts.reshape(size, bins).astype(np.float32)


def stability_index(expected: Floats, actual: Floats) -> Any:
    """Return the population stability index of two distributions: sum of (a - e) ln(a / e).

    It is the symmetrized Kullback-Leibler divergence (Jeffreys, 1946); as a measure of drift: Siddiqi,
    Credit Risk Scorecards (2006), where 0.1 is a slight and 0.25 a major shift.

    Args:
        expected: share of each bin in the reference, shape (bins,); shares below `EPSILON` are raised to it.
        actual: share of each bin now, shape (..., bins).

    Returns:
        float64 of shape (...).
    """
    expected, actual = np.maximum(expected, EPSILON), np.maximum(actual, EPSILON)
    return ((actual - expected) * np.log(actual / expected)).sum(axis=-1)


def find_chance_limits(before: int, now: int, bins: int = BINS) -> tuple[float, float]:
    """Return what stability index and distance exceed by chance once in 1 / `RARE` times where nothing has changed.

    The stability index is then a multiple of chi square (Yurdakul, Statistical properties of population stability
    index, 2018). The 1-Wasserstein distance is no less than that of the means, and has been seen to exceed what those
    exceed as rarely, within a tenth, for normal, log-normal, uniform and confidence-like values.

    Args:
        before: rows of the reference.
        now: rows that are compared with it.
        bins: of the stability index.
    """
    scale = 1 / before + 1 / max(now, 1)
    return float(chi2.isf(RARE, bins)) * scale, float(norm.isf(RARE / 2)) * scale**0.5


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
