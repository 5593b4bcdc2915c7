"""The images or texts on which forms of a graph are measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt
import pandas as pd

from nightshift.config.classes import ClassConfig
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.data.splits import Days
from nightshift.items import metrics, shards
from nightshift.items.metrics import Labels, Scores
from nightshift.items.shards import ItemTable
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors, by_name
from nightshift.stats.bootstrap import number_groups
from nightshift.tasks.base import optimization as base
from nightshift.tasks.classification import drift_reference
from nightshift.tasks.classification.drift_reference import ItemModel
from nightshift.tasks.items import references
from nightshift.tasks.items.references import SAMPLE


@dataclass(frozen=True)
class ItemOptimizationRows(base.OptimizationRows):
    """Images or texts whose class is predicted.

    Attributes:
        labels: numbers of classes, (n,), or which each row has, (n, classes).
        groups: number of each row's group, (n,).
        thresholds: of each class, where a row has any number of them.
    """

    metric: ClassVar = "accuracy"
    batch_size: ClassVar = 32
    labels: Labels
    groups: Labels
    thresholds: Sequence[float] = ()

    def decide(self, scores: Scores) -> npt.NDArray[Any]:
        return metrics.predict(scores, self.thresholds)

    def quality(self, scores: Scores) -> float:
        return float(metrics.match(self.labels, self.decide(scores)).mean())

    def resample(self, scores: Scores) -> Scores:
        return metrics.resample(self.labels, self.decide(scores), self.groups, scores.shape[1])["accuracy"]


class OptimizationTask(base.OptimizationTask):
    """Accuracy on the validation rows."""

    def read_samples(
        self, config: ClassConfig, features: Table, uri: str, model: ModelPackage, limit: float
    ) -> tuple[Tensors, ItemOptimizationRows]:
        train, fold = model.lineage.train, splits.fold(config, model.lineage.validation.last)
        shards.check(features, model.classes)
        seen = ItemTable.read(features, Days(train.first, train.last))
        sample = seen.inputs(seen.rows.iloc[:: -(-len(seen.rows) // SAMPLE)])
        items = ItemTable.read(features, Days(fold.train.first, fold.test.last))
        holdout = items.holdout(fold)
        known, groups = shards.labels(holdout, config.task.classes, config.task.is_multilabel), number_groups(holdout)
        rows = by_name(items.inputs(holdout))
        measured = ItemOptimizationRows(rows, limit, known, groups, model.decision.thresholds)
        return by_name(sample), measured

    def reference(self, features: Table, uri: str, model: ModelPackage, graph: Graph) -> pd.DataFrame:
        sample, days = package.read_reference(uri), model.lineage.reference
        if days is None:
            return sample
        items = ItemTable.read(features, Days(days.first, days.last))
        kept, all_rows = (pd.MultiIndex.from_frame(frame[references.KEYS]) for frame in (sample, items.rows))
        scored_by = ItemModel(graph, model.classes, model.decision.thresholds)
        return drift_reference.reference(items.rows[all_rows.isin(kept)], items, scored_by)
