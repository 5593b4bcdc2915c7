"""What may go and what has to stay: marks all that a kept run or a live model version needs; the rest has an age.

Values in, a plan out. Reading and removing is in `pipelines/gc/sweep.py`.
"""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby

from nightshift.config.policy import Retention
from nightshift.contracts.online import SUFFIX

QUARANTINE, PREDICTIONS = "quarantine", "predictions"


@dataclass(frozen=True)
class StoredItem:
    """Something that takes up space.

    Attributes:
        name: what people know it by.
        since: when it was registered, started or last written, UTC.
        size: bytes.
    """

    name: str
    since: datetime
    size: int

    def past(self, days: int, now: datetime) -> bool:
        """Return whether it is that old."""
        return now - self.since >= timedelta(days=days)


@dataclass(frozen=True)
class StoredVersion(StoredItem):
    """A version of the model; its name is its number.

    Attributes:
        run: the run that made it, which need not exist any more.
        pinned: why it stays however old it is, `champion` say; empty when nothing keeps it.
    """

    run: str
    pinned: str = ""


@dataclass(frozen=True)
class StoredRun(StoredItem):
    """A run.

    Attributes:
        pipeline: what it ran.
        complete: whether every step went well.
        partitions: names of the partitions that its tables consist of.
        problem: why its record cannot be read, so that it stays; empty when it can be.
    """

    pipeline: str
    complete: bool
    partitions: frozenset[str]
    problem: str = ""


@dataclass(frozen=True)
class FileGroup(StoredItem):
    """Files that belong together.

    Attributes:
        files: their URIs, in the order in which they can be removed: what says that the others are whole goes first.
    """

    files: tuple[str, ...]

    @property
    def table(self) -> str:
        """The table that a day belongs to."""
        return self.name.split("/")[0]

    @property
    def day(self) -> date:
        """The day, of a day of a table."""
        return date.fromisoformat(self.name.split("/")[1].removeprefix("date="))


@dataclass(frozen=True)
class Inventory:
    """The stored versions, runs and files of one use case.

    Attributes:
        versions: registered versions.
        runs: its runs.
        partitions: days of tables in the lake; their names are what `find_partition` says.
        quarantined: rows left out of some of these days, by `quarantine/date=<day>/<key>.parquet`.
        latest: the run that `runs/latest` points at, of whatever use case; None when there is none.
        leftovers: folders, on this machine, whose removal was cut short.
        unfinished: folders, by URI, that a step removes at its end and has not: of its checkpoints or its shards.
    """

    versions: list[StoredVersion]
    runs: list[StoredRun]
    partitions: list[FileGroup]
    quarantined: tuple[FileGroup, ...] = ()
    latest: str | None = None
    leftovers: tuple[str, ...] = ()
    unfinished: tuple[FileGroup, ...] = ()


@dataclass(frozen=True)
class VersionLineage:
    """Versions that live for the same reason, and what they keep.

    Attributes:
        reason: why they live.
        versions: names of the versions.
        runs: names of the runs that made them, as far as they exist.
        partitions: how many days of tables these runs name.
    """

    reason: str
    versions: list[str]
    runs: list[str]
    partitions: int


@dataclass(frozen=True)
class RemovalPlan:
    """What is to go, what stays for the sake of live versions, and why runs stay that cannot be read.

    Attributes:
        overdue: table -> days past its retention that a live version or the newest run needs.
    """

    versions: list[StoredVersion]
    runs: list[StoredRun]
    partitions: list[FileGroup]
    leftovers: tuple[str, ...]
    unfinished: list[FileGroup]
    lineage: list[VersionLineage]
    problems: list[str]
    overdue: dict[str, int]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not (self.versions or self.runs or self.partitions or self.unfinished or self.leftovers)


def plan(inventory: Inventory, limits: Retention, now: datetime) -> RemovalPlan:
    """Return the plan of removals.

    A version lives while it is pinned or younger than `versions_days`. A run stays while it is younger than
    `runs_days`, made a live version, is the newest complete one of its pipeline, is what `latest` points at, or
    cannot be read.
    A partition stays while such a run names it, or for `partitions_days` after it was written. A table's own days end
    that sooner, unless a run of a pinned version or the newest one of its pipeline names it.
    As long as partitions that nothing names stays what a step has left unfinished, after the last of its files was
    written, or the empty folder was changed.
    """
    live = [version for version in inventory.versions if version.pinned or not version.past(limits.versions_days, now)]
    roots = {version.run for version in live} | _newest(inventory.runs) | {inventory.latest}
    kept = [run for run in inventory.runs if run.problem or run.name in roots or not run.past(limits.runs_days, now)]
    needed, held = _partitions(kept), _partitions(_list_holders(inventory))
    overdue = [part for part in (*inventory.partitions, *inventory.quarantined) if _is_expired(part, limits, now)]
    expired = {part for part in overdue if _find_owner(part) not in held}
    idle = {part for part in inventory.partitions if _is_idle(part, needed, limits, now)}
    gone = {part.name for part in expired | idle}
    return RemovalPlan(
        versions=[version for version in inventory.versions if version not in live],
        runs=[run for run in inventory.runs if run not in kept],
        partitions=[
            part
            for part in (*inventory.partitions, *inventory.quarantined)
            if part in expired | idle and not (part.table == QUARANTINE and _find_owner(part) in gone)
        ],
        leftovers=inventory.leftovers,
        unfinished=[group for group in inventory.unfinished if group.past(limits.partitions_days, now)],
        lineage=_lineage(live, inventory.runs, f"younger than {limits.versions_days} days"),
        problems=[run.problem for run in inventory.runs if run.problem],
        overdue=dict(Counter(part.table for part in overdue if part not in expired)),
    )


def _is_expired(part: FileGroup, limits: Retention, now: datetime) -> bool:
    """Return whether a day is past what its table allows."""
    days = limits.find_days(part.table)
    return days is not None and (now.date() - part.day).days > days


def _is_idle(part: FileGroup, needed: Container[str], limits: Retention, now: datetime) -> bool:
    """Return whether no run names a day, and nobody has said how long it is kept."""
    if part.table == PREDICTIONS and limits.predictions_days is not None:
        return False
    return part.name not in needed and part.past(limits.partitions_days, now)


def _list_holders(inventory: Inventory) -> list[StoredRun]:
    """Return the runs whose days stay however old they are."""
    roots = {version.run for version in inventory.versions if version.pinned} | _newest(inventory.runs)
    return [run for run in inventory.runs if run.problem or run.name in roots]


def _find_owner(part: FileGroup) -> str:
    """Return the partition that files belong to: quarantined rows to a day of events."""
    return part.name.replace(f"{QUARANTINE}/", "events/", 1) if part.table == QUARANTINE else part.name


def find_partition(uri: str) -> str | None:
    """Return which partition a file in the lake belongs to: `<table>/date=<day>/<key>.parquet`, or `.state`.

    Only the end of the URI counts, since a lake may have been moved and a key is never used twice. Quarantined
    rows belong to the day of events that they were taken out of, a draft that was never finished to itself,
    and a file that is none of ours to nothing (None).
    """
    table, day, file = ["", "", "", *uri.split("/")][-3:]
    if not day.startswith("date="):
        return None
    if file.endswith(".tmp"):
        return f"{table}/{day}/{file}"
    content = file.removesuffix(".json").removesuffix(".npy")
    whole = content.endswith((".parquet", SUFFIX))
    return f"{'events' if table == QUARANTINE else table}/{day}/{content}" if whole else None


def _newest(runs: Iterable[StoredRun]) -> set[str | None]:
    """Return the newest complete run of each pipeline."""
    complete = sorted((run for run in runs if run.complete), key=lambda run: run.since)
    return set({run.pipeline: run.name for run in complete}.values())


def _partitions(runs: Iterable[StoredRun]) -> set[str]:
    return {name for run in runs for name in run.partitions}


def _lineage(live: list[StoredVersion], runs: list[StoredRun], young: str) -> list[VersionLineage]:
    lineages = []
    for reason, group in groupby(sorted(live, key=lambda version: version.pinned), lambda version: version.pinned):
        versions = list(group)
        makers = [run for run in runs if run.name in {version.run for version in versions}]
        names = [version.name for version in versions]
        lineages.append(VersionLineage(reason or young, names, [run.name for run in makers], len(_partitions(makers))))
    return lineages
