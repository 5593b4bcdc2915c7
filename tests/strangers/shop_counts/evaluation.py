"""How wrong the rates are on the test days, and whether a model may replace the champion."""

from nightshift.contracts.evaluation import Figures
from nightshift.contracts.section import Fact
from nightshift.contracts.verdict import Measure
from nightshift.markdown import items, page
from nightshift.tasks.model_cards import identity
from nightshift.tasks.protocol import EvaluationReport
from nightshift.tasks.rows import MeasuredRows, require_labels
from nightshift.tasks.trials import Contender, Gate, Trial, judge
from shop_counts import poisson
from shop_counts.metrics import LOWER_IS_BETTER, PROMISE


class CountContender(Contender):
    lower_is_better = LOWER_IS_BETTER


class CountsUnderTest(MeasuredRows):
    def measure(self, uri, model, candidate, version=0):
        counts, rates = self.rows["label"].to_numpy(dtype=float), self.scores(uri, model, candidate)
        measured = {"metrics": poisson.deviance(counts, rates), "resamples": poisson.resampled(counts, rates)}
        return CountContender.from_model(model, version, **{name: {PROMISE: value} for name, value in measured.items()})

    def report(self, uri, model, candidates, champion):
        deviance = candidates[model.selected].estimates()[PROMISE]
        verdict = judge(candidates[model.selected], champion, self._gate(deviance))
        figures = Trial(self.config, model, self.window, candidates, champion, verdict).shared_figures()
        sections = {"Model": identity(model, self.config, defaults="library"), "Verdict": items(verdict.reasons)}
        return EvaluationReport(
            verdict=verdict,
            figures=Figures(**figures),
            highlights=[Fact(label="Poisson deviance", value=deviance.value, format="score")],
            blocks=[],
            card=page(f"Model card: {self.config.name}, {model.selected}", sections),
            metrics={PROMISE: deviance.value},
        )

    def _gate(self, deviance):
        limits, most = self.config.evaluation, self.config.evaluation.max_deviance
        measured = {"value": deviance.value, "interval": (deviance.low, deviance.high), "higher_is_better": False}
        return Gate(
            metric=PROMISE,
            tolerance=limits.tolerance,
            undecidable=[f"Only {len(self.rows)} test rows."] if len(self.rows) < limits.min_rows else [],
            refused=[f"Poisson deviance {deviance} is above {most:g}."] if deviance.value > most else [],
            passed=f"The challenger's Poisson deviance is {deviance}, at most {most:g} is allowed.",
            measures=[Measure(name=PROMISE, limit=most, **measured)],
        )


def rows(config, features, fold, _):
    return CountsUnderTest(config, fold.test, require_labels(features.read(fold.test), fold.test))
