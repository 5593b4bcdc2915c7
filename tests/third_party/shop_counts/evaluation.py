"""How wrong the rates are on the test days, and whether a model may replace the champion."""

import numpy as np

from nightshift.contracts.evaluation import EvaluationFigures
from nightshift.contracts.section import Fact
from nightshift.contracts.verdict import Measure
from nightshift.stats import bootstrap
from nightshift.tasks.base import evaluation as base
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.markdown import items, page
from nightshift.tasks.model_cards import identity
from nightshift.tasks.named_inputs import MeasuredRows, require_labels
from nightshift.tasks.trials import Contender, Gate, Trial, judge
from shop_counts import poisson
from shop_counts.metrics import LOSS


class CountContender(Contender):
    lower_is_better = (LOSS.name,)


class CountsUnderTest(MeasuredRows):
    contender, metric = CountContender, LOSS

    def losses(self, rates):
        return poisson.deviances(self.rows["label"].to_numpy(dtype=float), rates)

    def measure(self, uri, model, candidate, version=0):
        losses = self.losses(self.scores(uri, model, candidate))
        measured = {"metrics": float(losses.mean()), "resamples": bootstrap.mean(np.zeros(len(losses), int), losses)}
        named = {name: {self.metric.name: value} for name, value in measured.items()}
        return self.contender.from_model(model, version, **named)

    def report(self, uri, model, candidates, champion, reference):
        loss = candidates[model.selected].estimates()[self.metric.name]
        verdict = judge(candidates[model.selected], champion, self._gate(loss), reference)
        figures = Trial(self.config, model, self.window, candidates, champion, verdict).shared_figures()
        sections = {"Model": identity(model, self.config, defaults="library"), "Verdict": items(verdict.reasons)}
        return EvaluationReport(
            verdict=verdict,
            figures=EvaluationFigures(**figures),
            highlights=[Fact(label=self.metric.title, value=loss.value, format="score")],
            blocks=[],
            card=page(f"Model card: {self.config.name}, {model.selected}", sections),
            metrics={self.metric.name: loss.value},
        )

    def _gate(self, loss):
        limits, most, name = self.config.evaluation, self.config.evaluation.max_loss, self.metric.name
        measured = {"value": loss.value, "interval": (loss.low, loss.high), "higher_is_better": False}
        return Gate(
            metric=name,
            tolerance=limits.tolerance,
            undecidable=[f"Only {len(self.rows)} test rows."] if len(self.rows) < limits.min_rows else [],
            refused=[f"{self.metric.title} {loss} is above {most:g}."] if loss.value > most else [],
            passed=f"{self.metric.title} of the challenger is {loss}, at most {most:g} is allowed.",
            measures=[Measure(name=name, limit=most, **measured)],
        )


class EvaluationTask(base.EvaluationTask):
    def read_test_rows(self, config, features, fold, _):
        return CountsUnderTest(config, fold.test, require_labels(features.read(fold.test), fold.test))
