"""The pairs that train and choose a model."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nightshift.config.classes import ClassConfig
from nightshift.contracts.artifact import Window
from nightshift.contracts.package import DecisionRule
from nightshift.data.splits import Fold
from nightshift.items.metrics import choose_thresholds
from nightshift.items.shards import labels
from nightshift.models.graph import Graph
from nightshift.tasks.base.training import CandidateMetrics, TrainingSetup
from nightshift.tasks.classification import training as classification
from nightshift.tasks.classification.training import CHECKED, ItemHoldout, ItemRows, ItemSample
from nightshift.tasks.fitting import Fitted
from nightshift_image_text.retrieval import Pairs
from nightshift_image_text.task import drift_reference
from nightshift_image_text.task.measuring import answer, measure_pairs
from nightshift_image_text.task.views import TOKENS


class PairSample(ItemSample):
    """Training pairs with findings."""

    def export_error(self, fitted: Fitted) -> float:
        sample = self.items.inputs(self.rows.iloc[:: -(-len(self.rows) // CHECKED)])
        return float(np.abs(answer(Graph(fitted.graph), sample).stacked - fitted.predict(sample)).max())


class PairHoldout(ItemHoldout):
    """Pairs with findings that no candidate was fitted on."""

    def measure(self, graph: bytes) -> CandidateMetrics:
        answers = answer(Graph(graph), self.inputs)
        thresholds = choose_thresholds(self.labels.astype(bool), answers.scores)
        pairs = Pairs.from_rows(self.rows, self.inputs[TOKENS])
        metrics = measure_pairs(self.labels, answers.scores, answers.embeddings, pairs, thresholds)
        return CandidateMetrics(metrics, DecisionRule(threshold=None, thresholds=thresholds))


@dataclass(frozen=True)
class PairRows(ItemRows):
    """The rows of a training."""

    def sample(self, fold: Fold) -> PairSample:
        return PairSample(self.setup, self.items, self.items.training_rows(fold), fold.train)

    def holdout(self, fold: Fold, _: ItemSample) -> PairHoldout:
        rows = self.items.holdout(fold)
        known = labels(rows, self.setup.task.classes, is_multilabel=True)
        return PairHoldout(rows, fold.test, known, self.items.inputs(rows))

    def reference(self, sample: ItemSample, graph: bytes, decision: DecisionRule) -> tuple[pd.DataFrame, Window]:
        frame, window = super().reference(sample, graph, decision)
        return drift_reference.add_parts(frame, self.items), window


class TrainingTask(classification.TrainingTask):
    """Models that pair images with reports, and tell findings."""

    def read_rows(self, setup: TrainingSetup[ClassConfig]) -> PairRows:
        rows = super().read_rows(setup)
        return PairRows(rows.setup, rows.plan, rows.items)
