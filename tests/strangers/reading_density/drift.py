"""What may have changed since a model was trained: the newest readings are less likely than those of its test days."""

from shop_counts.drift import CountComparison

from reading_density import metrics


class ReadingComparison(CountComparison):
    metrics = metrics

    def losses(self, rows):
        return rows["score"]


comparison = ReadingComparison
