"""The gate of every task: a challenger beside the live version and the best of earlier ones, or held for a person."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from benchmarks import ratchet
from nightshift.contracts.verdict import Opponent
from nightshift.tasks import trials
from nightshift.tasks.trials import Contender, Gate

OLDEST, OLD, NEW = "2024-03-01", "2024-03-02", "2024-03-03"


class LossContender(Contender):
    """A version by a metric of which less is better, as bits per byte."""

    lower_is_better: ClassVar = ("level",)


def contender(kind: type[Contender], quality: float, spread: float = 0.0, until: str = OLD) -> Contender:
    """A version whose paired gains lie within the difference of qualities +- spread."""
    level = -quality if kind is LossContender else quality
    resamples = {"level": np.linspace(level - spread, level + spread, 101)}
    return kind(
        sha256=f"{quality} {until}", trained_until=until, metrics={"level": level}, resamples=resamples, version=1
    )


GATE = Gate("level", 0.02, undecidable=[], refused=[], passed="It passes the floors.", measures=[])
# gain over the champion, gain over the reference, spread of both -> decision and what is said
CASES = [
    (0.0, 0.0, 0.0, "pass", "fresher"),
    (-0.01, 0.0, 0.005, "fail", "It is worse beyond noise, if by less than 0.02."),
    (0.0, -0.01, 0.005, "fail", "The challenger is worse beyond noise than version 7, the best one so far."),
    (0.0, -0.015, 0.016, "fail", "The challenger may be worse by more than 0.02 than version 7, the best one so far."),
    (0.0, 0.01, 0.005, "pass", "Its gain over version 7, the best one so far, is 0.010"),
    (0.05, -0.015, 0.016, "pass", "It is better beyond noise."),
    (0.05, -0.05, 0.016, "fail", "worse beyond noise than version 7"),
]


@pytest.mark.parametrize("kind", [Contender, LossContender])
@pytest.mark.parametrize(("gain", "over_reference", "spread", "decision", "says"), CASES)
def test_what_passes_is_neither_worse_than_what_serves_nor_than_the_best_before(
    kind: type[Contender], gain: float, over_reference: float, spread: float, decision: str, says: str
) -> None:
    challenger = contender(kind, 0.6, spread, NEW)
    champion = contender(kind, 0.6 - gain)
    reference = replace(contender(kind, 0.6 - over_reference, until=OLDEST), version=7)

    verdict = trials.judge(challenger, champion, GATE, reference)

    assert verdict.decision == decision
    assert says in " ".join(verdict.reasons)
    assert verdict.value("level_gain_over_reference") == pytest.approx(over_reference)


@pytest.mark.parametrize(("over_reference", "stays"), [(0.01, False), (0.001, True), (-0.001, True)])
def test_only_what_is_better_beyond_noise_takes_the_references_place(over_reference: float, stays: bool) -> None:
    challenger, champion = contender(Contender, 0.6, 0.005, NEW), contender(Contender, 0.6)
    reference = replace(contender(Contender, 0.6 - over_reference), version=7, sha256="best")

    verdict = trials.judge(challenger, champion, GATE, reference)

    assert verdict.reference == (Opponent(version=7, sha256="best") if stays else None)
    # without a reference the champion is the first one
    assert trials.judge(challenger, champion, GATE).reference == Opponent(version=1, sha256=champion.sha256)
    assert trials.judge(challenger, "There was no champion.", GATE).reference is None


def test_a_reference_judges_where_the_champion_cannot_be_measured_and_is_offered_where_it_is_better() -> None:
    reference = replace(contender(Contender, 0.65), version=7)

    alone = trials.judge(contender(Contender, 0.6, until=NEW), "Champion version 1 cannot be read.", GATE, reference)
    beside = trials.judge(contender(Contender, 0.6, until=NEW), contender(Contender, 0.6), GATE, reference)

    assert (alone.decision, beside.decision) == ("fail", "fail")
    assert beside.caveat == beside.reasons[0] == "What serves, version 1, is worse beyond noise than version 7."
    assert beside.reasons[1] == "`nightshift promote 7` brings version 7 back."
    assert (alone.caveat, beside.is_held) == ("", False)


@pytest.mark.parametrize(("quality", "decision"), [(0.6, "undecided"), (0.5, "fail")])
def test_what_is_held_for_a_person_never_passes_and_its_first_reason_is_the_caveat(
    quality: float, decision: str
) -> None:
    gate = replace(GATE, held=["Input 'x' tells all.", "Is it known before?"])

    verdict = trials.judge(contender(Contender, quality, until=NEW), contender(Contender, 0.6), gate)

    assert (verdict.decision, verdict.is_held) == (decision, decision == "undecided")
    assert verdict.caveat == verdict.reasons[0] == "Input 'x' tells all."
    assert verdict.reasons[1] == "Is it known before?"


@pytest.mark.parametrize("kind", ratchet.KINDS)
def test_small_losses_a_night_do_not_add_up_and_equals_still_pass(kind: str) -> None:
    nights = 80

    run = ratchet.SimulatedNights(kind, seed=1).run(nights)

    assert run.largest_loss <= ratchet.bound_loss(nights)
    if kind.startswith("equal"):
        assert len(run.trail) > nights / 2
