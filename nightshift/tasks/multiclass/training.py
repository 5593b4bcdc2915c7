"""The rows that train and choose a model of classes."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from nightshift.config.multiclass import MulticlassConfig
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.package import Datatype, DecisionRule, Signature, Tensor
from nightshift.contracts.preprocessing import MulticlassPreprocessing
from nightshift.data.splits import Days, Fold
from nightshift.items import shards
from nightshift.items.metrics import Labels, evaluate
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.tabular import declarations
from nightshift.tabular import inputs as tabular
from nightshift.tasks.base import training as base
from nightshift.tasks.base.training import CandidateMetrics, TrainingSetup
from nightshift.tasks.classification.training import unlearned_classes
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.library_fits import LibrarySample
from nightshift.tasks.multiclass import estimators
from nightshift.tasks.named_inputs import require_labels

FEW_ROWS = 20  # of each class, on which parameters are tried
CHECKED_ROWS = 2_000


@dataclass(frozen=True)
class MulticlassSample(LibrarySample):
    """Training rows with classes as labels.

    Attributes:
        setup: of the training.
        tolerance: by how much a graph's scores may differ from the library's.
    """

    setup: TrainingSetup[MulticlassConfig]
    tolerance: float = 1e-5

    @cached_property
    def labels(self) -> Labels:
        """Numbers of classes, (n,)."""
        return shards.labels(self.rows, self.setup.config.task.classes)

    @property
    def preprocessing(self) -> MulticlassPreprocessing:
        config = self.setup.config
        return MulticlassPreprocessing(**dict(self.inputs), features=config.feature_spec, classes=config.task.classes)

    @property
    def signature(self) -> Signature:
        inputs = Tensor.of_rows(Datatype.FP32, self.inputs.width)
        return Signature.of_scores(inputs, classes=len(self.setup.config.task.classes))

    @property
    def unlearned_classes(self) -> list[str]:
        return unlearned_classes(self.rows, self.setup.config.task.classes, self.days)

    def check(self) -> None:
        few, task = replace(self, rows=self.rows.groupby("label").head(FEW_ROWS)), self.setup.config.task
        for name, candidate in task.candidates.items():
            estimators.check(candidate.kind, self.spec(name), few.matrix, few.labels, len(task.classes))

    def fit(self, name: str) -> Fitted:
        task = self.setup.config.task
        kind = task.candidates[name].kind
        return estimators.fit(kind, self.spec(name), self.matrix, self.labels, len(task.classes))

    def export_error(self, fitted: Fitted) -> float:
        rows = self.matrix[:: -(-len(self.matrix) // CHECKED_ROWS)]
        return float(np.abs(Graph(fitted.graph).score(rows) - fitted.predict(rows)).max())


@dataclass(frozen=True)
class MulticlassHoldout(base.Holdout):
    """Labeled rows that no candidate was fitted on."""

    sample: MulticlassSample

    @property
    def window(self) -> FoldWindow:
        return self.sample.window

    def measure(self, graph: bytes) -> CandidateMetrics:
        scores = Graph(graph, self.sample.setup.config.task.threads).score(self.sample.matrix)
        return CandidateMetrics({**evaluate(self.sample.labels, scores)}, DecisionRule(threshold=None))


@dataclass(frozen=True)
class MulticlassRows(base.TrainingRows[MulticlassSample]):
    """The rows of a training."""

    setup: TrainingSetup[MulticlassConfig]

    def sample(self, fold: Fold) -> MulticlassSample:
        config, details, rows = self.setup.config, self.setup.features.details, self._read(fold.train)
        nullable = declarations.nullable_inputs(config.feature_spec, config.nullable)
        inputs = tabular.seen_in(rows, details["numeric"], details["categorical"], nullable)
        return MulticlassSample(rows, fold.train, inputs, self.setup)

    def holdout(self, fold: Fold, sample: MulticlassSample) -> MulticlassHoldout:
        return MulticlassHoldout(replace(sample, rows=self._read(fold.test), days=fold.test))

    def reference(self, sample: MulticlassSample, graph: bytes, _: DecisionRule) -> tuple[pd.DataFrame, None]:
        return sample.reference(graph, self.setup.config), None

    def _read(self, days: Days) -> pd.DataFrame:
        rows = require_labels(self.setup.features.read(days), days)
        if rows.empty:
            raise UserError(f"{days}: no rows, and a model needs some; choose another --date")
        return rows


class TrainingTask(base.TrainingTask):
    """One matrix for all candidates."""

    def read_rows(self, setup: TrainingSetup[MulticlassConfig]) -> MulticlassRows:
        return MulticlassRows(setup)
