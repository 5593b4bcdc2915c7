"""Scores of images and texts: each is taken for the class with the highest score, or for all that reach theirs."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pandas as pd

from nightshift import storage
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Partition, Table
from nightshift.items import shards
from nightshift.items.scorer import ClassScorer
from nightshift.models.graph import Graph
from nightshift.tasks.base import scoring as base
from nightshift.tasks.classification import drift_reference
from nightshift.tasks.classification.drift_reference import ItemModel
from nightshift.tasks.items import references


@dataclass(frozen=True)
class ItemScorer(base.DayScorer):
    """A model of images or texts, and its graph."""

    model: ModelPackage
    graph: Graph

    def batches(self, features: Table, day: date) -> Iterator[pd.DataFrame]:
        part = features.partition(day)
        shards.check(features, self.model.classes)
        rows, inputs = storage.read_frame(part.uri, references.KEYS), shards.map_shard(part)
        model = ItemModel(self.graph, self.model.classes, self.model.decision.thresholds)
        yield rows.join(drift_reference.describe(inputs, model))


class ScoringTask(base.ScoringTask):
    """A probability a class."""

    def scorer(self, uri: str, model: ModelPackage) -> ItemScorer:
        return ItemScorer(model, ClassScorer(uri, model).graph)

    def identify(self, scores: pd.DataFrame, features: Partition) -> pd.DataFrame:
        return scores.assign(content=storage.read_frame(features.uri, ["content"])["content"])
