"""The test rows of a table, and what is written of a model that was measured on them."""

from dataclasses import dataclass

from nightshift.config.tabular import TabularConfig
from nightshift.contracts import verdict
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.evaluation import Curves
from nightshift.contracts.online import Replay
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.splits import Days, Fold
from nightshift.stats.comparison import Floats
from nightshift.tabular.inputs import FrameScorer
from nightshift.tasks import visuals
from nightshift.tasks.protocol import EvaluationReport
from nightshift.tasks.rows import MeasuredRows
from nightshift.tasks.tabular import compromise, judging, model_card, notes, quality, skew
from nightshift.tasks.tabular.explain import CalibrationSummary, Explanation, importances, slices
from nightshift.tasks.tabular.judging import RowContender, RowTrial


@dataclass(frozen=True)
class TableUnderTest(MeasuredRows):
    """The test rows: `event_time`, `customer`, `label` and the inputs.

    Attributes:
        replay: of a day through the online state.
    """

    config: TabularConfig
    replay: Replay

    def __str__(self) -> str:
        return f"{super().__str__()}, {self._positives} of them positive"

    @property
    def window(self) -> FoldWindow:
        """Their days, rows and positives."""
        return super().window.model_copy(update={"positives": self._positives})

    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> RowContender:
        """Measure a candidate of the model at a URI."""
        scores = self.scores(uri, model, candidate)
        return judging.measure(self.rows, scores, model, self.config.evaluation, version)

    def report(
        self, uri: str, model: ModelPackage, candidates: dict[str, RowContender], champion: RowContender | str
    ) -> EvaluationReport:
        """Judge a model and describe it."""
        gate, challenger = self.config.evaluation, candidates[model.selected]
        judged = judging.judge(challenger, champion, self._positives, gate)
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

    def _explain(self, uri: str, model: ModelPackage, scores: Floats, curves: Curves) -> Explanation:
        rows = self.rows.assign(score=scores)
        return Explanation(
            slices=slices(rows, self.config.task.longest_window_days),
            calibration=CalibrationSummary.from_curve(curves.calibration),
            importances=importances(rows, model.tabular.columns, FrameScorer(uri, model).score),
        )


def rows(config: TabularConfig, features: Table, fold: Fold, _: ModelPackage) -> TableUnderTest:
    """Return the test rows of a fold, but for customers known as compromised where the config says so.

    Raises:
        UserError: when there are none, or one has no label although it is due.
    """
    # the days since training began show which customers are known as compromised
    history = features.read(Days(fold.train.first, fold.test.last))
    unseen = judging.check_rows(compromise.test_rows(history, fold, config.protocol))
    return TableUnderTest(config, fold.test, unseen, Replay.model_validate(features.details["replay"]))


def _measure(whose: str, contender: RowContender) -> dict[str, float]:
    shown = {name: contender.metrics[name] for name in ("auc_roc", "average_precision", "precision_at_k")}
    return {f"{whose}{name}": value for name, value in shown.items() if value is not None}
