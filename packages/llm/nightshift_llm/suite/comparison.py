"""The paired comparison of a served model with the champion, on the same items of a task suite."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.runtime.errors import UserError
from nightshift.stats.comparison import BootstrapEstimate, estimate_mean
from nightshift_llm.contracts.suite import SuiteMetric, SuiteScores

TOLERANCE = 0.02  # allowed loss: share of items, or nats per word
NEXT_STEP = "score both with the same --suite"


@dataclass(frozen=True)
class SuiteGain:
    """By how much a challenger is better in a metric, below 0 where it is worse."""

    metric: SuiteMetric
    champion: SuiteMetric
    gain: BootstrapEstimate

    @property
    def decision(self) -> Decision:
        """Fail if the loss is significantly above the tolerance; undecided if its interval includes the tolerance."""
        if self.gain.high < -TOLERANCE:
            return Decision.FAIL
        return Decision.UNDECIDED if self.gain.low < -TOLERANCE else Decision.PASS

    def __str__(self) -> str:
        name = self.metric.name.replace("_", " ")
        return f"{name}: {self.metric.value:.3f}, the champion {self.champion.value:.3f}, the gain {self.gain}."


def compare_scores(challenger: SuiteScores, champion: SuiteScores, subject: str) -> Verdict:
    """Return the verdict of the gate `suite`.

    Args:
        challenger: scores of the model that is judged.
        champion: scores of the other on the same items.
        subject: identity of the judged scores.

    Raises:
        UserError: when the items were others.
    """
    if challenger.suite_sha256 != champion.suite_sha256:
        raise UserError(f"champion: its scores are from another suite; {NEXT_STEP}")
    gains = [
        SuiteGain(ours, theirs, _measure_gain(ours, theirs))
        for ours, theirs in zip(challenger.metrics, champion.metrics, strict=True)
    ]
    return Verdict(
        gate="suite",
        decision=_find_worst([gain.decision for gain in gains]),
        reasons=[str(gain) for gain in gains],
        measures=[_describe(gain) for gain in gains],
        subject=subject,
    )


def _measure_gain(ours: SuiteMetric, theirs: SuiteMetric) -> BootstrapEstimate:
    sign = 1 if ours.higher_is_better else -1
    return estimate_mean(sign * (np.array(ours.items) - np.array(theirs.items)))


def _find_worst(decisions: Sequence[Decision]) -> Decision:
    return next(worst for worst in (Decision.FAIL, Decision.UNDECIDED, Decision.PASS) if worst in decisions)


def _describe(gain: SuiteGain) -> Measure:
    estimate = gain.gain
    return Measure(
        name=f"gain_{gain.metric.name}",
        value=estimate.value,
        limit=-TOLERANCE,
        interval=(estimate.low, estimate.high),
    )
