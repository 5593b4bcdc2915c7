"""What may have changed since a model was trained."""

import pandas as pd

from nightshift.contracts.drift import Signal
from nightshift.tasks.rows import RowsBesideReference
from shop_counts import metrics, poisson


class CountComparison(RowsBesideReference):
    metrics = metrics

    def losses(self, rows):
        rows = rows.dropna(subset="label")
        return poisson.deviances(rows["label"].to_numpy(dtype=float), rows["score"].to_numpy())

    def labeled_signals(self):
        losses = self.losses(pd.concat(self.batches(self.inputs.labeled_days)))
        promised, limit = self.inputs.promise, self.inputs.config.task.max_rise
        if promised and len(losses):
            reached = float(losses.mean())
            rise = reached - promised.value
            reason = f"{self.metrics.TITLE} {reached:.3f} on new days, {promised.value:.3f} {promised.measured}."
            yield Signal(name="performance", value=rise, limit=limit, raised=rise > limit, reason=reason)


comparison = CountComparison
