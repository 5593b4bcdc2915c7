"""Gathers what there is of a use case, and removes what `pipelines/gc/retention.py` says may go."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich import box
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from nightshift import registry, storage
from nightshift.config import Config
from nightshift.contracts.state import State
from nightshift.local import endpoint
from nightshift.registry import approvals, release_record
from nightshift.runtime.errors import UserError
from pipelines import records
from pipelines.engines.local import runs
from pipelines.gc import retention
from pipelines.gc.retention import (
    FileGroup,
    Inventory,
    RemovalPlan,
    StoredItem,
    StoredRun,
    StoredVersion,
    VersionLineage,
    find_partition,
    plan,
)

REMOVED = ".removed"
NEVER = datetime.min.replace(tzinfo=UTC)
UNREAD = records.Record(pipeline="", started=NEVER, parameters={}, complete=False)


def plan_removals(state: State, config: Config, now: datetime) -> RemovalPlan:
    """Return the plan for a use case, and remove nothing.

    Args:
        state: where things lie; runs and registry are folders.
        config: the use case, with its ages.
        now: ages count from here.
    """
    return plan(_gather(state, config.name), config.retention, now)


def collect(state: State, config: Config, now: datetime) -> RemovalPlan:
    """Remove everything past its age of a use case; return the plan that was carried out.

    Meanwhile nothing is promoted and no run of the use case starts, since a run may be about to use a day
    of a table that nothing names any more.

    Raises:
        UserError: when a run is in progress, or something may not be removed; calling it again resumes.
    """
    with runs.none_under_way(Path(state.runs), config.name), registry.lock(state.registry):
        removals = plan_removals(state, config, now)
        _remove(removals, state, config.name)
    return removals


def table(plan: RemovalPlan, title: str, now: datetime) -> Table:
    """Return the table of a plan's removals: versions and runs one a line, partitions by table."""
    table = _table(title, "kind", "name", "days", "size")
    for kind, items in (("version", plan.versions), ("run", plan.runs)):
        for item in items:
            table.add_row(kind, escape(item.name), str((now - item.since).days), decimal(item.size))
    for name, parts in _group_by_table(plan.partitions).items():
        days = sorted(str(part.day) for part in parts)
        oldest = max((now - part.since).days for part in parts)
        span = f"{name}: {len(parts)}, {days[0]} .. {days[-1]}"
        table.add_row("partitions", span, str(oldest), decimal(_size(parts)))
    for group in plan.unfinished:
        table.add_row("unfinished", escape(group.name), str((now - group.since).days), decimal(group.size))
    for folder in plan.leftovers:
        table.add_row("left over", escape(folder), "", "")
    table.add_section()
    everything: list[StoredItem] = [*plan.versions, *plan.runs, *plan.partitions, *plan.unfinished]
    table.add_row("all", "", "", decimal(_size(everything)))
    return table


def lineage(kept: list[VersionLineage]) -> Table:
    """Return the table of what live versions keep."""
    table = _table("kept for live models", "because", "version", "made by", "partitions")
    for line in kept:
        table.add_row(line.reason, _some(line.versions), _some(line.runs) or "a run that is gone", str(line.partitions))
    return table


def _gather(state: State, use_case: str) -> Inventory:
    folder = Path(state.runs)
    latest = folder / "latest"
    discarded = [str(path) for path in sorted((folder / REMOVED).glob("*"))]
    return Inventory(
        versions=_versions(state.registry, use_case),
        runs=list(_runs(folder, use_case)),
        partitions=_partitions(storage.join(state.lake, use_case)),
        quarantined=tuple(_list_quarantined(storage.join(state.lake, use_case, retention.QUARANTINE))),
        latest=latest.resolve().name if latest.exists() else None,
        leftovers=(*registry.leftovers(state.registry, use_case), *discarded),
        unfinished=tuple(_list_unfinished(state, use_case)),
    )


def _remove(plan: RemovalPlan, state: State, use_case: str) -> None:
    """Remove first what needs something, then what is needed, so that nothing is ever left dangling."""
    registry.remove(state.registry, use_case, [int(version.name) for version in plan.versions])
    for run in plan.runs:
        _discard(Path(state.runs), run.name)
    for uri in (uri for group in plan.partitions for uri in group.files):
        storage.remove(uri)
    for group in plan.unfinished:
        if _find_leftovers(group.name) == group:  # nobody has taken it up since
            for uri in group.files:
                storage.remove(uri)
            storage.remove_folder(group.name)
    for folder in plan.leftovers:
        storage.remove_folder(folder)


def _versions(uri: str, use_case: str) -> list[StoredVersion]:
    served, ref = endpoint.find_version(uri, use_case), release_record.ReleaseRef(uri, use_case)
    waiting = {one.version: "waits for approval" for one in approvals.list_waiting(ref, release_record.read(ref))}
    pinned = waiting | ({served: "endpoint"} if served else {}) | release_record.list_pinned(ref)
    return [
        StoredVersion(
            name=str(version.version),
            since=datetime.fromisoformat(version.tags["registered_at"]),
            size=_folder_size(version.uri),
            run=version.tags.get("parent_run", ""),
            pinned=pinned.get(version.version, ""),
        )
        for version in registry.versions(uri, use_case)
    ]


def _runs(folder: Path, use_case: str) -> Iterator[StoredRun]:
    for path in sorted(folder.glob(f"*/{records.FILE}")):
        # the link to the newest run is no run
        if path.parent.is_symlink():
            continue
        try:
            record, problem = records.read(path.parent), ""
        except UserError as error:
            record, problem = UNREAD, str(error)
        # an unreadable run may be any use case's
        if problem or record.use_case == use_case:
            yield _run(path.parent, record, problem)


def _run(folder: Path, record: records.Record, problem: str) -> StoredRun:
    partitions = [find_partition(uri) for _, manifest in list_manifests(folder) for uri in _list_uris(manifest)]
    return StoredRun(
        name=folder.name,
        since=record.started,
        size=_folder_size(str(folder)),
        pipeline=record.pipeline,
        complete=record.complete,
        partitions=frozenset(name for name in partitions if name),
        problem=problem,
    )


def _list_uris(manifest: dict[str, Any]) -> Iterator[str]:
    """Yield the files in the lake that a table's manifest names."""
    yield from (part["uri"] for part in manifest["partitions"])
    if snapshot := manifest.get("details", {}).get("online"):
        yield snapshot


def list_manifests(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the table manifests of a run, which are artifacts or lie in one: JSON that names partitions."""
    for path in folder.glob("*/**/*"):
        if path.is_file() and path.suffix in ("", ".json"):
            try:
                value = json.loads(path.read_bytes())
            except (ValueError, FileNotFoundError):  # no JSON, as the report; or a step that is made anew
                continue
            if isinstance(value, dict) and "partitions" in value:
                yield path, value


def _partitions(folder: str) -> list[FileGroup]:
    files: dict[str, list[storage.FileEntry]] = defaultdict(list)
    for entry in storage.walk(folder):
        if name := find_partition(entry.uri):
            files[name].append(entry)
    return [_group_files(name, entries) for name, entries in sorted(files.items())]


def _list_quarantined(folder: str) -> Iterator[FileGroup]:
    for entry in storage.walk(folder):
        if find_partition(entry.uri):
            yield _group_files("/".join(entry.uri.rsplit("/", 3)[1:]), [entry])


def _list_unfinished(state: State, use_case: str) -> Iterator[FileGroup]:
    """Yield the folders of trainings and of features in shards: those that are complete have removed theirs."""
    roots = (
        storage.join(state.checkpoints, use_case, "training"),
        storage.join(state.lake, use_case, "scratch"),
    )
    for root in roots:
        for key in storage.names(root):
            if re.fullmatch("[0-9a-f]{16}", key) and (group := _find_leftovers(storage.join(root, key))):
                yield group


def _find_leftovers(folder: str) -> FileGroup | None:
    """Return the files that a step has left in a folder, be it empty; None where there is no folder."""
    group = _group_files(folder, storage.walk(folder))
    if group.files:
        return group
    # a training begins with it, and a removal leaves it last
    since = storage.last_change(folder)
    return replace(group, since=since) if since else None


def _group_files(name: str, entries: list[storage.FileEntry]) -> FileGroup:
    # without its sidecar a Parquet file counts as not made, and is made anew; so does a checkpoint
    order = sorted((entry.uri for entry in entries), key=lambda uri: not uri.endswith(".json"))
    written = max((entry.written for entry in entries), default=NEVER)
    return FileGroup(name, written, sum(entry.size for entry in entries), tuple(order))


def _discard(folder: Path, run: str) -> None:
    """Remove a run at once: it is moved away first, so that nobody ever finds half of it."""
    away = folder / REMOVED / run
    away.parent.mkdir(exist_ok=True)
    (folder / run).rename(away)
    storage.remove_folder(str(away))


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        numbers = heading in ("days", "size", "partitions")
        table.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    return table


def _group_by_table(parts: Iterable[FileGroup]) -> dict[str, list[FileGroup]]:
    groups: dict[str, list[FileGroup]] = defaultdict(list)
    for part in parts:
        groups[part.table].append(part)
    return groups


def explain_overdue(overdue: Mapping[str, int]) -> list[str]:
    """Return why days stay that are past their table's retention, a sentence for each table."""
    why = "a version in service, or the newest run, was made from them"
    return [
        f"{days} days of {table} stay past retention.{table}_days: {why}" for table, days in sorted(overdue.items())
    ]


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} of them" if names else ""


def _size(items: Iterable[StoredItem]) -> int:
    return sum(item.size for item in items)


def _folder_size(folder: str) -> int:
    return sum(entry.size for entry in storage.walk(folder))
