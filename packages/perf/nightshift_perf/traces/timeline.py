"""Arithmetic of intervals: float64 arrays of shape (n, 2), a start and an end each.

What `union` returns is sorted and disjoint; the other functions want that of what they are given.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

NOTHING: Floats = np.empty((0, 2))


def spans(rows: npt.NDArray[np.void], mask: Mask | slice = slice(None)) -> Floats:
    """Return the intervals of rows that have a `start` and an `end`, of all or of some."""
    return np.column_stack([rows["start"][mask], rows["end"][mask]])


def union(intervals: Floats) -> Floats:
    """Return the moments that are in any of the intervals, whatever their order and overlap."""
    if not len(intervals):
        return NOTHING
    is_ordered = bool(np.all(intervals[1:, 0] >= intervals[:-1, 0]))  # nearly always: no copy then
    ordered = intervals if is_ordered else intervals[np.argsort(intervals[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ordered[:, 1])
    firsts = np.flatnonzero(np.r_[True, ordered[1:, 0] > reached[:-1]])
    ends = reached[np.r_[firsts[1:] - 1, len(reached) - 1]]
    return np.column_stack([ordered[firsts, 0], ends])


def length(intervals: Floats) -> float:
    """Return how long the intervals are together."""
    return float(np.sum(intervals[:, 1] - intervals[:, 0]))


def clip(intervals: Floats, window: tuple[float, float]) -> Floats:
    """Return the parts of the intervals inside a window."""
    cut: Floats = np.clip(intervals, *window)
    return cut[cut[:, 1] > cut[:, 0]]


def without(intervals: Floats, others: Floats) -> Floats:
    """Return the moments of the intervals that are in none of the others."""
    if not len(intervals):
        return NOTHING
    window = (float(intervals[0, 0]), float(intervals[-1, 1]))
    return common(intervals, gaps(others, window))


def gaps(intervals: Floats, window: tuple[float, float]) -> Floats:
    """Return the moments of a window that are in none of the intervals."""
    inside = clip(intervals, window)
    edges = np.r_[window[0], inside.ravel(), window[1]].reshape(-1, 2)
    return np.asarray(edges[edges[:, 1] > edges[:, 0]])


def common(one: Floats, other: Floats) -> Floats:
    """Return the moments that are in both."""
    if not len(one) or not len(other):
        return NOTHING
    firsts = np.searchsorted(other[:, 1], one[:, 0], side="right")
    lasts = np.searchsorted(other[:, 0], one[:, 1], side="left")
    counts = np.maximum(lasts - firsts, 0)
    mine = np.repeat(np.arange(len(one)), counts)
    theirs = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(firsts, counts)
    met = np.column_stack(
        [np.maximum(one[mine, 0], other[theirs, 0]), np.minimum(one[mine, 1], other[theirs, 1])]
    )  # fmt: skip
    return np.asarray(met[met[:, 1] > met[:, 0]])


def measure_overlap(intervals: Floats, others: Floats) -> Floats:
    """Return how much of each interval is in the others, float64 (n,); the intervals may overlap."""
    if not len(others):
        return np.zeros(len(intervals))
    covered = np.r_[0.0, np.cumsum(others[:, 1] - others[:, 0])]
    return _sum_cover(others, covered, intervals[:, 1]) - _sum_cover(others, covered, intervals[:, 0])


def _sum_cover(others: Floats, covered: Floats, until: Floats) -> Floats:
    """Return how much of the others lies before each moment."""
    begun = np.searchsorted(others[:, 0], until, side="right")
    beyond = np.where(begun > 0, np.maximum(others[begun - 1, 1] - until, 0), 0.0)
    return np.asarray(covered[begun] - beyond, dtype=np.float64)
