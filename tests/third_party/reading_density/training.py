"""The rows that train and choose a model."""

from shop_counts.training import CountRows, ShopRows

from nightshift.tasks.base import training as base
from reading_density import density
from reading_density.metrics import LOSS
from reading_density.package import Readings


class ReadingSample(CountRows):
    metric = LOSS

    def fit(self, name):
        return density.fit(self.spec(name), self.matrix)

    def losses(self, scores):
        return scores


class ReadingRows(ShopRows):
    sample_class, inputs_class = ReadingSample, Readings

    def read(self, days):
        return self.setup.features.read(days)


class TrainingTask(base.TrainingTask):
    def read_rows(self, setup):
        return ReadingRows(setup)
