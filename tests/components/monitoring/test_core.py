"""The retraining policy, day by day."""

from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.monitoring import section
from components.monitoring.core import AuditEntry, Observation, decide
from nightshift.config import parse
from nightshift.config.policy import Controller
from nightshift.contracts.drift import Signal
from nightshift.runtime.errors import UserError
from tests.components import samples

FIRST = date(2024, 3, 1)
POLICY = Controller(retrain="on_drift", drifted_days=2, window_days=3, cooldown_days=3, max_retrains_per_week=2)


def observation(number: int, *raised: str, model: str = "a") -> Observation:
    names = ("inputs", "score", "labels", "units")
    signals = [
        Signal(name=name, value=0.5, limit=0.1, raised=name in raised, reason=f"{name.title()} moved.")
        for name in names
    ]
    return Observation("tiny", FIRST + timedelta(days=number), model, signals)


def audit(days: str, policy: Controller = POLICY, backfill: bool = False) -> list[AuditEntry]:
    """Decide day after day: `x` is a drifted day, `l` one with late labels, `.` a stable one, ` ` one without a run."""
    log: list[AuditEntry] = []
    for number, kind in enumerate(days):
        raised = {"x": ["inputs"], "l": ["labels"], "b": ["inputs", "labels"], "u": ["inputs", "units"]}.get(kind, [])
        if kind != " ":
            log.append(decide(observation(number, *raised), log, policy, backfill))
    return log


def mark_requests(days: str, policy: Controller = POLICY, backfill: bool = False) -> str:
    """The same days, `R` where a retraining is asked for."""
    requests = {entry.day for entry in audit(days, policy, backfill) if entry.retrain}
    return "".join("R" if str(FIRST + timedelta(days=n)) in requests else day for n, day in enumerate(days))


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("......", "......"),
        ("..x...", "..x..."),
        ("..xx..", "..xR.."),
        ("..x.x.", "..x.R."),
        ("..x..x", "..x..x"),
        ("..x  x", "..x  x"),
        ("xx.", "xR."),
        ("x.", "x."),
    ],
)
def test_it_takes_k_of_n_days_the_newest_among_them(days: str, expected: str) -> None:
    assert mark_requests(days) == expected


def test_after_a_request_some_days_pass_before_the_next() -> None:
    assert mark_requests("xxxxxx", POLICY) == "xRxxxR"


def test_a_week_has_only_so_many_requests() -> None:
    policy = POLICY.model_copy(update={"cooldown_days": 0, "max_retrains_per_week": 3})

    assert mark_requests("xxxxxxxxxxxx", policy) == "xRRRxxxxRRRx"


def test_late_labels_hold_a_request_back_and_are_no_reason_for_one() -> None:
    assert mark_requests("lllll") == "lllll"
    assert mark_requests("xbbx") == "xbbR"
    assert audit("l")[0].reason.startswith("Labels are late")


def test_a_faulty_delivery_holds_a_request_back_until_it_is_repaired() -> None:
    assert mark_requests("xuux") == "xuuR"
    entry = audit("u")[0]
    assert entry.reason.startswith("The delivery looks faulty (units): a model trained now would learn it.")
    outcome = section.build(entry, [], "audit.json").outcome
    assert outcome is not None
    assert (outcome.headline, outcome.tone) == ("Check the newest data: units", "bad")


def test_days_of_the_model_before_do_not_count_against_the_new_one() -> None:
    log = [decide(observation(0, "inputs", model="a"), [], POLICY, backfill=False)]

    decision = decide(observation(1, "inputs", model="b"), log, POLICY, backfill=False)

    assert not decision.retrain
    assert decision.reason.startswith("Not yet: 1 drifted")
    assert decide(observation(1, "inputs", model="a"), log, POLICY, backfill=False).retrain


@pytest.mark.parametrize(
    ("change", "backfill", "reason"),
    [
        ({"freeze": True}, False, "Frozen"),
        ({"retrain": "daily"}, False, "The schedule retrains every day"),
        ({}, True, "A run for a past day never asks"),
    ],
)
def test_what_forbids_a_request_is_said(change: dict[str, Any], backfill: bool, reason: str) -> None:
    entries = audit("xxxx", POLICY.model_copy(update=change), backfill)

    assert not any(entry.retrain for entry in entries)
    assert entries[-1].reason.startswith(reason)


def test_an_entry_keeps_the_effects_and_tells_what_moved() -> None:
    entry = audit("xx")[1]

    assert entry == AuditEntry(
        day="2024-03-02",
        key="tiny/2024-03-02",
        model_sha256="a",
        effects={"inputs": 0.5, "score": 0.5, "labels": 0.5, "units": 0.5},
        raised=["inputs"],
        retrain=True,
        reason="Retrain: 2 of 3 days have drifted. Inputs moved.",
    )


DAYS = st.text("x.lb ", max_size=25)


@given(days=DAYS, backfill=st.booleans())
@settings(deadline=None)
def test_every_day_has_one_entry_with_a_reason(days: str, backfill: bool) -> None:
    entries = audit(days, backfill=backfill)

    assert [entry.day for entry in entries] == [
        str(FIRST + timedelta(days=n)) for n, day in enumerate(days) if day != " "
    ]
    assert all(entry.reason for entry in entries)
    assert not (backfill and any(entry.retrain for entry in entries))


@given(days=DAYS)
@settings(deadline=None)
def test_a_day_that_is_looked_at_again_keeps_its_entry(days: str) -> None:
    log = audit(days)

    for entry in log:
        number = (date.fromisoformat(entry.day) - FIRST).days
        assert decide(observation(number, "score"), log, POLICY, backfill=True) == entry


@given(days=DAYS, later=DAYS)
@settings(deadline=None)
def test_what_comes_later_changes_no_decision(days: str, later: str) -> None:
    number = len(days)
    before = audit(days)
    after = [
        replace(entry, day=str(date.fromisoformat(entry.day) + timedelta(days=number + 1)), retrain=True)
        for entry in audit(later)
    ]

    seen = observation(number, "inputs")
    assert decide(seen, before + after, POLICY, False) == decide(seen, before, POLICY, False)


@given(days=DAYS, cooldown=st.integers(0, 5), week=st.integers(1, 4))
@settings(deadline=None)
def test_no_limit_is_ever_passed(days: str, cooldown: int, week: int) -> None:
    policy = POLICY.model_copy(update={"cooldown_days": cooldown, "max_retrains_per_week": week})
    at = [(date.fromisoformat(entry.day) - FIRST).days for entry in audit(days, policy) if entry.retrain]

    assert all(second - first > cooldown for first, second in pairwise(at))
    assert all(sum(0 <= day - first < 7 for day in at) <= week for first in at)


def test_more_days_than_there_are_cannot_be_asked_for() -> None:
    with pytest.raises(UserError, match="'drifted_days' is 4 but 'window_days' is 3"):
        parse(samples.CONFIG | {"controller": {"drifted_days": 4}})
