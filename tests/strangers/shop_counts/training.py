"""The rows that train and choose a model."""

from dataclasses import dataclass

import numpy as np

from nightshift.config import Config
from nightshift.contracts.package import DecisionRule
from nightshift.contracts.tables import Table
from nightshift.graph import Graph
from nightshift.tabular import inputs
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.protocol import Measured
from nightshift.tasks.rows import LabeledRows, labeled
from shop_counts import metrics, poisson
from shop_counts.package import ShopRates


@dataclass(frozen=True)
class CountRows(LabeledRows):
    config: Config
    tolerance: float = 1e-5

    @property
    def counts(self):
        return self.rows["label"].to_numpy(dtype=float)

    def check(self):
        for name in self.config.task.candidates:
            poisson.fit(self._spec(name), self.matrix[:100], self.counts[:100])

    def fit(self, name):
        return poisson.fit(self._spec(name), self.matrix, self.counts)

    def gap(self, fitted):
        return float(np.abs(Graph(fitted.graph).score(self.matrix) / fitted.predict(self.matrix) - 1).max())

    def measure(self, graph):
        deviance = poisson.deviance(self.counts, Graph(graph).score(self.matrix))
        return Measured({metrics.PROMISE: deviance}, DecisionRule(threshold=None))

    def _spec(self, name):
        task = self.config.task
        return FitSpec(f"task.candidates.{name}.parameters", task.candidates[name].parameters, task.seed, 1, "cpu")


@dataclass(frozen=True)
class ShopRows:
    config: Config
    features: Table

    def sample(self, fold):
        details, rows = self.features.details, labeled(self.features.read(fold.train), fold.train)
        seen = inputs.seen_in(rows, details["numeric"], details["categorical"])
        windows = {"windows_days": self.config.task.windows_days, "label_delay_days": fold.label_delay_days}
        return CountRows(rows, fold.train, ShopRates(**dict(seen), **windows), self.config)

    def unseen(self, fold, sample):
        return CountRows(labeled(self.features.read(fold.test), fold.test), fold.test, sample.inputs, self.config)

    def reference(self, sample, graph):
        return sample.reference(graph, self.config.task.seed), None


def rows(setup):
    return ShopRows(setup.config, setup.features)


def networks(_):
    return {}
