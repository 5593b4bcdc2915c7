"""The rows that train and choose a model of numbers."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from nightshift.config.regression import RegressionConfig
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.package import DecisionRule
from nightshift.contracts.preprocessing import RegressionPreprocessing
from nightshift.data.splits import Days, Fold
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.stats import conformal
from nightshift.tabular import inputs as tabular
from nightshift.tasks.base import training as base
from nightshift.tasks.base.training import CandidateMetrics, TrainingSetup
from nightshift.tasks.fitting import Fitted, with_reasons
from nightshift.tasks.library_fits import LibrarySample
from nightshift.tasks.named_inputs import require_labels
from nightshift.tasks.regression import estimators
from nightshift.tasks.regression.errors import Errors
from nightshift.tasks.regression.estimators import Labels

FEW_ROWS = 100  # on which parameters are tried
CHECKED_ROWS = 2_000


@dataclass(frozen=True)
class NumberSample(LibrarySample):
    """Training rows with numbers as labels.

    Attributes:
        setup: of the training.
        tolerance: by how much a graph's scores may differ from the library's, in standard deviations of the labels.
    """

    setup: TrainingSetup[RegressionConfig]
    tolerance: float = 1e-4

    @cached_property
    def labels(self) -> Labels:
        """Float64 (n,)."""
        return self.rows["label"].to_numpy(dtype=np.float64)

    @property
    def preprocessing(self) -> RegressionPreprocessing:
        config = self.setup.config
        delay, days = config.label_delay_days, config.task.windows_days
        return RegressionPreprocessing(**dict(self.inputs), windows_days=days, label_delay_days=delay)

    def check(self) -> None:
        few, task = replace(self, rows=self.rows[:FEW_ROWS]), self.setup.config.task
        lowest = np.append(few.labels[1:], self.labels.min())  # which a candidate may refuse
        for name, candidate in task.candidates.items():
            estimators.check(candidate.kind, self.spec(name), few.matrix, lowest, task.quantile)

    def fit(self, name: str) -> Fitted:
        task = self.setup.config.task
        kind = task.candidates[name].kind
        return with_reasons(estimators.fit(kind, self.spec(name), self.matrix, self.labels, task.quantile))

    def export_error(self, fitted: Fitted) -> float:
        rows = self.matrix[:: -(-len(self.matrix) // CHECKED_ROWS)]
        off = Graph(fitted.graph).score(rows) - fitted.predict(rows)
        return float(np.abs(off).max() / (self.labels.std() or 1.0))


@dataclass(frozen=True)
class NumberHoldout(base.Holdout):
    """Labeled rows that no candidate was fitted on, which calibrate its prediction intervals too."""

    sample: NumberSample

    @property
    def window(self) -> FoldWindow:
        return self.sample.window

    def measure(self, graph: bytes) -> CandidateMetrics:
        config, labels = self.sample.setup.config, self.sample.labels
        scores = Graph(graph, config.task.threads).score(self.sample.matrix)
        interval = conformal.calibrate(labels, scores, config.task.coverage)
        measured = Errors.from_config(config).measure(labels, scores)
        return CandidateMetrics(measured, DecisionRule(threshold=None, interval=interval))


@dataclass(frozen=True)
class NumberRows(base.TrainingRows[NumberSample]):
    """The rows of a training."""

    setup: TrainingSetup[RegressionConfig]

    def sample(self, fold: Fold) -> NumberSample:
        details, rows = self.setup.features.details, self._read(fold.train)
        inputs = tabular.seen_in(rows, details["numeric"], details["categorical"], self.setup.config.nullable)
        return NumberSample(rows, fold.train, inputs, self.setup)

    def holdout(self, fold: Fold, sample: NumberSample) -> NumberHoldout:
        return NumberHoldout(replace(sample, rows=self._read(fold.test), days=fold.test))

    def reference(self, sample: NumberSample, graph: bytes, _: DecisionRule) -> tuple[pd.DataFrame, None]:
        return sample.reference(graph, self.setup.config), None

    def _read(self, days: Days) -> pd.DataFrame:
        rows = require_labels(self.setup.features.read(days), days)
        if rows.empty or rows["label"].nunique() < 2:
            raise UserError(
                f"{days}: {len(rows)} rows, whose labels do not differ, and a model needs some that do; choose another "
                "--date, or widen protocol.train_days and protocol.test_days"
            )
        return rows


class TrainingTask(base.TrainingTask):
    """One matrix for all candidates."""

    def read_rows(self, setup: TrainingSetup[RegressionConfig]) -> NumberRows:
        return NumberRows(setup)
