"""Days of a table end when the config says, but for those that a version in service was made from."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nightshift.config.policy import Retention
from pipelines.gc import sweep
from pipelines.gc.retention import FileGroup, Inventory, RemovalPlan, StoredRun, StoredVersion, plan

NOW = datetime(2025, 6, 30, 12, tzinfo=UTC)
EVENTS = ["events/date=2025-01-01/a.parquet", "events/date=2025-06-01/b.parquet", "events/date=2025-06-29/c.parquet"]


def days(*names: str, written: int = 1) -> list[FileGroup]:
    return [FileGroup(name, NOW - timedelta(days=written), 10, (f"lake/{name}",)) for name in names]


def run(name: str, *partitions: str, since: int = 10) -> StoredRun:
    return StoredRun(name, NOW - timedelta(days=since), 1, "training", True, frozenset(partitions))


def removed(limits: dict[str, int], partitions: list[FileGroup], **stored: Any) -> RemovalPlan:
    inventory = Inventory(stored.get("versions", []), stored.get("runs", []), partitions, tuple(stored.get("bad", ())))
    return plan(inventory, Retention(**limits), NOW)


def names(removals: RemovalPlan) -> list[str]:
    return [part.name for part in removals.partitions]


def test_days_that_a_kept_run_names_stay_without_a_limit_and_end_with_one() -> None:
    runs = [run("old", *EVENTS, since=20), run("new", EVENTS[2])]
    assert names(removed({}, days(*EVENTS), runs=runs)) == []
    assert names(removed({"events_days": 100}, days(*EVENTS), runs=runs)) == EVENTS[:1]
    assert names(removed({"events_days": 1}, days(*EVENTS), runs=runs)) == EVENTS[:2]


@pytest.mark.parametrize("pinned", ["champion", "rollback target", "challenger"])
def test_what_a_version_in_service_was_made_from_stays_and_is_counted(pinned: str) -> None:
    runs = [run("made", EVENTS[0], since=80), run("old", EVENTS[1], since=20), run("new", EVENTS[2])]
    versions = [StoredVersion("1", NOW - timedelta(days=80), 1, "made", pinned)]

    removals = removed({"events_days": 7}, days(*EVENTS), runs=runs, versions=versions)

    assert names(removals) == [EVENTS[1]]
    assert removals.overdue == {"events": 1}
    assert sweep.explain_overdue(removals.overdue) == [
        "1 days of events stay past retention.events_days: a version in service, or the newest run, was made from them"
    ]


def test_a_version_that_is_only_young_holds_nothing_past_a_limit() -> None:
    runs = [run("made", EVENTS[0], since=80), run("new", EVENTS[2])]
    versions = [StoredVersion("1", NOW - timedelta(days=80), 1, "made")]
    assert names(removed({"events_days": 7}, days(*EVENTS[::2]), runs=runs, versions=versions)) == [EVENTS[0]]


def test_quarantined_rows_end_before_their_day_and_never_while_the_newest_run_names_it() -> None:
    bad = days(*(name.replace("events", "quarantine") for name in EVENTS[:2]))
    runs = [run("old", *EVENTS), run("new", EVENTS[1], since=5)]

    removals = removed({"quarantine_days": 7}, days(*EVENTS), runs=runs, bad=bad)

    assert names(removals) == ["quarantine/date=2025-01-01/a.parquet"]
    assert removals.overdue == {"quarantine": 1}


def test_rows_left_out_are_counted_once_when_their_day_ends_too() -> None:
    bad = days(EVENTS[0].replace("events", "quarantine"))
    removals = removed(
        {"events_days": 7, "quarantine_days": 7},
        days(EVENTS[0]),
        runs=[run("old", *EVENTS), run("new", since=1)],
        bad=bad,
    )
    assert names(removals) == EVENTS[:1]


def test_the_prediction_log_is_kept_as_long_as_its_limit_says_and_no_longer() -> None:
    log = days("predictions/date=2025-05-01/1.parquet", "predictions/date=2025-06-20/2.parquet", written=40)
    assert names(removed({}, log)) == [part.name for part in log]
    assert names(removed({"predictions_days": 30}, log)) == [log[0].name]
    assert names(removed({"predictions_days": 100}, log)) == []


def test_snapshots_of_the_online_state_end_with_the_features() -> None:
    parts = days(
        "features/date=2025-05-01/f.parquet", "online/date=2025-05-01/s.state", "scores/date=2025-05-01/x.parquet"
    )
    runs = [run("old", *(part.name for part in parts), since=20), run("new", since=1)]
    assert names(removed({"features_days": 30}, parts, runs=runs)) == [part.name for part in parts[:2]]
    assert names(removed({"scores_days": 30}, parts, runs=runs)) == [parts[2].name]


def test_a_day_is_kept_as_many_days_as_the_limit_says() -> None:
    last = days("scores/date=2025-06-23/x.parquet")
    kept = [run("old", last[0].name, since=20), run("new", since=1)]
    assert names(removed({"scores_days": 7}, last, runs=kept)) == []
    assert names(removed({"scores_days": 6}, last, runs=kept)) == [last[0].name]
