"""How far the challenger's scores are from labels, and whether it may replace the champion."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nightshift.config.regression import RegressionConfig
from nightshift.contracts import evaluation as contract
from nightshift.contracts.package import PredictionInterval
from nightshift.contracts.verdict import Measure, Verdict
from nightshift.stats import conformal
from nightshift.stats.comparison import BootstrapEstimate, Floats
from nightshift.tasks import trials
from nightshift.tasks.base.metrics import list_lower_better
from nightshift.tasks.metric_reports import list_measures
from nightshift.tasks.regression.errors import Groups, average
from nightshift.tasks.regression.features import WEEKDAY
from nightshift.tasks.regression.metrics import METRICS
from nightshift.tasks.trials import Contender, Gate, Trial

MIN_GROUPS = 5  # series or days of the test rows, needed to decide: the intervals come from drawing them


@dataclass(frozen=True, kw_only=True)
class NumberContender(Contender):
    """A model version, or a naive forecast, measured on the test rows."""

    lower_is_better = list_lower_better(METRICS)


@dataclass(frozen=True)
class Residuals:
    """The challenger's scores beside the labels.

    Attributes:
        rows: the test rows, n of them.
        labels: float64 (n,).
        scores: float64 (n,).
        interval: around scores, as the model promises it.
        groups: what is drawn for intervals, (n,).
    """

    rows: pd.DataFrame
    labels: Floats
    scores: Floats
    interval: PredictionInterval
    groups: Groups

    @property
    def is_covered(self) -> Floats:
        """Return 1 where the label lies within the prediction interval, else 0, float64 (n,)."""
        low, high = conformal.bound(self.scores, self.interval)
        return ((low <= self.labels) & (self.labels <= high)).astype(float)

    @property
    def coverage(self) -> BootstrapEstimate:
        """Share of labels within the prediction intervals."""
        covered = self.is_covered
        return BootstrapEstimate.from_value(float(covered.mean()), average(covered, self.groups))

    def by_day(self) -> list[contract.ResidualSummary]:
        """Return the residuals of each test day."""
        return self._by(self.rows["event_time"].dt.strftime("%Y-%m-%d"), "{}")

    def by_slice(self, categorical: list[str]) -> list[contract.ResidualSummary]:
        """Return the residuals of each value of categorical columns."""
        names = [WEEKDAY, *(name for name in categorical if name != WEEKDAY)]
        return [part for name in names for part in self._by(self.rows[name].astype(str), name + "={}")]

    def _by(self, values: pd.Series, title: str) -> list[contract.ResidualSummary]:
        off = self.scores - self.labels
        frame = pd.DataFrame({"off": off, "error": np.abs(off), "covered": self.is_covered})
        return [
            contract.ResidualSummary(
                name=title.format(value),
                rows=len(part),
                mae=float(part["error"].mean()),
                bias=float(part["off"].mean()),
                coverage=float(part["covered"].mean()),
            )
            for value, part in frame.groupby(values.to_numpy(), sort=True)
        ]


@dataclass(frozen=True)
class NumberTrial(Trial[NumberContender]):
    """One evaluation on numbers.

    Attributes:
        naive: name of a naive forecast -> measured on the same rows.
        residuals: of the challenger.
    """

    config: RegressionConfig
    naive: Mapping[str, NumberContender]
    residuals: Residuals

    def figures(self) -> contract.NumberEvaluation:
        """Return `evaluation.json`."""
        reached = self.residuals.coverage
        return contract.NumberEvaluation(
            **self.shared_figures(),
            naive={name: contender.figures for name, contender in self.naive.items()},
            coverage_promised=self.residuals.interval.coverage,
            coverage=contract.Gain(value=reached.value, low=reached.low, high=reached.high),
            slices=self.residuals.by_slice([*self.model.inputs.categorical]),
            days=self.residuals.by_day(),
        )


def judge(
    challenger: NumberContender,
    champion: NumberContender | str,
    naive: Mapping[str, NumberContender],
    residuals: Residuals,
    config: RegressionConfig,
    reference: NumberContender | None = None,
) -> Verdict:
    """Decide whether the challenger may replace the champion; the rule is that of `trials.judge`.

    Nothing is decided with fewer than `min_rows` test rows, or `MIN_GROUPS` series and days of them. The floors: it
    saves more than `min_gain` of each naive forecast's error, beyond noise, and has `min_error` of it at least. A
    champion is compared by `task.select_by`; the tolerance is a share of the best naive forecast's.
    """
    metric = config.task.select_by
    best = min(naive.values(), key=lambda contender: contender.value(metric))
    undecidable = [*_find_undecidable(residuals, config)]
    gate = Gate(
        metric=metric,
        tolerance=config.evaluation.tolerance * best.value(metric),
        undecidable=undecidable,
        refused=[] if undecidable else [*_find_refusals(challenger, naive, config)],
        passed=f"The challenger's {metric} is {challenger.estimates()[metric]}, and better than each naive forecast's: "
        + ", ".join(f"{contender.estimates()[metric]} of the {name}" for name, contender in naive.items())
        + " (95 % intervals).",
        measures=[*_list_measures(challenger, naive, residuals, config)],
    )
    return trials.judge(challenger, champion, gate, reference)


def _find_undecidable(residuals: Residuals, config: RegressionConfig) -> Iterator[str]:
    rows, least = len(residuals.rows), config.evaluation.min_rows
    if rows < least:
        yield f"There are {rows} test rows; at least {least} are needed to decide."
    if (groups := len(np.unique(residuals.groups))) < MIN_GROUPS:
        yield f"The {rows} test rows are of {groups} series or days; at least {MIN_GROUPS} are needed to decide."


def _find_refusals(
    challenger: NumberContender, naive: Mapping[str, NumberContender], config: RegressionConfig
) -> Iterator[str]:
    metric, limits, ours = config.task.select_by, config.evaluation, challenger.value(config.task.select_by)
    for name, contender in naive.items():
        gain, least = challenger.gains(contender)[metric], limits.min_gain * contender.value(metric)
        if gain.low <= least:
            yield (
                f"The challenger's {metric} of {ours:.3f} is not lower than that of the naive forecast, the {name}, by "
                f"more than {least:.3g} beyond noise: the gain is {gain} (95 % interval)."
            )
        if ours < limits.min_error * contender.value(metric):
            yield (
                f"The challenger's {metric} of {ours:.3g} is less than {limits.min_error:g} of that of the {name}, "
                "which is taken for leakage: look for an input that is known after the label only, or lower "
                "evaluation.min_error."
            )


def _list_measures(
    challenger: NumberContender, naive: Mapping[str, NumberContender], residuals: Residuals, config: RegressionConfig
) -> Iterator[Measure]:
    metric, reached = config.task.select_by, residuals.coverage
    yield Measure(name="test_rows", value=len(residuals.rows), limit=config.evaluation.min_rows)
    yield from list_measures(challenger, METRICS, {})
    for name, contender in naive.items():
        gain, limit = challenger.gains(contender)[metric], config.evaluation.min_gain * contender.value(metric)
        title = f"{metric}_gain_over_{name.replace(' ', '_')}"
        yield Measure(name=title, value=gain.value, limit=limit, interval=(gain.low, gain.high))
    yield Measure(name="coverage", value=reached.value, interval=(reached.low, reached.high))
