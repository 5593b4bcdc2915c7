"""The images or texts that train and choose a model that tells their classes apart."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from nightshift.config.classes import ClassConfig, ClassTaskConfig
from nightshift.config.section import ConfigSection
from nightshift.contracts.artifact import FoldWindow, Window
from nightshift.contracts.package import DecisionRule, Signature
from nightshift.contracts.preprocessing import ClassPreprocessing as Preprocessing
from nightshift.data.splits import Days, Fold, Plan, describe
from nightshift.items import scorer, shards
from nightshift.items.metrics import Labels, choose_thresholds, evaluate
from nightshift.items.shards import Array, ItemTable, labels
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.tasks.base import training as base
from nightshift.tasks.base.training import CandidateMetrics, TrainingSetup
from nightshift.tasks.classification import drift_reference, kinds
from nightshift.tasks.classification.drift_reference import ItemModel
from nightshift.tasks.classification.kinds import Candidates
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.items import references
from nightshift.tasks.items.networks import TOLERANCE, FitSetup, Scores

log = logging.getLogger("nightshift")

CHECKED = 512  # rows on which a graph is compared with the model it was made of


@dataclass(frozen=True)
class ItemSample(base.Sample):
    """Labeled training rows.

    Attributes:
        setup: of the training.
        items: all its rows.
        rows: those of them that train.
        days: on which they lie.
    """

    setup: FitSetup[ClassTaskConfig]
    items: ItemTable
    rows: pd.DataFrame
    days: Days

    @property
    def window(self) -> FoldWindow:
        return describe(self.rows, self.days)

    @property
    def signature(self) -> Signature:
        return self._candidates.signature(self.setup.task)

    @cached_property
    def preprocessing(self) -> Preprocessing:
        return self._candidates.preprocessing(self.setup.task)

    @property
    def files(self) -> Mapping[str, bytes]:
        return self._candidates.files(self.setup.task)

    @property
    def unlearned_classes(self) -> list[str]:
        task = self.setup.task
        return unlearned_classes(self.rows, task.classes, self.days, task.is_multilabel)

    @property
    def tolerance(self) -> float:
        return TOLERANCE

    def check(self) -> None:
        for name in self.setup.task.candidates:
            self._candidates.is_network(self.setup.task, name)

    def fit(self, name: str) -> Fitted:
        return self._candidates.fit(self.setup, name, self.items, self.rows)

    def export_error(self, fitted: Fitted) -> float:
        sample = self.items.inputs(self.rows.iloc[:: -(-len(self.rows) // CHECKED)])
        return float(np.abs(score_graph(fitted.graph, sample) - fitted.predict(sample)).max())

    @property
    def _candidates(self) -> Candidates:
        return kinds.candidates(self.setup.task.kind)


@dataclass(frozen=True)
class ItemHoldout(base.Holdout):
    """Labeled rows that no candidate was fitted on.

    Attributes:
        rows: who they are.
        days: on which they lie.
        labels: numbers of classes, (n,), or which each row has, (n, classes).
        inputs: what a graph takes of them, (n, ...).
    """

    rows: pd.DataFrame
    days: Days
    labels: Labels
    inputs: Array

    @property
    def window(self) -> FoldWindow:
        return describe(self.rows, self.days)

    def measure(self, graph: bytes) -> CandidateMetrics:
        scores = score_graph(graph, self.inputs)
        thresholds = choose_thresholds(self.labels.astype(bool), scores) if self.labels.ndim == 2 else []
        metrics = evaluate(self.labels, scores, thresholds)
        return CandidateMetrics({**metrics}, DecisionRule(threshold=None, thresholds=thresholds))


@dataclass(frozen=True)
class ItemRows(base.TrainingRows[ItemSample]):
    """The rows of a training.

    Attributes:
        setup: task and device.
        plan: the windows of the logical date.
        items: the days from the first training day of the validation fold to the last one of the test fold.
    """

    setup: FitSetup[ClassTaskConfig]
    plan: Plan
    items: ItemTable

    def sample(self, fold: Fold) -> ItemSample:
        return ItemSample(self.setup, self.items, self.items.training_rows(fold), fold.train)

    def holdout(self, fold: Fold, _: ItemSample) -> ItemHoldout:
        rows = self.items.holdout(fold)
        task = self.setup.task
        known = labels(rows, task.classes, task.is_multilabel)
        return ItemHoldout(rows, fold.test, known, self.items.inputs(rows))

    def reference(self, sample: ItemSample, graph: bytes, decision: DecisionRule) -> tuple[pd.DataFrame, Window]:
        holdout = references.draw_holdout(self.items.rows, self.plan, sample.rows, self.setup.task.seed)
        model = ItemModel(Graph(graph), sample.preprocessing, decision.thresholds)
        frame, days = drift_reference.reference(holdout, self.items, model), self.plan.before
        return frame, Window(first=days.first, last=days.last, rows=len(frame))


class TrainingTask(base.TrainingTask):
    """Models that tell classes apart."""

    def read_rows(self, setup: TrainingSetup[ClassConfig]) -> ItemRows:
        task, plan = setup.config.task, setup.plan
        shards.check(setup.features, kinds.candidates(task.kind).preprocessing(task))
        items = ItemTable.read(setup.features, Days(plan.validation.train.first, plan.test.train.last))
        return ItemRows(FitSetup(task, setup.device, setup.checkpoints), plan, items)

    def networks(self, task: ClassTaskConfig) -> Mapping[str, ConfigSection]:
        candidates = kinds.candidates(task.kind)
        return {name: candidate for name, candidate in task.candidates.items() if candidates.is_network(task, name)}


def unlearned_classes(rows: pd.DataFrame, classes: list[str], days: Days, is_multilabel: bool = False) -> list[str]:
    """Return the classes that no training row has.

    Raises:
        UserError: when all rows are labeled alike.
    """
    present = set(rows["label"])
    if len(present) < 2:
        alike = f"have labels {present.pop()}" if is_multilabel else f"are of class {present.pop()!r}"
        raise UserError(
            f"{days}: all {len(rows)} rows {alike}, and a model needs two or more; "
            "choose another --date, or widen protocol.train_days"
        )
    counts = shards.count_classes(rows, classes, is_multilabel)
    missing = [name for name, count in zip(classes, counts, strict=True) if not count]
    if missing:
        log.warning("no training row is of %s, so the model cannot tell them", ", ".join(map(repr, missing)))
    return missing


def score_graph(graph: bytes, inputs: Array) -> Scores:
    """Return a graph's probabilities of each class, (n, classes), of what it takes, (n, ...)."""
    return scorer.scores(Graph(graph), inputs)
