"""The rows of a table on which forms of a graph are measured."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score

from nightshift.config.tabular import TabularConfig
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.data.splits import Days
from nightshift.models.tensors import Tensors, by_name
from nightshift.stats import bootstrap
from nightshift.tabular import inputs
from nightshift.tasks.base import optimization as base
from nightshift.tasks.tabular import compromise

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]
Scores = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TableOptimizationRows(base.OptimizationRows):
    """Rows of a table that a model flags or does not.

    Attributes:
        labels: 0 or 1, (n,).
        threshold: score from which an event is flagged.
    """

    metric: ClassVar = "average precision"
    batch_size: ClassVar = 1024
    labels: Labels
    threshold: float

    @property
    def is_decidable(self) -> bool:
        return 0 < int(self.labels.sum()) < len(self.labels)

    def decide(self, scores: Scores) -> npt.NDArray[Any]:
        return scores >= self.threshold

    def quality(self, scores: Scores) -> float:
        return float(average_precision_score(self.labels, scores))

    def resample(self, scores: Scores) -> Floats:
        return bootstrap.average_precision(self.labels, scores)


class OptimizationTask(base.OptimizationTask):
    """Average precision on the validation rows."""

    def read_samples(
        self, config: TabularConfig, features: Table, uri: str, model: ModelPackage, limit: float
    ) -> tuple[Tensors, TableOptimizationRows]:
        sample = package.read_reference(uri)
        fold = splits.fold(config, model.lineage.validation.last)
        columns = ["event_time", "customer", "label", *model.tabular.columns]
        history = features.read(Days(fold.train.first, fold.test.last), columns)
        holdout = compromise.test_rows(history, fold, config.protocol)
        labels = holdout["label"].to_numpy(dtype=np.int8)
        measured = TableOptimizationRows(by_name(inputs.matrix(model.tabular, holdout)), limit, labels, model.threshold)
        return by_name(inputs.matrix(model.tabular, sample)), measured
