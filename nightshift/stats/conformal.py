"""Prediction intervals by split conformal calibration: of labels that no model was fitted on.

Residuals of calibration rows are ranked among rows with scores alike, so that an interval is as wide as errors are at
its score. Of a bin of n rows the bounds are the residuals of ranks (n + 1) a/2 and (n + 1) (1 - a/2), which cover at
least 1 - a of rows drawn alike (Lei et al., Distribution-Free Predictive Inference for Regression, 2018).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.contracts.package import PredictionInterval

BIN_ROWS = 200  # of a bin, at least
MOST_BINS = 10

Floats = npt.NDArray[np.floating[Any]]


def calibrate(labels: Floats, scores: Floats, coverage: float) -> PredictionInterval:
    """Return the interval around scores that covers a share of labels.

    Args:
        labels: of rows that the model was not fitted on, float (n,), one or more.
        scores: what the model says of them, float (n,).
        coverage: share of labels that shall lie within.
    """
    bins = int(np.clip(len(labels) // BIN_ROWS, 1, MOST_BINS))
    # scores themselves, and above the lowest one, so that no bin is empty
    edges = np.unique(np.quantile(scores, np.arange(1, bins) / bins, method="lower"))
    edges = edges[edges > scores.min()]
    positions, residuals = np.searchsorted(edges, scores, side="right"), labels - scores
    bounds = [_find_bounds(residuals[positions == i], coverage) for i in range(len(edges) + 1)]
    below, above = map(list, zip(*bounds, strict=True))
    return PredictionInterval(coverage=coverage, edges=edges.tolist(), below=below, above=above)


def bound(scores: Floats, interval: PredictionInterval) -> tuple[Floats, Floats]:
    """Return the low and the high end of the interval around each score, float64 (n,) each."""
    positions = np.searchsorted(interval.edges, scores, side="right")
    centers = scores.astype(np.float64)
    return centers + np.array(interval.below)[positions], centers + np.array(interval.above)[positions]


def _find_bounds(residuals: Floats, coverage: float) -> tuple[float, float]:
    ordered, tail = np.sort(residuals), (1 - coverage) / 2
    count = len(ordered)
    low = max(int(np.floor((count + 1) * tail)), 1)
    high = min(int(np.ceil((count + 1) * (1 - tail))), count)
    return float(ordered[low - 1]), float(ordered[high - 1])
