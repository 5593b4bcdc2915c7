"""The rows on which forms of a graph are measured."""

from dataclasses import dataclass

from nightshift.contracts import package
from nightshift.data import splits
from nightshift.models.tensors import by_name
from nightshift.tabular.inputs import matrix
from nightshift.tasks.base import optimization as base
from shop_counts import poisson


@dataclass(frozen=True)
class CountOptimizationRows(base.OptimizationRows):
    metric, batch_size = "Poisson deviance", 1024
    counts: object

    def quality(self, scores):
        return -poisson.deviance(self.counts, scores)

    def resample(self, scores):
        return -poisson.resampled(self.counts, scores)


class OptimizationTask(base.OptimizationTask):
    def read_samples(self, config, features, uri, model, limit):
        holdout = features.read(splits.fold(config, model.lineage.validation.last).test)
        inputs, counts = by_name(matrix(model.inputs, holdout)), holdout["label"].to_numpy(dtype=float)
        measured = CountOptimizationRows(inputs, limit, counts)
        return by_name(matrix(model.inputs, package.read_reference(uri))), measured
