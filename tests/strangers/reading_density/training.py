"""The rows that train and choose a model."""

from shop_counts.training import CountRows, ShopRows, networks

from reading_density import density, metrics
from reading_density.package import Readings

__all__ = ["networks", "rows"]


class ReadingSample(CountRows):
    metrics = metrics

    def fit(self, name):
        return density.fit(self.spec(name), self.matrix)

    def losses(self, scores):
        return scores


class ReadingRows(ShopRows):
    sample_class, inputs_class = ReadingSample, Readings

    def read(self, days):
        return self.setup.features.read(days)


rows = ReadingRows
