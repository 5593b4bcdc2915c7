"""A person's approval: what it is valid for, and what it leaves when a night, or a kill, comes in between."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nightshift import registry
from nightshift.contracts.release_record import Action, Release
from nightshift.registry import Version, approvals, release_record
from nightshift.registry.approvals import ApprovalReason
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UnavailableError, UserError

WHY = ApprovalReason("checked by risk", "ada")


class KilledError(Exception):
    """The process ends here."""


@pytest.fixture
def ref(stocked: str) -> ReleaseRef:
    """Three versions of `fraud`, of which 1 is the champion."""
    ref = ReleaseRef(stocked, "fraud")
    release_record.promote(ref, 1)
    return ref


def read(ref: ReleaseRef) -> Release:
    record = release_record.read(ref)
    assert record
    return record


def wait(ref: ReleaseRef, number: int, sha256: str | None = None) -> None:
    """Have a version wait beside the champion, by its own identity or another one."""
    version = registry.find(ref.registry, ref.name, number)
    named = release_record.describe(version).model_copy(update={"sha256": sha256 or version.sha256})
    approvals.note(ref, number, approvals.describe(named, read(ref).live.sha256, "night", ["It is better."]))


def list_waiting(ref: ReleaseRef) -> list[int]:
    return [waiting.version for waiting in approvals.list_waiting(ref, release_record.read(ref))]


def test_a_version_that_waits_is_live_once_a_person_approves_it_and_the_record_says_who_and_why(
    ref: ReleaseRef,
) -> None:
    wait(ref, 2)
    before = read(ref)

    record = approvals.approve(ref, 2, WHY)

    assert (record.live.version, record.trail, record.reasons) == (2, [1, 2], ["Approved by ada: checked by risk"])
    (approval,) = approvals.read(ref).approvals
    assert (approval.by, approval.reason, record.by) == ("ada", "checked by risk", "ada")
    assert (approval.sha256, approval.champion) == (record.live.sha256, before.live.sha256)
    assert list_waiting(ref) == []


def test_of_versions_that_wait_one_is_approved_and_the_others_were_compared_with_another_champion(
    ref: ReleaseRef,
) -> None:
    wait(ref, 2)
    wait(ref, 3)
    assert list_waiting(ref) == [2, 3]

    approvals.approve(ref, 2, WHY)

    assert list_waiting(ref) == []
    with pytest.raises(UserError, match="version 3 of 'fraud' does not wait for an approval; versions that do: none"):
        approvals.approve(ref, 3, WHY)


def test_a_version_that_is_judged_again_waits_since_it_first_did(ref: ReleaseRef) -> None:
    wait(ref, 2)
    (first,) = approvals.read(ref).waiting
    wait(ref, 2)

    assert approvals.read(ref).waiting == [first]


def test_what_does_not_wait_is_not_approved(ref: ReleaseRef) -> None:
    wait(ref, 2, sha256="0" * 64)  # another model of that number
    for number, message in ((2, "does not wait"), (3, "does not wait"), (1, "is the champion of 'fraud' already")):
        with pytest.raises(UserError, match=message):
            approvals.approve(ref, number, WHY)
    wait(ref, 2)
    with pytest.raises(UserError, match="reason of an approval is empty"):
        approvals.approve(ref, 2, ApprovalReason(" "))
    approvals.note(ref, 2, None)  # its gates have failed since
    with pytest.raises(UserError, match="does not wait"):
        approvals.approve(ref, 2, WHY)

    assert (read(ref).live.version, approvals.read(ref).approvals) == (1, [])


def test_a_version_that_was_rolled_back_does_not_return_by_its_old_approval(ref: ReleaseRef) -> None:
    wait(ref, 2)
    approvals.approve(ref, 2, WHY)
    release_record.rollback(ref)

    assert list_waiting(ref) == []
    with pytest.raises(UserError, match="does not wait"):
        approvals.approve(ref, 2, WHY)
    assert read(ref).live.version == 1


def test_the_approval_of_a_challenger_promotes_nothing_by_itself(ref: ReleaseRef) -> None:
    challenger = registry.find(ref.registry, "fraud", 2)
    release_record.change(ref, lambda record: record and release_record.challenge(record, challenger, "night", []))

    record = approvals.approve(ref, 2, WHY)

    assert (record.live.version, record.challenger and record.challenger.version) == (1, 2)
    assert approvals.is_approved(ref, challenger.sha256, record.live.sha256)
    assert not approvals.is_approved(ref, challenger.sha256, None)
    assert not approvals.is_approved(ref, "0" * 64, record.live.sha256)


@pytest.mark.parametrize("error", [KilledError, UnavailableError])
def test_an_approval_that_was_killed_before_the_version_was_live_is_finished_by_the_same_command(
    ref: ReleaseRef, error: type[Exception]
) -> None:
    wait(ref, 2)

    def end(_: Version) -> None:
        raise error("here")

    with pytest.raises(error):
        approvals.approve(ref, 2, WHY, end)
    assert (read(ref).live.version, list_waiting(ref), len(approvals.read(ref).approvals)) == (1, [2], 1)

    approvals.approve(ref, 2, ApprovalReason("again", "bob"))

    assert (read(ref).live.version, read(ref).reasons) == (2, ["Approved by ada: checked by risk"])
    assert [approval.by for approval in approvals.read(ref).approvals] == ["ada"]


def test_a_champion_that_changes_while_an_approved_version_is_loaded_stays(ref: ReleaseRef) -> None:
    wait(ref, 2)

    with pytest.raises(UserError, match="has changed since version 2 was judged"):
        approvals.approve(ref, 2, WHY, lambda _: promote_once(ref, 3))

    assert (read(ref).live.version, read(ref).trail) == (3, [1, 3])


def promote_once(ref: ReleaseRef, number: int) -> None:
    if read(ref).live.version != number:
        release_record.promote(ref, number)


def run_together(*actions: Callable[[], object]) -> list[str]:
    """Do things at the same time; return what was refused."""
    start, refused = threading.Barrier(len(actions)), []

    def act(action: Callable[[], object]) -> None:
        start.wait()
        try:
            action()
        except UserError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


@pytest.mark.parametrize("round_", range(10))
def test_an_approval_and_a_night_at_the_same_time_leave_one_consistent_record(ref: ReleaseRef, round_: int) -> None:
    wait(ref, 2)

    refused = run_together(
        lambda: approvals.approve(ref, 2, WHY),
        lambda: approvals.approve(ref, 2, ApprovalReason("me too", "bob")),
        lambda: wait(ref, 3),  # the night's version
        lambda: promote_once(ref, 3),
    )

    record, kept = read(ref), approvals.read(ref)
    actions = [(entry.action, entry.live.version) for entry in record.entries]
    assert actions[0] == (Action.PROMOTED, 1)
    assert len(actions) == len(set(actions))  # nothing is promoted twice
    assert len(kept.approvals) <= 1
    # a version is live by an approval only if that was written, and beside the champion that it replaced
    for before, entry in zip(record.entries, record.entries[1:], strict=False):
        if entry.live.version == 2:
            (approval,) = kept.approvals
            assert (approval.sha256, approval.champion) == (entry.live.sha256, before.live.sha256)
            assert entry.reasons == [f"Approved by {approval.by}: {approval.reason}"]
    assert all(waiting.champion == record.live.sha256 for waiting in approvals.list_waiting(ref, record))
    assert all("version 2" in sentence for sentence in refused)


def act(ref: ReleaseRef, action: str, number: int) -> None:
    """Do what is no approval, where it is possible."""
    if action == "wait" and read(ref).live.version != number:
        wait(ref, number)
    elif action == "fail":
        approvals.note(ref, number, None)
    elif action == "promote":
        release_record.promote(ref, number)
    elif action == "back" and len(read(ref).trail) > 1:
        release_record.rollback(ref)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["wait", "fail", "approve", "promote", "back"]), st.integers(1, 3))))
def test_what_may_be_approved_is_what_has_passed_last_beside_the_champion_and_was_not_rolled_back(
    stocked: str, steps: list[tuple[str, int]]
) -> None:
    ref, passed = ReleaseRef(stocked, "fraud"), dict[int, int]()
    for file in (Path(stocked) / "releases").glob("*"):
        file.unlink()  # of the example before
    release_record.promote(ref, 1)
    for action, number in steps:
        live, rolled_back = read(ref).live.version, read(ref).rolled_back
        may = passed.get(number) == live != number and number not in rolled_back
        assert may == (number in list_waiting(ref))
        if action != "approve":
            act(ref, action, number)
        elif may:
            assert approvals.approve(ref, number, WHY).live.version == number
        else:
            with pytest.raises(UserError):
                approvals.approve(ref, number, WHY)
        if action == "wait" and number != live:  # what passed beside another champion waits no longer
            passed = {other: champion for other, champion in passed.items() if champion == live} | {number: live}
        passed |= {number: 0} if action == "fail" else {}
