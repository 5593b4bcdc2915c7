"""The images or texts on which forms of a graph are measured."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.config.classes import ClassConfig
from nightshift.contracts import package
from nightshift.contracts.optimization import EngineVariant
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.data.splits import Days
from nightshift.items import bootstrap, shards
from nightshift.items.metrics import Labels, Scores
from nightshift.items.shards import ItemTable
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors, by_name
from nightshift.tasks.classification import drift_reference

SAMPLE = 256  # rows by which scales are chosen


@dataclass(frozen=True)
class ItemOptimizationRows:
    """Images or texts whose class is predicted.

    Attributes:
        inputs: what the graph takes of the validation rows.
        labels: numbers of classes, (n,).
        groups: number of each row's group, (n,).
        limit: accuracy that a form may lose, at the high end of the interval.
    """

    metric: ClassVar = "accuracy"
    many: ClassVar = 32
    inputs: Tensors
    labels: Labels
    groups: Labels
    limit: float
    is_decidable: ClassVar = True

    def decide(self, scores: Scores) -> npt.NDArray[Any]:
        """Return the predicted classes."""
        labels: Labels = scores.argmax(1)
        return labels

    def quality(self, scores: Scores) -> float:
        """Return the accuracy."""
        return float(np.mean(scores.argmax(1) == self.labels))

    def resample(self, scores: Scores) -> npt.NDArray[np.float64]:
        """Return the accuracy of every resample."""
        return bootstrap.resample(self.labels, scores.argmax(1), self.groups, scores.shape[1])["accuracy"]


def rows(
    config: ClassConfig, features: Table, _: str, model: ModelPackage, limit: float
) -> tuple[Tensors, ItemOptimizationRows]:
    """Return a sample of training rows' inputs, and the validation rows."""
    train, fold = model.lineage.train, splits.fold(config, model.lineage.validation.last)
    shards.check(features, model.classes)
    seen = ItemTable.read(features, Days(train.first, train.last))
    sample = seen.inputs(seen.rows.iloc[:: -(-len(seen.rows) // SAMPLE)])
    items = ItemTable.read(features, Days(fold.train.first, fold.test.last))
    unseen = items.unseen(fold)
    known = shards.labels(unseen, config.task.classes)
    return by_name(sample), ItemOptimizationRows(by_name(items.inputs(unseen)), known, bootstrap.groups(unseen), limit)


def reference(features: Table, uri: str, model: ModelPackage, graph: Graph) -> pd.DataFrame:
    """Return the rows of the model's sample, as a form sees them: embeddings are part of it."""
    sample, days = package.read_reference(uri), model.lineage.reference
    if days is None:
        return sample
    items = ItemTable.read(features, Days(days.first, days.last))
    kept, all_rows = (pd.MultiIndex.from_frame(frame[drift_reference.KEYS]) for frame in (sample, items.rows))
    return drift_reference.reference(items.rows[all_rows.isin(kept)], items, model.classes, graph)


def engine_variants(*_: object) -> list[EngineVariant]:
    """Return none: such a model generates no text."""
    return []
