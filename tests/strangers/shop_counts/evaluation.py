"""How wrong the rates are on the test days, and whether a model may replace the champion."""

import numpy as np

from nightshift.contracts.evaluation import EvaluationFigures
from nightshift.contracts.section import Fact
from nightshift.contracts.verdict import Measure
from nightshift.stats import bootstrap
from nightshift.tasks.markdown import items, page
from nightshift.tasks.model_cards import identity
from nightshift.tasks.protocol import EvaluationReport
from nightshift.tasks.rows import MeasuredRows, require_labels
from nightshift.tasks.trials import Contender, Gate, Trial, judge
from shop_counts import metrics, poisson


class CountContender(Contender):
    lower_is_better = metrics.LOWER_IS_BETTER


class CountsUnderTest(MeasuredRows):
    contender, metrics = CountContender, metrics

    def losses(self, rates):
        return poisson.deviances(self.rows["label"].to_numpy(dtype=float), rates)

    def measure(self, uri, model, candidate, version=0):
        losses = self.losses(self.scores(uri, model, candidate))
        measured = {"metrics": float(losses.mean()), "resamples": bootstrap.mean(np.zeros(len(losses), int), losses)}
        named = {name: {self.metrics.PROMISE: value} for name, value in measured.items()}
        return self.contender.from_model(model, version, **named)

    def report(self, uri, model, candidates, champion, reference):
        loss = candidates[model.selected].estimates()[self.metrics.PROMISE]
        verdict = judge(candidates[model.selected], champion, self._gate(loss), reference)
        figures = Trial(self.config, model, self.window, candidates, champion, verdict).shared_figures()
        sections = {"Model": identity(model, self.config, defaults="library"), "Verdict": items(verdict.reasons)}
        return EvaluationReport(
            verdict=verdict,
            figures=EvaluationFigures(**figures),
            highlights=[Fact(label=self.metrics.TITLE, value=loss.value, format="score")],
            blocks=[],
            card=page(f"Model card: {self.config.name}, {model.selected}", sections),
            metrics={self.metrics.PROMISE: loss.value},
        )

    def _gate(self, loss):
        limits, most, name = self.config.evaluation, self.config.evaluation.max_loss, self.metrics.PROMISE
        measured = {"value": loss.value, "interval": (loss.low, loss.high), "higher_is_better": False}
        return Gate(
            metric=name,
            tolerance=limits.tolerance,
            undecidable=[f"Only {len(self.rows)} test rows."] if len(self.rows) < limits.min_rows else [],
            refused=[f"{self.metrics.TITLE} {loss} is above {most:g}."] if loss.value > most else [],
            passed=f"{self.metrics.TITLE} of the challenger is {loss}, at most {most:g} is allowed.",
            measures=[Measure(name=name, limit=most, **measured)],
        )


def rows(config, features, fold, _):
    return CountsUnderTest(config, fold.test, require_labels(features.read(fold.test), fold.test))
