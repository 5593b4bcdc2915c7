"""What becomes of a release."""

import pytest

from components.release import core, verdicts
from components.release.verdicts import RequestFigures
from nightshift.config.policy import Rollout
from nightshift.contracts.release_record import Action
from nightshift.contracts.verdict import Decision, Opponent, Verdict
from nightshift.registry.promotion import Move
from nightshift.runtime.errors import UserError
from nightshift.stats.sequential import LossSums
from tests.components.release.releases import CHALLENGER, CHAMPION, ROLLOUT, at, labeled, live, played, started

BETTER, WORSE = labeled(5000, 200, 1000), labeled(5000, -200, 1000)
SLOW, FAILING = RequestFigures(1000, 0, 80.0), RequestFigures(1000, 20, 5.0)
FINE, FEW = RequestFigures(1000, 1, 5.0), RequestFigures(10, 10, 900.0)


def judged(*days: LossSums, slo: RequestFigures | None = None):
    """Verdicts of these labels, and of the requests where the challenger has answered some."""

    def judge(record, _):
        reached = [verdicts.compare(days, record, ROLLOUT)]
        return reached + ([verdicts.objectives(slo, record, ROLLOUT)] if slo and record.stage == "canary" else [])

    return judge


def trail(record) -> list[tuple[str, list[float], int]]:
    """Stage, shares of champion and challenger, and day of all states of the release."""
    first = record.history[1].since if len(record.history) > 1 else record.since
    return [
        (str(entry.stage), [served.traffic for served in entry.versions], (entry.since - first).days)
        for entry in record.entries[1:]
    ]


def test_a_better_version_goes_from_shadow_over_5_25_and_50_percent_to_live_a_day_each():
    record = played(judged(BETTER, slo=FINE))
    assert trail(record) == [
        ("shadow", [1, 0], 0),
        ("canary", [0.95, 0.05], 1),
        ("canary", [0.75, 0.25], 2),
        ("canary", [0.5, 0.5], 3),
        ("live", [1], 4),
    ]
    assert (record.live.version, record.action, record.trail) == (2, Action.PROMOTED, [1, 2])
    assert record.reasons[0] == "Version 2 is better than version 1 after 5,000 observations."


def test_of_two_that_look_at_the_same_time_the_second_finds_nothing_to_do():
    reached = [verdicts.compare([BETTER], started(), ROLLOUT)]
    after = started().followed_by(core.advance(started(), reached, ROLLOUT, at(1)))
    assert core.advance(after, reached, ROLLOUT, at(1)) is None


def test_it_gets_as_far_as_its_evidence_reaches():
    for total, reached in ((64, 0), (72, 0.05), (88, 0.25), (104, 0.5)):
        record = played(judged(labeled(5000, total, 1000)), days=20)
        assert record.challenger.traffic == reached, total


def test_a_worse_version_is_taken_out_with_its_reason_and_does_not_return_by_itself():
    record = played(judged(WORSE))
    assert trail(record) == [("shadow", [1, 0], 0), ("live", [1], 1)]
    assert record.reasons == ["Version 2 is worse than version 1 after 5,000 observations."]
    assert (record.live, record.rolled_back, record.trail) == (CHAMPION, {2}, [1])
    again = record.followed_by(core.start(record, CHALLENGER, at(30)))
    assert again.rolled_back == set() and core.start_time(again) == at(30).now


@pytest.mark.parametrize(
    ("slo", "reason"),
    [(SLOW, "latency_p99_ms 80, limit 50"), (FAILING, "error_rate 0.02, limit 0.01")],
)
def test_a_version_that_is_slow_or_fails_is_taken_out_at_once_even_when_paused(slo, reason):
    record = played(judged(BETTER, slo=FINE), days=2)
    record = record.followed_by(core.pause(record, at(1.1)))
    reached = [verdicts.compare([BETTER], record, ROLLOUT), verdicts.objectives(slo, record, ROLLOUT)]
    entry = core.advance(record, reached, ROLLOUT, at(1.2))
    assert (entry.action, entry.versions, entry.paused) == (Action.ROLLED_BACK, [CHAMPION], False)
    assert entry.reasons == [f"Version 2 answered 1,000 requests: {reason}."]


def test_too_few_requests_decide_nothing_and_hold_the_next_step():
    assert trail(played(judged(BETTER, slo=FEW), days=20))[1:] == [("canary", [0.95, 0.05], 1)]


def test_without_a_verdict_nothing_moves_until_the_horizon_ends_it():
    record = played(lambda *_: ())
    assert trail(record) == [("shadow", [1, 0], 0), ("live", [1], 28)]
    assert record.reasons == ["Nothing was decided within 28 days; the champion stays."]


def test_a_paused_release_stays_and_goes_on_where_it_was():
    record = played(judged(BETTER), days=3)
    record = record.followed_by(core.pause(record, at(2.5)))
    assert core.pause(record, at(3)) is None
    assert core.advance(record, [verdicts.compare([BETTER], record, ROLLOUT)], ROLLOUT, at(5)) is None
    record = record.followed_by(core.resume(record, at(6)))
    assert core.resume(record, at(7)) is None
    # it has been at 25 % for four days
    entry = core.advance(record, [verdicts.compare([BETTER], record, ROLLOUT)], ROLLOUT, at(6.1))
    assert entry.challenger.traffic == 0.5
    assert core.start_time(record.followed_by(entry)) == at(0).now


def test_without_shares_a_version_goes_live_from_shadow_with_all_of_the_evidence():
    rollout = Rollout(shares=[])
    assert played(judged(labeled(5000, 104, 1000)), rollout, 20).stage == "shadow"
    assert trail(played(judged(BETTER), rollout)) == [("shadow", [1, 0], 0), ("live", [1], 1)]


def test_exposure_counts_the_days_by_the_share_of_the_requests():
    record = played(judged(BETTER))
    assert core.exposure(record, 2, ROLLOUT) == pytest.approx((0.05 + 0.25 + 0.5) / 28)
    slower = played(judged(BETTER), Rollout(stage_days=2))
    assert core.exposure(slower, 2, ROLLOUT) == pytest.approx(2 * (0.05 + 0.25 + 0.5) / 28)


def test_one_release_at_a_time_and_never_of_the_champion():
    with pytest.raises(UserError, match="version 2 of 'fraud' is being released; wait for its end, or end it"):
        core.start(started(), CHALLENGER.model_copy(update={"version": 3}), at(1))
    with pytest.raises(UserError, match="version 1 is the champion"):
        core.start(live(), CHAMPION, at(1))
    for act in (core.pause, core.resume):
        with pytest.raises(UserError, match=r"^no version is being released; `nightshift models` lists the versions$"):
            act(live(), at(1))
    assert core.advance(live(), [], ROLLOUT, at(50)) is None


@pytest.mark.parametrize("field", ["subject", "champion"])
def test_a_verdict_about_other_models_is_refused(field):
    verdict = verdicts.compare([BETTER], started(), ROLLOUT)
    other = Verdict(gate="drift", decision=Decision.PASS, reasons=[], measures=[], subject="c" * 64)
    changed = {"subject": other, "champion": verdict.model_copy(update={"compared_with": _opponent("c" * 64)})}
    with pytest.raises(
        UserError, match=r"is not about version 2 against 1, which is being released by now; run the step again$"
    ):
        core.advance(started(), [verdict, changed[field]], ROLLOUT, at(1))


def _opponent(sha256: str):
    return Opponent(version=9, sha256=sha256)


def test_the_record_tells_which_run_moved_a_version_and_why():
    entry = core.start(live(), CHALLENGER, at(0, "first"))
    record = live().followed_by(entry)
    verdict = verdicts.compare([BETTER], record, ROLLOUT)
    moved = core.advance(record, [verdict], ROLLOUT, at(1, "second"))
    assert (entry.run, moved.run, moved.by) == ("first", "second", "test")
    assert moved.reasons == verdict.reasons


def test_shares_that_do_not_grow_are_refused():
    with pytest.raises(ValueError, match="grow from one to the next"):
        Rollout(shares=[0.25, 0.05])


def test_with_all_evidence_a_version_that_a_person_has_to_approve_waits_and_its_gates_still_decide():
    record = played(judged(BETTER, slo=FINE), days=4)
    assert record.challenger.traffic == 0.5
    good, bad = ([verdicts.compare([day], record, ROLLOUT)] for day in (BETTER, WORSE))

    def move(reached, needs_approval):
        return core.judge(record, reached, ROLLOUT, at(4), needs_approval).move

    assert [move(good, True), move(good, False)] == [Move.WAIT, Move.PROMOTE]
    assert [move(bad, True), move(bad, False)] == [Move.WITHDRAW, Move.WITHDRAW]
    decision = core.judge(record, good, ROLLOUT, at(4), needs_approval=True)
    assert decision.reasons[0] == "Version 2 waits for an approval; `nightshift approve 2 --reason ...` gives it."
    assert core.follow(record, decision, ROLLOUT, at(4)) is None


def test_before_its_last_step_a_version_needs_no_approval():
    decision = core.judge(started(), [verdicts.compare([BETTER], started(), ROLLOUT)], ROLLOUT, at(1), True)
    assert decision.move is Move.ADVANCE
