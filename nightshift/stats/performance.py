"""Has something become slower? A comparison that noise seldom makes fail, and how seldom is known.

Two sides are measured in turn, so that a slow moment of the machine slows both, and each repetition of one is divided
by the other's beside it. Where the median of these ratios is within the tolerance, a ratio lies above the limit with a
probability of at most one half, whatever the shape of the noise; `sequential.py` holds their number to that. The
kernels share the rate of false alarms (Bonferroni).
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.stats import sequential

FALSE_ALARMS = 0.01  # at most this share of comparisons in which no kernel is slower by more than the tolerance
TOLERANCE = 0.04  # what stays of the 1 or 2 % by which the same code differs from process to process
EXCLUDED = 0.08  # a comparison passes that excludes a slowdown of this much, so that 10 % is found

Ratios = Sequence[float]  # how many times as long as the baseline a repetition took, pair by pair


def judge(pairs: Mapping[str, Ratios], subject: str) -> Verdict:
    """Return the verdict of the gate `performance`.

    Args:
        pairs: kernel -> its ratios, at least one kernel with at least one.
        subject: identity of the model that is judged.

    Returns:
        `fail` when a kernel is slower by more than the tolerance, `undecided` when one may be by `EXCLUDED`.
    """
    decisions = {name: decide(ratios, FALSE_ALARMS / len(pairs)) for name, ratios in pairs.items()}
    worst = next(
        decision for decision in (Decision.FAIL, Decision.UNDECIDED, Decision.PASS) if decision in decisions.values()
    )
    return Verdict(
        gate="performance",
        decision=worst,
        reasons=[_reason(name, pairs[name], decision) for name, decision in decisions.items() if decision is worst],
        measures=[
            Measure(name=name, value=median(ratios), limit=1 + TOLERANCE, higher_is_better=False)
            for name, ratios in pairs.items()
        ],
        subject=subject,
    )


def decide(ratios: Ratios, alpha: float) -> Decision:
    """Decide on a kernel.

    Args:
        ratios: see `Ratios`.
        alpha: probability of `fail` where the median is within the tolerance, of `pass` where it is above `EXCLUDED`.
    """
    values = np.asarray(ratios)
    if _clear(values > 1 + TOLERANCE, alpha):
        return Decision.FAIL
    return Decision.PASS if _clear(values < 1 + EXCLUDED, alpha) else Decision.UNDECIDED


def _clear(events: npt.NDArray[np.bool_], alpha: float) -> bool:
    """Return whether it was clear at some time that the events are more frequent than their opposite."""
    signs: npt.NDArray[np.floating[Any]] = np.where(events, 1.0, -1.0)
    return bool(sequential.evidence(np.cumsum(signs), np.cumsum(np.square(signs)), alpha)[-1] >= 1)


def _reason(name: str, ratios: Ratios, decision: Decision) -> str:
    change = f"{name} takes {median(ratios):.3f} times as long as the baseline's ({len(ratios)} pairs)"
    if decision is Decision.FAIL:
        return f"{change}: more than the tolerance of {TOLERANCE:.0%}, and not by chance."
    if decision is Decision.PASS:
        return f"{change}: a slowdown of {EXCLUDED:.0%} is excluded."
    return f"{change}: a slowdown of {EXCLUDED:.0%} is not excluded; measure again when the machine is less busy."
