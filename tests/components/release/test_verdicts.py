"""What labels and requests say of a challenger."""

import numpy as np
import pandas as pd
import pytest

from components.release import verdicts
from components.release.verdicts import Guard, RequestFigures
from nightshift.config.policy import Rollout
from nightshift.contracts.verdict import Decision, Measure, Opponent
from nightshift.runtime.errors import UserError
from nightshift.stats.sequential import LossSums, Tally
from tests.components.release.releases import CHAMPION, ROLLOUT, labeled, started


def test_a_comparison_tells_the_evidence_both_ways_and_against_whom():
    verdict = verdicts.compare([labeled(2000, 52, 500), labeled(3000, 52, 500)], started(), ROLLOUT)
    assert (verdict.gate, verdict.decision) == ("comparison", Decision.UNDECIDED)
    assert verdict.reasons == ["Version 2 is not distinguishable yet from version 1 after 5,000 observations."]
    assert verdict.compared_with == Opponent(version=1, sha256=CHAMPION.sha256)
    loss, better, worse = verdict.measures
    assert loss == Measure(name="relative_loss", value=(1000 - 104) / (1000 + 104), limit=1, higher_is_better=False)
    assert better == Measure(name="evidence_for", value=better.value, limit=1)
    assert worse == Measure(name="evidence_against", value=worse.value, limit=1, higher_is_better=False)
    assert 0.9 < better.value < 1


@pytest.mark.parametrize(("total", "decision"), [(110, Decision.PASS), (-110, Decision.FAIL)])
def test_evidence_above_one_decides(total, decision):
    verdict = verdicts.compare([labeled(5000, total, 1000)], started(), ROLLOUT)
    assert verdict.decision is decision
    assert 1 < max(verdict.value("evidence_for"), verdict.value("evidence_against")) < 1.5


def test_before_the_first_labels_nothing_is_known():
    verdict = verdicts.compare([], started(), ROLLOUT)
    assert verdict.decision is Decision.UNDECIDED
    assert [measure.value for measure in verdict.measures] == [None, 0, 0]


@pytest.mark.parametrize(
    ("slo", "decision", "reason", "values"),
    [
        (RequestFigures(100, 1, 50.0), Decision.PASS, "Version 2 answered 100 requests.", (0.01, 50)),
        (RequestFigures(99, 99, 900.0), Decision.UNDECIDED, "Version 2 answered 99 requests.", (1, 900)),
        (RequestFigures(0, 0, None), Decision.UNDECIDED, "Version 2 answered 0 requests.", (None, None)),
        (
            RequestFigures(100, 2, 80.0),
            Decision.FAIL,
            "Version 2 answered 100 requests: error_rate 0.02, limit 0.01; latency_p99_ms 80, limit 50.",
            (0.02, 80),
        ),
    ],
)
def test_enough_requests_are_held_to_both_limits(slo, decision, reason, values):
    verdict = verdicts.objectives(slo, started(), ROLLOUT)
    assert (verdict.gate, verdict.decision, verdict.reasons) == ("objectives", decision, [reason])
    assert verdict.measures == [
        Measure(name="error_rate", value=values[0], limit=0.01, higher_is_better=False),
        Measure(name="latency_p99_ms", value=values[1], limit=50, higher_is_better=False),
    ]


def test_a_version_that_saves_less_than_the_smallest_gain_that_counts_is_not_waited_for() -> None:
    days = [labeled(5000, 0, 1000, both_wrong=500)] * 3
    assert verdicts.compare(days, started(), ROLLOUT).decision is Decision.UNDECIDED
    verdict = verdicts.compare(days, started(), Rollout(min_gain=0.1))
    assert verdict.decision is Decision.FAIL
    assert verdict.reasons == ["Version 2 is not 10% better than version 1 after 15,000 observations."]


def judged(relative: float, guards: int = 1) -> list[Decision]:
    """Decisions of some guards alike, of a challenger that loses so many times what the champion does."""
    sums = LossSums(10_000, 1000, 1000 * relative, 1000, 1000 * relative, 900 * min(relative, 1))
    guard = Guard("loss where channel is shop", "observations", 1.1, [sums])
    return [verdict.decision for verdict in verdicts.check_guards([guard] * guards, started(), ROLLOUT)]


def test_a_guard_passes_within_its_tolerance_fails_beyond_it_and_waits_where_it_cannot_tell() -> None:
    assert [judged(relative) for relative in (0.9, 1.0, 1.1, 1.3)] == [
        [Decision.PASS], [Decision.PASS], [Decision.UNDECIDED], [Decision.FAIL],
    ]  # fmt: skip


def test_the_more_guards_there_are_the_more_evidence_one_needs_to_roll_back() -> None:
    assert judged(1.19) == [Decision.FAIL]
    assert judged(1.19, guards=50) == [Decision.UNDECIDED] * 50


def test_each_value_of_a_column_is_guarded_on_the_days_on_which_it_occurs() -> None:
    losses = np.array([0.0, 1.0, 1.0, 0.5]), np.array([0.0, 0.0, 1.0, 0.25])
    shops = verdicts.sum_losses(*losses, pd.DataFrame({"channel": ["shop", "web", None, "web"]}))
    assert shops == {
        "": LossSums.from_losses(*losses),
        "channel is shop": LossSums(1, 0, 0, 0, 0, 0),
        "channel is web": LossSums(2, 1.5, 0.25, 1.25, 0.0625, 0.125),
    }
    shop, web = verdicts.guard_slices([shops, {"": shops[""], "channel is web": shops["channel is web"]}], ROLLOUT)
    assert (shop.name, len(shop.sums), shop.relative) == ("loss where channel is shop", 1, None)
    assert (web.name, len(web.sums), web.relative) == ("loss where channel is web", 2, pytest.approx(1 / 6))


def test_a_column_of_too_many_values_is_refused() -> None:
    losses = np.zeros(51)
    with pytest.raises(UserError, match=r"release\.slices names 'customer', which has 51 values .* at most 50"):
        verdicts.sum_losses(losses, losses, pd.DataFrame({"customer": range(51)}))


def test_requests_are_compared_by_the_shares_that_the_challenger_got() -> None:
    def figures(requests: int, mean: float) -> RequestFigures:
        return RequestFigures(requests, 0, None, {"cost": Tally(requests, requests * mean, requests * mean**2)})

    other = RequestFigures(100, 0, None, {"time to first token": Tally(100, 50, 25)})
    (guard,) = verdicts.guard_requests(
        [
            (figures(9500, 0.1), figures(500, 0.12)),
            (figures(9500, 0.1), other),  # a figure that only one side has is not guarded
            (figures(7500, 0.1), figures(2500, 0.12)),
        ],
        ROLLOUT,
    )
    assert (guard.name, guard.relative) == ("cost", pytest.approx(1.2))
    (verdict,) = verdicts.check_guards([guard], started(), ROLLOUT)
    assert verdict.reasons == ["The cost of version 2 exceeds 110% of version 1's after 20,000 requests."]
