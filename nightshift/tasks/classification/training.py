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
from nightshift.items.metrics import Labels, evaluate
from nightshift.items.shards import Array, ItemTable, labels
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.tasks.classification import drift_reference, kinds
from nightshift.tasks.classification.kinds import Candidates
from nightshift.tasks.classification.networks import Scores, Setting
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.protocol import CandidateMetrics, TrainingSetup

log = logging.getLogger("nightshift")

CHECKED = 512  # rows on which a graph is compared with the model it was made of
TOLERANCE = 1e-4


@dataclass(frozen=True)
class ItemSample:
    """Labeled training rows.

    Attributes:
        setting: of the training.
        items: all its rows.
        rows: those of them that train.
        days: on which they lie.
    """

    setting: Setting[ClassTaskConfig]
    items: ItemTable
    rows: pd.DataFrame
    days: Days

    @property
    def window(self) -> FoldWindow:
        """Their days, and how many there are."""
        return describe(self.rows, self.days)

    @property
    def signature(self) -> Signature:
        """What every graph takes and gives."""
        return self._candidates.signature(self.setting.task)

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """How rows become what a graph takes."""
        return self._candidates.preprocessing(self.setting.task)

    @property
    def files(self) -> Mapping[str, bytes]:
        """What a package holds beside its graphs: a tokenizer, where there is one."""
        return self._candidates.files(self.setting.task)

    @property
    def constant(self) -> list[str]:
        """Inputs that are the same in every row: none that has a name."""
        return []

    @property
    def unlearned_classes(self) -> list[str]:
        """The classes that no row has."""
        return unlearned_classes(self.rows, self.setting.task.classes, self.days)

    @property
    def tolerance(self) -> float:
        """By how much the scores of a candidate's graph may differ from the library's."""
        return TOLERANCE

    def check(self) -> None:
        """Have each recipe refuse what it does not know."""
        for name in self.setting.task.candidates:
            self._candidates.is_network(self.setting.task, name)

    def fit(self, name: str) -> Fitted:
        """Fit one candidate of the config."""
        return self._candidates.fit(self.setting, name, self.items, self.rows)

    def gap(self, fitted: Fitted) -> float:
        """Return by how much a graph's scores differ from the library's, on some of the rows."""
        sample = self.items.inputs(self.rows.iloc[:: -(-len(self.rows) // CHECKED)])
        return float(np.abs(score_graph(fitted.graph, sample) - fitted.predict(sample)).max())

    @property
    def _candidates(self) -> Candidates:
        return kinds.candidates(self.setting.task.kind)


@dataclass(frozen=True)
class UnseenItems:
    """Labeled rows that no candidate was fitted on.

    Attributes:
        window: their days, and how many there are.
        labels: numbers of classes, (n,).
        inputs: what a graph takes of them, (n, ...).
    """

    window: FoldWindow
    labels: Labels
    inputs: Array

    def measure(self, graph: bytes) -> CandidateMetrics:
        """Measure a candidate, which decides on the class with the highest score."""
        return CandidateMetrics(
            {**evaluate(self.labels, score_graph(graph, self.inputs))}, DecisionRule(threshold=None)
        )


@dataclass(frozen=True)
class ItemRows:
    """The rows of a training.

    Attributes:
        setting: task and device.
        plan: the windows of the logical date.
        items: the days from the first training day of the validation fold to the last one of the test fold.
    """

    setting: Setting[ClassTaskConfig]
    plan: Plan
    items: ItemTable

    def sample(self, fold: Fold) -> ItemSample:
        """Return the training rows of a fold."""
        return ItemSample(self.setting, self.items, self.items.training_rows(fold), fold.train)

    def unseen(self, fold: Fold, _: ItemSample) -> UnseenItems:
        """Return the test rows of a fold."""
        rows = self.items.unseen(fold)
        return UnseenItems(describe(rows, fold.test), labels(rows, self.setting.task.classes), self.items.inputs(rows))

    def reference(self, sample: ItemSample, graph: bytes) -> tuple[pd.DataFrame, Window]:
        """Return rows of the days before the training that no network was fitted on; see `drift_reference`."""
        unseen = drift_reference.unseen(self.items.rows, self.plan, sample.rows, self.setting.task.seed)
        frame, days = (
            drift_reference.reference(unseen, self.items, sample.preprocessing, Graph(graph)),
            self.plan.before,
        )
        return frame, Window(first=days.first, last=days.last, rows=len(frame))


def rows(setup: TrainingSetup[ClassConfig]) -> ItemRows:
    """Read the rows of a training.

    Raises:
        UserError: when the features were made for other pixels or tokens.
    """
    task, plan = setup.config.task, setup.plan
    shards.check(setup.features, kinds.candidates(task.kind).preprocessing(task))
    items = ItemTable.read(setup.features, Days(plan.validation.train.first, plan.test.train.last))
    return ItemRows(Setting(task, setup.device, setup.checkpoints), plan, items)


def networks(task: ClassTaskConfig) -> Mapping[str, ConfigSection]:
    """Return the candidates that several processes train together."""
    candidates = kinds.candidates(task.kind)
    return {name: candidate for name, candidate in task.candidates.items() if candidates.is_network(task, name)}


def unlearned_classes(rows: pd.DataFrame, classes: list[str], days: Days) -> list[str]:
    """Return the classes that no training row has.

    Raises:
        UserError: when all rows are of one class.
    """
    present = set(rows["label"])
    if len(present) < 2:
        raise UserError(
            f"{days}: all {len(rows)} rows are of class {present.pop()!r}, and a model needs two or more; "
            "choose another --date, or widen protocol.train_days"
        )
    missing = [name for name in classes if name not in present]
    if missing:
        log.warning("no training row is of %s, so the model cannot tell them", ", ".join(map(repr, missing)))
    return missing


def score_graph(graph: bytes, inputs: Array) -> Scores:
    """Return a graph's probabilities of each class, (n, classes), of what it takes, (n, ...)."""
    return scorer.scores(Graph(graph), inputs)
