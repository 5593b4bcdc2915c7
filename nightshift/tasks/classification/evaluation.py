"""The test images or texts, and what is written of a model that was measured on them."""

from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from nightshift.config.classes import ClassConfig
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.contracts.verdict import Verdict
from nightshift.data import splits
from nightshift.data.splits import Days, Fold
from nightshift.items import metrics, shards
from nightshift.items.metrics import Scores
from nightshift.items.scorer import ClassScorer
from nightshift.items.shards import Array, ItemTable
from nightshift.stats import bootstrap
from nightshift.tasks import visuals
from nightshift.tasks.base import evaluation as base
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.classification import judging, kinds, model_card, quality
from nightshift.tasks.classification.judging import ItemContender, ItemTrial, LabeledItems
from nightshift.tasks.classification.mistakes import Answers
from nightshift.tasks.classification.slices import slices


@dataclass(frozen=True)
class ItemsUnderTest(base.RowsUnderTest[ItemContender]):
    """The test rows.

    Attributes:
        config: the use case.
        days: on which they lie.
        left_out: rows of these days that training has seen the group or content of.
        rows: who they are.
        inputs: what a graph takes of them, (n, ...).
    """

    config: ClassConfig
    days: Days
    left_out: int
    rows: pd.DataFrame
    inputs: Array
    _scored: dict[tuple[str, str], Scores] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{len(self.rows)} test rows of {self.days}, {self.left_out} left out"

    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> ItemContender:
        return judging.measure(self.labeled_rows, self.score(uri, model, candidate), model, version)

    def incompatibility(self, ours: ModelPackage, model: ModelPackage) -> str:
        fits = (model.signature, model.preprocessing) == (ours.signature, ours.preprocessing)
        if reason := kinds.find_other_labels(self.config.task, model):
            return reason
        return "" if fits else "takes other inputs, or tells other classes apart"

    def report(
        self,
        uri: str,
        model: ModelPackage,
        candidates: dict[str, ItemContender],
        champion: ItemContender | str,
        reference: ItemContender | None,
    ) -> EvaluationReport:
        challenger, scores = candidates[model.selected], self.score(uri, model, model.selected)
        judged = self.judge(challenger, champion, reference)
        window = splits.describe(self.rows, self.days)
        known, predicted = self.labeled_rows, metrics.predict(scores, model.decision.thresholds)
        parts = slices(model.classes, self.inputs, metrics.match(known.labels, predicted))
        trial = ItemTrial(self.config, model, window, candidates, champion, judged, self.left_out, parts)
        figures = trial.figures(known, scores)
        answers = Answers(self.rows, self.inputs, known.labels, scores, known.classes, model.decision.thresholds)
        mistakes = kinds.display(model.kind).mistakes(uri, model, answers)
        return EvaluationReport(
            verdict=judged,
            figures=figures,
            highlights=list(quality.highlights(trial)),
            blocks=[*quality.blocks(trial, figures), *([mistakes] if mistakes else [])],
            card=model_card.render(trial, figures),
            metrics={
                **challenger.metrics,
                "classification": visuals.describe_confusion(figures.confusion, known.classes),
            },
        )

    def judge(
        self, challenger: ItemContender, champion: ItemContender | str, reference: ItemContender | None
    ) -> Verdict:
        """Decide whether the challenger may replace the champion."""
        return judging.judge(challenger, champion, self.config, reference)

    @cached_property
    def labeled_rows(self) -> LabeledItems:
        """What the rows are, by which models are measured."""
        task = self.config.task
        known = shards.labels(self.rows, task.classes, task.is_multilabel)
        return LabeledItems(known, bootstrap.number_groups(self.rows), task.classes)

    def score(self, uri: str, model: ModelPackage, candidate: str) -> Scores:
        """Return a candidate's probabilities of classes, (n, classes)."""
        if (uri, candidate) not in self._scored:
            self._scored[uri, candidate] = ClassScorer(uri, model, candidate).score(self.inputs)
        return self._scored[uri, candidate]


class EvaluationTask(base.EvaluationTask):
    """The test rows that have nothing in common with the training rows."""

    def read_test_rows(self, config: ClassConfig, features: Table, fold: Fold, model: ModelPackage) -> ItemsUnderTest:
        shards.check(features, model.classes)
        items = ItemTable.read(features, Days(fold.train.first, fold.test.last))
        holdout = items.holdout(fold)
        left_out = len(splits.rows_of(items.rows, fold.test)) - len(holdout)
        return ItemsUnderTest(config, fold.test, left_out, holdout, items.inputs(holdout))
