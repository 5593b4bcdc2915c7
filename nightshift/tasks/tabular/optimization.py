"""The rows of a table on which forms of a graph are measured."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score

from nightshift.config.tabular import TabularConfig
from nightshift.contracts import package
from nightshift.contracts.optimization import EngineVariant
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.data.splits import Days
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors, by_name
from nightshift.stats import bootstrap
from nightshift.tabular import inputs
from nightshift.tasks.tabular import compromise

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]
Scores = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TableOptimizationRows:
    """Rows of a table that a model flags or does not.

    Attributes:
        inputs: of the validation rows.
        labels: 0 or 1, (n,).
        threshold: score from which an event is flagged.
        limit: average precision that a form may lose, at the high end of the interval.
    """

    metric: ClassVar = "average precision"
    many: ClassVar = 1024
    inputs: Tensors
    labels: Labels
    threshold: float
    limit: float

    @property
    def is_decidable(self) -> bool:
        """Whether both classes are there."""
        return 0 < int(self.labels.sum()) < len(self.labels)

    def decide(self, scores: Scores) -> npt.NDArray[Any]:
        """Return which rows are flagged."""
        return scores >= self.threshold

    def quality(self, scores: Scores) -> float:
        """Return the average precision."""
        return float(average_precision_score(self.labels, scores))

    def resample(self, scores: Scores) -> Floats:
        """Return the average precision of every resample."""
        return bootstrap.average_precision(self.labels, scores)


def rows(
    config: TabularConfig, features: Table, uri: str, model: ModelPackage, limit: float
) -> tuple[Tensors, TableOptimizationRows]:
    """Return a sample of training rows' inputs, and the validation rows."""
    sample = package.read_reference(uri)
    fold = splits.fold(config, model.lineage.validation.last)
    columns = ["event_time", "customer", "label", *model.tabular.columns]
    history = features.read(Days(fold.train.first, fold.test.last), columns)
    unseen = compromise.test_rows(history, fold, config.protocol)
    labels = unseen["label"].to_numpy(dtype=np.int8)
    measured = TableOptimizationRows(by_name(inputs.matrix(model.tabular, unseen)), labels, model.threshold, limit)
    return by_name(inputs.matrix(model.tabular, sample)), measured


def reference(_: Table, uri: str, __: ModelPackage, ___: Graph) -> pd.DataFrame:
    """Return the sample of the model as it is: no form changes the rows."""
    return package.read_reference(uri)


def engine_variants(*_: object) -> list[EngineVariant]:
    """Return none: such a model generates no text."""
    return []
