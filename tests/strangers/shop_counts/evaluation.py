"""How wrong the rates are on the test days, and whether a model may replace the champion."""

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from nightshift.config import Config
from nightshift.contracts import evaluation as contract
from nightshift.contracts.artifact import Artifact, LabeledWindow
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import Column, Fact, Row
from nightshift.contracts.section import Table as Shown
from nightshift.contracts.tables import Table
from nightshift.contracts.verdict import Measure, Verdict
from nightshift.markdown import items, page
from nightshift.splits import Fold
from nightshift.stats.comparison import Floats
from nightshift.tabular.inputs import Scorer
from nightshift.tasks.model_cards import identity
from nightshift.tasks.protocol import EvaluationReport
from nightshift.tasks.trials import Contender, Gate, Trial, judge
from shop_counts import metrics, poisson
from shop_counts.training import labeled

METRIC = metrics.PROMISE


@dataclass(frozen=True)
class CountContender(Contender):
    lower_is_better: ClassVar = metrics.LOWER_IS_BETTER
    sha256: str
    trained_until: str
    version: int
    metrics: dict[str, float]
    resamples: dict[str, Floats]


class CountEvaluation(Artifact):
    test: LabeledWindow
    models: dict[str, contract.Metrics]
    selected: str
    intervals: dict[str, dict[str, contract.Interval]]
    champion: contract.Champion | None
    gains: dict[str, contract.Estimate] | None


@dataclass(frozen=True)
class RowsUnderTest:
    config: Config
    rows: pd.DataFrame
    window: LabeledWindow

    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> CountContender:
        counts, rates = self.rows["label"].to_numpy(dtype=float), Scorer(uri, model, candidate).score(self.rows)
        resamples, until = {METRIC: poisson.resampled(counts, rates)}, str(model.lineage.train.last)
        return CountContender(model.sha256, until, version, poisson.metrics(counts, rates), resamples)

    def misfit(self, _: ModelPackage, model: ModelPackage) -> str:
        missing = {*model.inputs.columns} - {*self.rows}
        return f"needs {', '.join(missing)}, which the features lack now" if missing else ""

    def report(
        self, uri: str, model: ModelPackage, candidates: dict[str, CountContender], champion: CountContender | str
    ) -> EvaluationReport:
        challenger = candidates[model.selected]
        verdict = self._judged(challenger, champion)
        trial = Trial(self.config, model, self.window, candidates, champion, verdict)
        sections = {"Model": identity(model, self.config, defaults="library"), "Verdict": items(verdict.reasons)}
        return EvaluationReport(
            verdict=verdict,
            figures=CountEvaluation(**trial.shared_figures()),
            highlights=[Fact(label="Poisson deviance", value=challenger.metrics[METRIC], format="score")],
            blocks=[self._by_weekday(Scorer(uri, model).score(self.rows))],
            card=page(f"Model card: {self.config.name}, {model.selected}", sections),
            metrics=challenger.metrics,
        )

    def _judged(self, challenger: CountContender, champion: CountContender | str) -> Verdict:
        limits, most, sure = self.config.evaluation, self.config.task.max_deviance, challenger.estimates()[METRIC]
        interval = (sure.low, sure.high)
        gate = Gate(
            metric=METRIC,
            tolerance=limits.tolerance,
            undecidable=[f"Only {len(self.rows)} test rows."] if len(self.rows) < limits.min_rows else [],
            refused=[f"Poisson deviance {sure} is above {most:g}."] if sure.value > most else [],
            passed=f"The challenger's Poisson deviance is {sure}, at most {most:g} is allowed.",
            measures=[Measure(name=METRIC, value=sure.value, limit=most, interval=interval, higher_is_better=False)],
        )
        return judge(challenger, champion, gate)

    def _by_weekday(self, rates: Floats) -> Shown:
        means = self.rows.assign(rate=rates).groupby("weekday")[["label", "rate"]].mean().astype(float)
        columns = [Column(title="Weekday"), *(Column(title=name, format="plain") for name in ("Counted", "Predicted"))]
        rows = [Row(cells=[day, *mean]) for day, mean in zip(means.index, means.to_numpy().tolist(), strict=True)]
        return Shown(title="Mean count by weekday", columns=columns, rows=rows)


def rows(config: Config, features: Table, fold: Fold, _: ModelPackage) -> RowsUnderTest:
    rows = labeled(features, fold.test)
    window = LabeledWindow(first=fold.test.first, last=fold.test.last, rows=len(rows))
    return RowsUnderTest(config, rows, window)
