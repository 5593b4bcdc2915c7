"""The rows that train and choose a model."""

from dataclasses import dataclass

import numpy as np

from nightshift.contracts.package import DecisionRule
from nightshift.graph import Graph
from nightshift.tabular import inputs
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.protocol import CandidateMetrics, TrainingSetup
from nightshift.tasks.rows import LabeledRows, require_labels
from shop_counts import metrics, poisson
from shop_counts.package import ShopRates


@dataclass(frozen=True)
class CountRows(LabeledRows):
    setup: TrainingSetup
    tolerance: float = 1e-5

    @property
    def counts(self):
        return self.rows["label"].to_numpy(dtype=float)

    def check(self):
        for name in self.setup.config.task.candidates:
            poisson.fit(self._spec(name), self.matrix[:100], self.counts[:100])

    def fit(self, name):
        return poisson.fit(self._spec(name), self.matrix, self.counts)

    def gap(self, fitted):
        return float(np.abs(Graph(fitted.graph).score(self.matrix) / fitted.predict(self.matrix) - 1).max())

    def measure(self, graph):
        deviance = poisson.deviance(self.counts, Graph(graph).score(self.matrix))
        return CandidateMetrics({metrics.PROMISE: deviance}, DecisionRule(threshold=None))

    def _spec(self, name):
        task = self.setup.config.task
        return FitSpec(f"task.candidates.{name}.parameters", task.candidates[name].parameters, task.seed, 1, "cpu")


@dataclass(frozen=True)
class ShopRows:
    setup: TrainingSetup

    def sample(self, fold):
        details, rows = self.setup.features.details, self._labeled(fold.train)
        seen = inputs.seen_in(rows, details["numeric"], details["categorical"])
        return CountRows(rows, fold.train, ShopRates(**dict(seen)), self.setup)

    def unseen(self, fold, sample):
        return CountRows(self._labeled(fold.test), fold.test, sample.inputs, self.setup)

    def reference(self, sample, graph):
        return sample.reference(graph, self.setup.config.task.seed), None

    def _labeled(self, days):
        return require_labels(self.setup.features.read(days), days)


rows = ShopRows


def networks(_):
    return {}
