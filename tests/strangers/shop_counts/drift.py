"""What may have changed since a model was trained."""

from functools import cached_property

import pandas as pd

from nightshift.contracts.drift import Signal
from nightshift.splits import Days
from nightshift.tasks.rows import RowsBesideReference
from shop_counts import poisson


class CountComparison(RowsBesideReference):
    @cached_property
    def _due(self):
        return [pd.concat(self.batches(Days(day, day))).dropna(subset="label") for day in self.inputs.labeled_days]

    @property
    def labeled_count(self):
        return len(self._due[-1])

    def labeled_signals(self):
        rows, promised, limit = pd.concat(self._due), self.inputs.promise, self.inputs.config.task.max_rise
        if promised and len(rows):
            reached = poisson.deviance(rows["label"].to_numpy(dtype=float), rows["score"].to_numpy())
            rise = reached - promised.value
            reason = f"Poisson deviance {reached:.3f} where labels are due, {promised.value:.3f} {promised.measured}."
            yield Signal(name="performance", value=rise, limit=limit, raised=rise > limit, reason=reason)


comparison = CountComparison
