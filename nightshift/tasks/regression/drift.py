"""What may have changed of numbers beside how far columns have moved: errors, their mean, and what intervals cover."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nightshift.config.regression import RegressionConfig
from nightshift.contracts.drift import SCORE, Promise, Signal
from nightshift.stats import conformal
from nightshift.stats.comparison import Floats
from nightshift.tasks.base import drift as base
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.named_inputs import ReferenceComparison

SHARE_OF_ERROR, SHARE = "share of the promised error", "share of rows"  # units of signals


@dataclass(frozen=True)
class NumberComparison(ReferenceComparison):
    """The newest rows of a table of numbers, beside a model's training rows."""

    inputs: DriftInputs[RegressionConfig]

    def labeled_signals(self) -> Iterator[Signal]:
        labels, scores = self._read_due()
        if self.inputs.promise is not None:
            yield from self._compare_residuals(scores - labels, self.inputs.promise)
        yield self._compare_coverage(labels, scores)

    def _read_due(self) -> tuple[Floats, Floats]:
        """Return the labels and the scores of the rows whose labels are due and there, float64 (n,) each."""
        batches = [rows.loc[rows["label"].notna(), ["label", SCORE]] for rows in self.batches(self.inputs.labeled_days)]
        due = pd.concat(batches) if batches else pd.DataFrame({"label": [], SCORE: []})
        return due["label"].to_numpy(dtype=float), due[SCORE].to_numpy(dtype=float)

    def _compare_residuals(self, residuals: Floats, promise: Promise) -> Iterator[Signal]:
        limits, count, usual = self.inputs.config.drift, len(residuals), promise.value or np.finfo(float).tiny
        if count < limits.min_rows:
            yield self._few("performance", count, limits.error, SHARE_OF_ERROR)
            yield self._few("residuals", count, limits.bias, SHARE_OF_ERROR)
            return
        reached, bias = float(np.abs(residuals).mean()), float(residuals.mean())
        rise, share = reached / usual - 1, abs(bias) / usual
        yield Signal(
            name="performance",
            value=rise,
            limit=limits.error,
            unit=SHARE_OF_ERROR,
            raised=rise > limits.error,
            reason=f"Mean absolute error {reached:.3f} where labels are due ({count} rows), {promise.value:.3f} "
            f"{promise.measured}.",
        )
        yield Signal(
            name="residuals",
            value=share,
            limit=limits.bias,
            unit=SHARE_OF_ERROR,
            raised=share > limits.bias,
            reason=f"Scores are {abs(bias):.3f} too {'high' if bias > 0 else 'low'} on the whole where labels are due.",
        )

    def _compare_coverage(self, labels: Floats, scores: Floats) -> Signal:
        limits, interval, count = self.inputs.config.drift, self.inputs.model.decision.interval, len(labels)
        if interval is None or count < limits.min_rows:
            return self._few("coverage", count, limits.coverage, SHARE)
        low, high = conformal.bound(scores, interval)
        covered = float(((low <= labels) & (labels <= high)).mean())
        lost = interval.coverage - covered
        reason = (
            f"Prediction intervals cover {covered:.1%} of {count} labels, where {interval.coverage:.0%} is promised."
        )
        raised = lost > limits.coverage
        return Signal(name="coverage", value=lost, limit=limits.coverage, unit=SHARE, raised=raised, reason=reason)

    def _few(self, name: str, count: int, limit: float, unit: str) -> Signal:
        least = self.inputs.config.drift.min_rows
        reason = f"{count} rows with labels; at least {least} are needed to judge the model."
        return Signal(name=name, value=None, limit=limit, unit=unit, raised=False, reason=reason)


class DriftTask(base.DriftTask):
    """Errors as labels arrive."""

    def comparison(self, inputs: DriftInputs[RegressionConfig]) -> NumberComparison:
        return NumberComparison(inputs)
