"""The test rows of a table of classes, and what is written of a model that was measured on them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nightshift.config.multiclass import MulticlassConfig
from nightshift.contracts.evaluation import OfSlice
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import Block, Row, TableBlock, TableColumn
from nightshift.contracts.tables import Table
from nightshift.data.splits import Fold
from nightshift.items import shards
from nightshift.items.metrics import Scores
from nightshift.runtime.errors import UserError
from nightshift.tabular.inputs import matrix
from nightshift.tasks import visuals
from nightshift.tasks.base import evaluation as base
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.classification import judging, model_card, quality
from nightshift.tasks.classification.judging import ItemContender, ItemTrial, LabeledItems
from nightshift.tasks.classification.mistakes import Answers
from nightshift.tasks.items.slices import split_thirds
from nightshift.tasks.multiclass.groups import number_groups
from nightshift.tasks.named_inputs import MeasuredRows, require_labels

SHOWN_VALUES = 6  # of a categorical column, the most frequent ones
SHOWN_MISTAKES = 20


@dataclass(frozen=True)
class MulticlassUnderTest(MeasuredRows, base.RowsUnderTest[ItemContender]):
    """The test rows: `event_time`, `customer`, `label` and the inputs."""

    config: MulticlassConfig

    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> ItemContender:
        return judging.measure(self._labeled_rows, self.scores(uri, model, candidate), model, version)

    def incompatibility(self, ours: ModelPackage, model: ModelPackage) -> str:
        if model.preprocessing.labels != ours.preprocessing.labels:
            return "tells other classes apart"
        return super().incompatibility(ours, model)

    def report(
        self,
        uri: str,
        model: ModelPackage,
        candidates: dict[str, ItemContender],
        champion: ItemContender | str,
        reference: ItemContender | None,
    ) -> EvaluationReport:
        challenger, scores, known = (
            candidates[model.selected],
            self.scores(uri, model, model.selected),
            self._labeled_rows,
        )
        judged = judging.judge(challenger, champion, self.config, reference)
        parts = [*self._slices(model, scores.argmax(1) == known.labels)]
        trial = ItemTrial(self.config, model, self.window, candidates, champion, judged, None, parts)
        figures = trial.figures(known, scores)
        return EvaluationReport(
            verdict=judged,
            figures=figures,
            highlights=list(quality.highlights(trial)),
            blocks=[*quality.blocks(trial, figures), *self._list_mistakes(model, scores)],
            card=model_card.render(trial, figures, defaults="library"),
            metrics={
                **challenger.metrics,
                "classification": visuals.describe_confusion(figures.confusion, known.classes),
            },
        )

    @cached_property
    def _labeled_rows(self) -> LabeledItems:
        names = self.config.task.classes
        return LabeledItems(shards.labels(self.rows, names), number_groups(self.rows), names)

    def _slices(self, model: ModelPackage, right: npt.NDArray[np.bool_]) -> Iterator[OfSlice]:
        """Yield the accuracy by the values of categorical columns, and by thirds of the user's numbers."""
        for column in model.inputs.categorical:
            values = self.rows[column].astype(str)
            for value in values.value_counts().index[:SHOWN_VALUES]:
                yield _measure_slice(f"{column}={value}", right[values == value])
        for column in self.config.columns.numeric:
            numbers = self.rows[column].to_numpy(float)
            there = ~np.isnan(numbers)
            for name, mask in split_thirds(column, numbers[there]) if there.any() else ():
                if mask.any():
                    yield _measure_slice(name, right[there][mask])

    def _list_mistakes(self, model: ModelPackage, scores: Scores) -> Iterator[Block]:
        known = self._labeled_rows
        answers = Answers(self.rows, matrix(model.inputs, self.rows), known.labels, scores, known.classes)
        rows = [Row(cells=[*answers.names(row), float(scores[row].max())]) for row in answers.surest(SHOWN_MISTAKES)]
        titles = [TableColumn(title=title) for title in ("Row", "Class", "Taken for")]
        columns = [*titles, TableColumn(title="Confidence", format="percent")]
        if rows:
            yield TableBlock(title="The surest mistakes", columns=columns, rows=rows, shown=5)


def _measure_slice(name: str, right: npt.NDArray[np.bool_]) -> OfSlice:
    return OfSlice(name=name, rows=len(right), accuracy=float(right.mean()))


class EvaluationTask(base.EvaluationTask):
    """Every test row."""

    def read_test_rows(
        self, config: MulticlassConfig, features: Table, fold: Fold, model: ModelPackage
    ) -> MulticlassUnderTest:
        rows = require_labels(features.read(fold.test), fold.test)
        if rows.empty:
            raise UserError(f"{fold.test}: no rows, and a model is judged by some; choose another --date")
        return MulticlassUnderTest(config, fold.test, rows)
