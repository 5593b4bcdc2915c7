"""The test rows of a table, and what is written of a model that was measured on them."""

from dataclasses import dataclass

import pandas as pd

from nightshift.config.tabular import TabularConfig
from nightshift.contracts import verdict
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.evaluation import Curves
from nightshift.contracts.online import Replay
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data.splits import Days, Fold, rows_of
from nightshift.stats.comparison import Floats
from nightshift.tabular.inputs import FrameScorer
from nightshift.tasks import visuals
from nightshift.tasks.base import evaluation as base
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.named_inputs import MeasuredRows
from nightshift.tasks.tabular import compromise, dominance, judging, model_card, notes, quality, skew
from nightshift.tasks.tabular.dominance import DominantInput
from nightshift.tasks.tabular.explain import CalibrationSummary, Explanation, importances, slices
from nightshift.tasks.tabular.judging import RowContender, RowTrial
from nightshift.tasks.tabular.metrics import METRICS


@dataclass(frozen=True)
class TableUnderTest(MeasuredRows, base.RowsUnderTest[RowContender]):
    """The test rows: `event_time`, `customer`, `label` and the inputs.

    Attributes:
        replay: of a day through the online state.
        training: the same of the labeled training rows, by which inputs are ranked alone.
    """

    config: TabularConfig
    replay: Replay
    training: pd.DataFrame

    def __str__(self) -> str:
        return f"{super().__str__()}, {self._positives} of them positive"

    @property
    def window(self) -> FoldWindow:
        """Their days, rows and positives."""
        return super().window.model_copy(update={"positives": self._positives})

    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> RowContender:
        scores = self.scores(uri, model, candidate)
        return judging.measure(self.rows, scores, model, self.config.evaluation, version)

    def report(
        self,
        uri: str,
        model: ModelPackage,
        candidates: dict[str, RowContender],
        champion: RowContender | str,
        reference: RowContender | None,
    ) -> EvaluationReport:
        gate, challenger = self.config.evaluation, candidates[model.selected]
        judged = judging.judge(challenger, champion, self._positives, gate, self._find_dominant(challenger), reference)
        labels, scores = self.rows["label"].to_numpy(dtype="int8"), self.scores(uri, model, model.selected)
        curves = judging.curves(labels, scores)
        unseen, unusual = notes.unseen(self.rows, model.tabular), notes.notes(self.rows, model, gate)
        online = skew.judge(self.replay, model)
        trial = RowTrial(self.config, model, self.window, candidates, champion, judged, unseen, unusual, online)
        explanation = self._explain(uri, model, scores, curves)
        metrics = _measure("", challenger) | (_measure("champion_", trial.rival) if trial.rival else {})
        return EvaluationReport(
            verdict=judged,
            figures=trial.figures(curves),
            highlights=list(quality.highlights(trial)),
            blocks=list(quality.blocks(trial, curves, explanation)),
            card=model_card.render(trial, explanation),
            metrics=metrics | {"classification": visuals.classification(labels, scores, model.threshold)},
            caveats=unusual,
            others={verdict.SKEW: online},
        )

    @property
    def _positives(self) -> int:
        return int(self.rows["label"].sum())

    def _find_dominant(self, challenger: RowContender) -> list[DominantInput]:
        """Return the inputs that rank the rows nearly alone and that the config does not allow to."""
        allowed, raw = self.config.evaluation.allowed_alone, self.config.raw_inputs
        columns = [name for name, column in raw.items() if column not in allowed and name in self.rows] + ["label"]
        return dominance.find_dominant_inputs(self.training[columns], self.rows[columns], challenger.metrics)

    def _explain(self, uri: str, model: ModelPackage, scores: Floats, curves: Curves) -> Explanation:
        rows = self.rows.assign(score=scores)
        return Explanation(
            slices=slices(rows, model.tabular.features.find_count("customer")),
            calibration=CalibrationSummary.from_curve(curves.calibration),
            importances=importances(rows, model.tabular.columns, FrameScorer(uri, model).score),
        )


class EvaluationTask(base.EvaluationTask):
    """The test rows, but for customers known as compromised where the config says so."""

    def read_test_rows(self, config: TabularConfig, features: Table, fold: Fold, model: ModelPackage) -> TableUnderTest:
        # the days since training began show which customers are known as compromised
        history = features.read(Days(fold.train.first, fold.test.last))
        holdout = judging.check_rows(compromise.test_rows(history, fold, config.protocol))
        training = rows_of(history, fold.train).dropna(subset="label")
        return TableUnderTest(config, fold.test, holdout, Replay.model_validate(features.details["replay"]), training)


def _measure(whose: str, contender: RowContender) -> dict[str, float]:
    shown = {metric.name: contender.figures[metric.name] for metric in METRICS if metric.is_headline}
    return {f"{whose}{name}": value for name, value in shown.items() if value is not None}
