"""What may have changed since a model was trained."""

import pandas as pd

from nightshift.contracts.drift import Signal
from nightshift.tasks.base import drift as base
from nightshift.tasks.named_inputs import ReferenceComparison
from shop_counts import poisson
from shop_counts.metrics import LOSS


class CountComparison(ReferenceComparison):
    metric = LOSS

    def losses(self, rows):
        rows = rows.dropna(subset="label")
        return poisson.deviances(rows["label"].to_numpy(dtype=float), rows["score"].to_numpy())

    def labeled_signals(self):
        losses = self.losses(pd.concat(self.batches(self.inputs.labeled_days)))
        promised, limit = self.inputs.promise, self.inputs.config.task.max_rise
        if promised and len(losses):
            reached = float(losses.mean())
            rise = reached - promised.value
            reason = f"{self.metric.title} {reached:.3f} on new days, {promised.value:.3f} {promised.measured}."
            yield Signal(name="performance", value=rise, limit=limit, raised=rise > limit, reason=reason)


class DriftTask(base.DriftTask):
    def comparison(self, inputs):
        return CountComparison(inputs)
