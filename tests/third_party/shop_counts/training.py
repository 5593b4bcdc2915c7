"""The rows that train and choose a model."""

from dataclasses import dataclass, replace

import numpy as np

from nightshift.contracts.package import DecisionRule
from nightshift.models.graph import Graph
from nightshift.tabular import inputs
from nightshift.tasks.base import training as base
from nightshift.tasks.base.training import CandidateMetrics, TrainingSetup
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.named_inputs import InputRows, require_labels
from shop_counts import poisson
from shop_counts.metrics import LOSS
from shop_counts.package import ShopRates


@dataclass(frozen=True)
class CountRows(InputRows):
    setup: TrainingSetup
    tolerance = 1e-5
    metric = LOSS

    @property
    def counts(self):
        return self.rows["label"].to_numpy(dtype=float)

    def check(self):
        for name in self.setup.config.task.candidates:
            replace(self, rows=self.rows[:100]).fit(name)

    def fit(self, name):
        return poisson.fit(self.spec(name), self.matrix, self.counts)

    def losses(self, rates):
        return poisson.deviances(self.counts, rates)

    def export_error(self, fitted):
        return float(np.abs(Graph(fitted.graph).score(self.matrix) / fitted.predict(self.matrix) - 1).max())

    def measure(self, graph):
        loss = float(self.losses(Graph(graph).score(self.matrix)).mean())
        return CandidateMetrics({self.metric.name: loss}, DecisionRule(threshold=None))

    def spec(self, name):
        task = self.setup.config.task
        return FitSpec(f"task.candidates.{name}.parameters", task.candidates[name].parameters, task.seed, 1, "cpu")


@dataclass(frozen=True)
class ShopRows(base.TrainingRows):
    setup: TrainingSetup
    sample_class, inputs_class = CountRows, ShopRates

    def sample(self, fold):
        details, rows = self.setup.features.details, self.read(fold.train)
        seen = inputs.seen_in(rows, details["numeric"], details["categorical"])
        return self.sample_class(rows, fold.train, self.inputs_class(**dict(seen)), self.setup)

    def holdout(self, fold, sample):
        return self.sample_class(self.read(fold.test), fold.test, sample.inputs, self.setup)

    def reference(self, sample, graph, decision):
        return sample.reference(graph, self.setup.config), None

    def read(self, days):
        return require_labels(self.setup.features.read(days), days)


class TrainingTask(base.TrainingTask):
    def read_rows(self, setup):
        return ShopRows(setup)
