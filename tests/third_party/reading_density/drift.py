"""What may have changed since a model was trained: the newest readings are less likely than those of its test days."""

from shop_counts.drift import CountComparison

from nightshift.tasks.base import drift as base
from reading_density.metrics import LOSS


class ReadingComparison(CountComparison):
    metric = LOSS

    def losses(self, rows):
        return rows["score"]


class DriftTask(base.DriftTask):
    def comparison(self, inputs):
        return ReadingComparison(inputs)
