"""How far scores are from labels: metrics, their resamples, and the naive forecasts that a model has to beat."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.config.regression import RegressionConfig
from nightshift.stats import bootstrap
from nightshift.stats.comparison import Floats
from nightshift.tasks.regression.features import LAST, name_mean, name_series

FEWEST_SERIES = 20  # fewer are too few to draw: days are drawn in their place

Groups = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Errors:
    """How scores are judged.

    Attributes:
        quantile: of the pinball loss.
        cost_over: of a unit above the label.
        cost_under: of a unit below it.
    """

    quantile: float
    cost_over: float
    cost_under: float

    @classmethod
    def from_config(cls, config: RegressionConfig) -> "Errors":
        """Return how a use case judges scores."""
        return cls(config.task.quantile, config.evaluation.cost_over, config.evaluation.cost_under)

    def list_losses(self, labels: Floats, scores: Floats) -> dict[str, Floats]:
        """Return metric -> its loss of each row, float64 (n,); `rmse` is the square, `bias` has a sign."""
        off = scores.astype(np.float64) - labels
        over, under = np.maximum(off, 0), np.maximum(-off, 0)
        return {
            "mae": np.abs(off),
            "rmse": np.square(off),
            "pinball": self.quantile * under + (1 - self.quantile) * over,
            "cost": self.cost_over * over + self.cost_under * under,
            "bias": off,
        }

    def measure(self, labels: Floats, scores: Floats) -> dict[str, float]:
        """Return each metric of all rows."""
        means = {name: losses.mean() for name, losses in self.list_losses(labels, scores).items()}
        return {name: float(value) for name, value in _take_root(means).items()}

    def resample(self, labels: Floats, scores: Floats, groups: Groups) -> dict[str, Floats]:
        """Return each metric of every resample of the groups, (resamples,)."""
        losses = self.list_losses(labels, scores)
        return _take_root({name: average(loss, groups) for name, loss in losses.items()})


def average(values: Floats, groups: Groups) -> Floats:
    """Return the mean of the rows' values, (n,), in every resample of the groups, float64 (resamples,)."""
    count = int(groups.max()) + 1
    drawn = np.stack([*bootstrap.draw_counts(count)])
    means: Floats = drawn @ np.bincount(groups, values, count) / (drawn @ np.bincount(groups, minlength=count))
    return means


def _take_root(means: Mapping[str, Any]) -> dict[str, Any]:
    return {**means, "rmse": np.sqrt(means["rmse"])}


def group(rows: pd.DataFrame, config: RegressionConfig) -> Groups:
    """Return the number of each row's series, (n,), or of its day where there are fewer than `FEWEST_SERIES`."""
    numbers, names = pd.factorize(name_series(rows, config))
    if len(names) < FEWEST_SERIES:
        numbers, _ = pd.factorize(rows["event_time"].dt.floor("D"))
    groups: Groups = numbers.astype(np.int64)
    return groups


def forecast_naively(rows: pd.DataFrame, config: RegressionConfig) -> dict[str, Floats]:
    """Return name -> what needs no model says of each row, float64 (n,)."""
    longest = config.longest_window_days
    columns = {"last value": LAST, f"mean of {longest} days": name_mean(longest)}
    return {name: rows[column].to_numpy(np.float64) for name, column in columns.items()}
