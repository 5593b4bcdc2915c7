"""How wrong the rates are on the test days, and whether a model may replace the champion."""

from typing import ClassVar

from nightshift.config import Config
from nightshift.contracts.evaluation import Figures
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import Fact
from nightshift.contracts.tables import Table
from nightshift.contracts.verdict import Measure, Verdict
from nightshift.markdown import items, page
from nightshift.splits import Fold
from nightshift.tasks.model_cards import identity
from nightshift.tasks.protocol import EvaluationReport
from nightshift.tasks.rows import MeasuredRows
from nightshift.tasks.trials import Contender, Gate, Trial, judge
from shop_counts import metrics, poisson
from shop_counts.training import labeled

METRIC = metrics.PROMISE


class CountContender(Contender):
    lower_is_better: ClassVar = metrics.LOWER_IS_BETTER


class CountsUnderTest(MeasuredRows):
    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> CountContender:
        counts, rates = self.rows["label"].to_numpy(dtype=float), self.scores(uri, model, candidate)
        return CountContender(
            sha256=model.sha256,
            trained_until=str(model.lineage.train.last),
            metrics=poisson.metrics(counts, rates),
            resamples={METRIC: poisson.resampled(counts, rates)},
            version=version,
        )

    def report(
        self, uri: str, model: ModelPackage, candidates: dict[str, CountContender], champion: CountContender | str
    ) -> EvaluationReport:
        challenger = candidates[model.selected]
        verdict = self._judged(challenger, champion)
        trial = Trial(self.config, model, self.window, candidates, champion, verdict)
        sections = {"Model": identity(model, self.config, defaults="library"), "Verdict": items(verdict.reasons)}
        return EvaluationReport(
            verdict=verdict,
            figures=Figures(**trial.shared_figures()),
            highlights=[Fact(label="Poisson deviance", value=challenger.metrics[METRIC], format="score")],
            blocks=[],
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


def rows(config: Config, features: Table, fold: Fold, _: ModelPackage) -> CountsUnderTest:
    return CountsUnderTest(config, fold.test, labeled(features, fold.test))
