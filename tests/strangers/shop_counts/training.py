"""The rows that train and choose a model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nightshift.config import Config
from nightshift.contracts.package import DecisionRule
from nightshift.contracts.tables import Table
from nightshift.errors import UserError
from nightshift.graph import Graph
from nightshift.splits import Days, Fold
from nightshift.stats.comparison import Floats
from nightshift.tabular import inputs
from nightshift.tasks.fitting import FitSpec, Fitted
from nightshift.tasks.protocol import Measured, TrainingSetup
from nightshift.tasks.rows import LabeledRows
from shop_counts import poisson
from shop_counts.package import ShopRates


@dataclass(frozen=True)
class CountRows(LabeledRows):
    config: Config
    tolerance: float = 1e-5

    @property
    def counts(self) -> Floats:
        return self.rows["label"].to_numpy(dtype=float)

    def check(self) -> None:
        for name in self.config.task.candidates:
            poisson.fit(self._spec(name), self.matrix[:100], self.counts[:100])

    def fit(self, name: str) -> Fitted:
        return poisson.fit(self._spec(name), self.matrix, self.counts)

    def gap(self, fitted: Fitted) -> float:
        return float(np.abs(Graph(fitted.graph).score(self.matrix) / fitted.predict(self.matrix) - 1).max())

    def measure(self, graph: bytes) -> Measured:
        return Measured(poisson.metrics(self.counts, Graph(graph).score(self.matrix)), DecisionRule(threshold=None))

    def _spec(self, name: str) -> FitSpec:
        task = self.config.task
        return FitSpec(f"task.candidates.{name}.parameters", task.candidates[name].parameters, task.seed, 1, "cpu")


@dataclass(frozen=True)
class ShopRows:
    config: Config
    features: Table

    def sample(self, fold: Fold) -> CountRows:
        details, rows = self.features.details, labeled(self.features, fold.train)
        seen = inputs.seen_in(rows, details["numeric"], details["categorical"])
        windows = {"windows_days": self.config.task.windows_days, "label_delay_days": fold.label_delay_days}
        return CountRows(rows, fold.train, ShopRates(**seen.model_dump(), **windows), self.config)

    def unseen(self, fold: Fold, sample: CountRows) -> CountRows:
        return CountRows(labeled(self.features, fold.test), fold.test, sample.inputs, self.config)

    def reference(self, sample: CountRows, graph: bytes) -> tuple[pd.DataFrame, None]:
        return sample.reference(graph, self.config.task.seed), None


def labeled(features: Table, days: Days) -> pd.DataFrame:
    rows = features.read(days)
    if rows.empty or rows["label"].isna().any():
        raise UserError(f"{days}: rows or their counts are missing although they are due; run again from ingestion")
    return rows


def rows(setup: TrainingSetup) -> ShopRows:
    return ShopRows(setup.config, setup.features)


def networks(_: Any) -> dict[str, Any]:
    return {}
