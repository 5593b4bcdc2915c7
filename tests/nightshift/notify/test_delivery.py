"""Who is notified of what and when: once per cause, in digests, outside quiet hours; nothing is lost."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nightshift.config.notify import NightEvent, Notify
from nightshift.contracts.notification import Notification
from nightshift.notify.delivery import Notifier
from nightshift.runtime.errors import UnavailableError, UserError
from tests.nightshift.notify.nights import VARIABLE, night, notification, notify

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass
class Office:
    """An outbox, a clock, and a receiver that is up or down."""

    folder: Path
    config: Notify = field(default_factory=notify)
    now: datetime = NOON
    is_down: bool = False
    messages: list[Sequence[Notification]] = field(default_factory=list)
    ends: list[Sequence[str]] = field(default_factory=list)

    @property
    def notifier(self) -> Notifier:
        variables = {VARIABLE: "https://secret"}
        return Notifier(str(self.folder), self.config, self.send, self.resolve, lambda: self.now, variables)

    def resolve(self, url: str, causes: Sequence[str], seconds: float) -> None:
        if self.is_down:
            raise UnavailableError("is down")
        self.ends.append(list(causes))

    def send(self, url: str, notifications: Sequence[Notification], seconds: float) -> None:
        assert (url, seconds > 0) == ("https://secret", True)
        if self.is_down:
            raise UnavailableError("is down")
        self.messages.append(list(notifications))

    def end(self, *notifications: Notification, later: timedelta = HOUR, **changes: Any) -> int:
        """End a night some time later; return how many notifications are pending then."""
        self.now += later
        self.notifier.add(night(*notifications, **changes))
        (outcome,) = self.notifier.deliver()
        return outcome.pending


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_a_cause_is_reported_once_until_it_changes_or_ends(office: Office) -> None:
    failed, elsewhere = notification(), notification(subject="training")
    for again in range(3):
        office.end(failed, days=again)
    assert office.messages == [[failed]]
    office.end(elsewhere, days=3)
    office.end(elsewhere, days=4)
    office.end(complete=True, days=5)
    office.end(elsewhere, days=6)
    assert office.messages == [[failed], [elsewhere], [elsewhere]]


def test_a_failure_and_a_rerun_of_an_older_day_end_no_other_cause(office: Office) -> None:
    drift = notification(NightEvent.DRIFT, subject="inputs")
    office.end(drift, complete=True)
    office.end(notification(), days=1)
    office.end(complete=True, days=-3)
    office.end(drift, days=2, complete=True)
    assert [[entry.event for entry in message] for message in office.messages] == [["drift"], ["failed"]]


def test_a_receiver_that_is_down_loses_nothing(office: Office) -> None:
    office.is_down = True
    assert [office.end(notification(subject=str(step))) for step in range(3)] == [1, 2, 3]
    office.is_down = False
    assert office.end() == 0
    assert [[entry.subject for entry in message] for message in office.messages] == [["0", "1", "2"]]


def test_a_hundred_failures_in_a_minute_are_a_message_and_a_digest(office: Office) -> None:
    names = [f"case-{number}" for number in range(100)]
    with ThreadPoolExecutor(8) as pool:
        ended = pool.map(lambda name: office.end(notification(use_case=name), later=HOUR / 6000, use_case=name), names)
        assert len(list(ended)) == len(names)
    assert len(office.messages) == 1
    office.end(later=HOUR)
    first, digest = office.messages
    assert sorted(entry.use_case for entry in [*first, *digest]) == sorted(names)


def test_a_message_whose_causes_have_all_ended_is_resolved_once_and_again_until_the_receiver_knows(
    office: Office,
) -> None:
    failed, drift = notification(), notification(NightEvent.DRIFT, subject="inputs")
    office.end(failed, drift)
    office.end(drift, days=1, complete=True)
    assert office.ends == []
    office.is_down = True
    office.end(days=2, complete=True)
    office.is_down = False
    for _ in range(2):
        office.end(days=3, complete=True)
    assert office.ends == [[failed.cause, drift.cause]]
    assert len(office.messages) == 1


def test_a_resolved_cause_that_comes_back_is_sent_and_resolved_again(office: Office) -> None:
    for day in range(4):
        office.end(*[notification()][: 1 - day % 2], days=day, complete=bool(day % 2))
    assert (office.messages, office.ends) == ([[notification()]] * 2, [[notification().cause]] * 2)


def test_at_night_only_what_is_urgent_is_sent(office: Office) -> None:
    office.config = notify(quiet_hours="22:00-07:00").model_copy(update={"timezone": "Europe/Berlin"})
    office.now = datetime(2026, 11, 29, 20, 30, tzinfo=UTC)
    drift, failed = notification(NightEvent.DRIFT, subject="inputs"), notification()
    assert office.end(drift, complete=True) == 1  # half past ten in Berlin
    assert office.end(failed, days=1) == 1
    assert office.end(later=timedelta(hours=7, minutes=29)) == 1
    assert office.end(later=timedelta(minutes=1)) == 0
    assert office.messages == [[failed], [drift]]


def test_a_receiver_gets_the_events_that_it_wants(office: Office) -> None:
    office.config = notify(events=[NightEvent.HELD])
    office.end(notification(), notification(NightEvent.HELD))
    assert [[entry.event for entry in message] for message in office.messages] == [["held"]]


def test_a_process_that_is_killed_while_it_sends_leaves_its_message_to_the_next(office: Office) -> None:
    def die(url: str, notifications: Sequence[Notification], seconds: float) -> None:
        raise KeyboardInterrupt

    variables = {VARIABLE: "https://secret"}
    killed = Notifier(str(office.folder), office.config, die, clock=lambda: office.now, variables=variables)
    killed.add(night(notification()))
    with pytest.raises(KeyboardInterrupt):
        list(killed.deliver())
    assert office.end(later=timedelta(minutes=1)) == 1
    assert office.end(later=timedelta(minutes=5)) == 0
    assert office.messages == [[notification()]]


def test_a_variable_that_is_not_set_is_named_and_loses_nothing(office: Office) -> None:
    notifier = Notifier(str(office.folder), office.config, office.send, variables={})
    notifier.add(night(notification()))
    (outcome,) = notifier.deliver()
    assert isinstance(outcome.error, UserError)
    assert VARIABLE in str(outcome.error)
    assert outcome.pending == 1
