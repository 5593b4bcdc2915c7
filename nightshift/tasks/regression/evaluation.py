"""The test rows of a table of numbers, and what is written of a model that was measured on them."""

from dataclasses import dataclass
from typing import Any

from nightshift.config.regression import RegressionConfig
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data.splits import Fold
from nightshift.runtime.errors import UserError
from nightshift.stats.comparison import Floats
from nightshift.tasks.base import evaluation as base
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.named_inputs import MeasuredRows, require_labels
from nightshift.tasks.regression import judging, quality
from nightshift.tasks.regression.errors import Errors, forecast_naively, group
from nightshift.tasks.regression.judging import NumberContender, NumberTrial, Residuals


@dataclass(frozen=True)
class NumbersUnderTest(MeasuredRows, base.RowsUnderTest[NumberContender]):
    """The test rows: `event_time`, the series, `label` and the inputs."""

    config: RegressionConfig

    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> NumberContender:
        return NumberContender.from_model(model, version, **self._measure(self.scores(uri, model, candidate)))

    def report(
        self,
        uri: str,
        model: ModelPackage,
        candidates: dict[str, NumberContender],
        champion: NumberContender | str,
        reference: NumberContender | None,
    ) -> EvaluationReport:
        challenger, naive = candidates[model.selected], self._forecast_naively()
        residuals = self._find_residuals(uri, model)
        judged = judging.judge(challenger, champion, naive, residuals, self.config, reference)
        trial = NumberTrial(self.config, model, self.window, candidates, champion, judged, naive, residuals)
        figures = trial.figures()
        return EvaluationReport(
            verdict=judged,
            figures=figures,
            highlights=list(quality.highlights(trial)),
            blocks=list(quality.blocks(trial, figures)),
            card=quality.render_card(trial, figures),
            metrics={**challenger.metrics, "coverage": figures.coverage.value},
        )

    def _find_residuals(self, uri: str, model: ModelPackage) -> Residuals:
        interval = model.decision.interval
        assert interval is not None, "a model of numbers is calibrated when it is trained"
        scores = self.scores(uri, model, model.selected).astype(float)
        return Residuals(self.rows, self._labels, scores, interval, group(self.rows, self.config))

    def _forecast_naively(self) -> dict[str, NumberContender]:
        forecasts = forecast_naively(self.rows, self.config)
        return {
            name: NumberContender(sha256="", trained_until="", **self._measure(scores))
            for name, scores in forecasts.items()
        }

    def _measure(self, scores: Floats) -> dict[str, Any]:
        errors, groups = Errors.from_config(self.config), group(self.rows, self.config)
        resamples = errors.resample(self._labels, scores, groups)
        return {"metrics": errors.measure(self._labels, scores), "resamples": resamples}

    @property
    def _labels(self) -> Floats:
        labels: Floats = self.rows["label"].to_numpy(dtype=float)
        return labels


class EvaluationTask(base.EvaluationTask):
    """Every test row."""

    def read_test_rows(
        self, config: RegressionConfig, features: Table, fold: Fold, model: ModelPackage
    ) -> NumbersUnderTest:
        rows = require_labels(features.read(fold.test), fold.test)
        if rows.empty:
            raise UserError(f"{fold.test}: no rows, and a model is judged by some; choose another --date")
        return NumbersUnderTest(config, fold.test, rows)
