"""Gathers what there is of a use case, and removes what `pipelines/gc/retention.py` says may go."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich import box
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from nightshift import registry, release, storage
from nightshift.config import Config
from nightshift.contracts.state import State
from nightshift.errors import UserError
from nightshift.local import endpoint
from pipelines.engines.local import runs
from pipelines.gc.retention import Files, Found, Item, Lineage, Plan, Run, Version, partition_of, plan

REMOVED = ".removed"
NEVER = datetime.min.replace(tzinfo=UTC)
UNREAD = runs.Record(pipeline="", started=NEVER, parameters={}, complete=False)


def planned(state: State, config: Config, now: datetime) -> Plan:
    """Return what may go of a use case, and remove nothing.

    Args:
        state: where things lie; runs and registry are folders.
        config: the use case, with its ages.
        now: ages count from here.
    """
    return plan(_gather(state, config.name), config.retention, now)


def collect(state: State, config: Config, now: datetime) -> Plan:
    """Remove what may go of a use case; return what that was.

    Meanwhile nothing is promoted and no run of the use case starts, since a run may be about to use a day
    of a table that nothing names any more.

    Raises:
        UserError: when a run is in progress, or something may not be removed; calling it again resumes.
    """
    with runs.none_under_way(Path(state.runs), config.name), registry.exclusive(state.registry):
        found = planned(state, config, now)
        _remove(found, state, config.name)
    return found


def table(found: Plan, title: str, now: datetime) -> Table:
    """Return what a plan removes: versions and runs one a line, partitions by table."""
    made = _table(title, "kind", "name", "days", "size")
    for kind, items in (("version", found.versions), ("run", found.runs)):
        for item in items:
            made.add_row(kind, escape(item.name), str((now - item.since).days), decimal(item.size))
    for name, parts in _by_table(found.partitions).items():
        days = sorted(part.name.split("/")[1].removeprefix("date=") for part in parts)
        oldest = max((now - part.since).days for part in parts)
        span = f"{name}: {len(parts)}, {days[0]} .. {days[-1]}"
        made.add_row("partitions", span, str(oldest), decimal(_size(parts)))
    for each in found.unfinished:
        made.add_row("unfinished", escape(each.name), str((now - each.since).days), decimal(each.size))
    for folder in found.leftovers:
        made.add_row("left over", escape(folder), "", "")
    made.add_section()
    everything: list[Item] = [*found.versions, *found.runs, *found.partitions, *found.unfinished]
    made.add_row("all", "", "", decimal(_size(everything)))
    return made


def lineage(kept: list[Lineage]) -> Table:
    """Return what stays for the sake of live versions."""
    made = _table("kept for live models", "because", "version", "made by", "partitions")
    for line in kept:
        made.add_row(line.reason, _some(line.versions), _some(line.runs) or "a run that is gone", str(line.partitions))
    return made


def _gather(state: State, use_case: str) -> Found:
    folder = Path(state.runs)
    latest = folder / "latest"
    discarded = [str(path) for path in sorted((folder / REMOVED).glob("*"))]
    return Found(
        versions=_versions(state.registry, use_case),
        runs=list(_runs(folder, use_case)),
        partitions=_partitions(storage.join(state.lake, use_case)),
        latest=latest.resolve().name if latest.exists() else None,
        leftovers=(*registry.leftovers(state.registry, use_case), *discarded),
        unfinished=tuple(_unfinished(state, use_case)),
    )


def _remove(found: Plan, state: State, use_case: str) -> None:
    """Remove first what needs something, then what is needed, so that nothing is ever left dangling."""
    registry.remove(state.registry, use_case, [int(version.name) for version in found.versions])
    for run in found.runs:
        _discard(Path(state.runs), run.name)
    for uri in (uri for each in found.partitions for uri in each.files):
        storage.remove(uri)
    for each in found.unfinished:
        if _left(each.name) == each:  # nobody has taken it up since
            for uri in each.files:
                storage.remove(uri)
            storage.remove_folder(each.name)
    for folder in found.leftovers:
        storage.remove_folder(folder)


def _versions(uri: str, use_case: str) -> list[Version]:
    served = endpoint.find_version(uri, use_case)
    pinned = ({served: "endpoint"} if served else {}) | release.list_pinned(release.ReleaseRef(uri, use_case))
    return [
        Version(
            name=str(version.version),
            since=datetime.fromisoformat(version.tags["registered_at"]),
            size=_size_of(version.uri),
            run=version.tags.get("parent_run", ""),
            pinned=pinned.get(version.version, ""),
        )
        for version in registry.versions(uri, use_case)
    ]


def _runs(folder: Path, use_case: str) -> Iterator[Run]:
    for path in sorted(folder.glob("*/run.json")):
        # the link to the newest run is no run
        if path.parent.is_symlink():
            continue
        try:
            record, problem = runs.record(path.parent), ""
        except UserError as error:
            record, problem = UNREAD, str(error)
        # of what nobody can read nobody knows whose it is
        if problem or record.parameters.get("config", {}).get("name") == use_case:
            yield _run(path.parent, record, problem)


def _run(folder: Path, record: runs.Record, problem: str) -> Run:
    named = [partition_of(uri) for manifest in _manifests(folder) for uri in _named(manifest)]
    return Run(
        name=folder.name,
        since=record.started,
        size=_size_of(str(folder)),
        pipeline=record.pipeline,
        complete=record.complete,
        partitions=frozenset(name for name in named if name),
        problem=problem,
    )


def _named(manifest: dict[str, Any]) -> Iterator[str]:
    """Yield the files in the lake that a table's manifest names."""
    yield from (part["uri"] for part in manifest["partitions"])
    if snapshot := manifest.get("details", {}).get("online"):
        yield snapshot


def _manifests(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the table manifests of a run, which are artifacts or lie in one: JSON that names partitions."""
    for path in folder.glob("*/**/*"):
        if path.is_file() and path.suffix in ("", ".json"):
            try:
                value = json.loads(path.read_bytes())
            except (ValueError, FileNotFoundError):  # no JSON, as the report; or a step that is made anew
                continue
            if isinstance(value, dict) and "partitions" in value:
                yield value


def _partitions(folder: str) -> list[Files]:
    files: dict[str, list[storage.FileEntry]] = defaultdict(list)
    for entry in storage.walk(folder):
        if name := partition_of(entry.uri):
            files[name].append(entry)
    return [_together(name, entries) for name, entries in sorted(files.items())]


def _unfinished(state: State, use_case: str) -> Iterator[Files]:
    """Yield the folders of trainings and of features in shards: those that are complete have removed theirs."""
    roots = (
        storage.join(state.checkpoints, use_case, "training"),
        storage.join(state.lake, use_case, "scratch"),
    )
    for root in roots:
        for key in storage.names(root):
            if re.fullmatch("[0-9a-f]{16}", key) and (found := _left(storage.join(root, key))):
                yield found


def _left(folder: str) -> Files | None:
    """Return what a step has left in a folder, be it empty; None where there is no folder."""
    found = _together(folder, storage.walk(folder))
    if found.files:
        return found
    # a training begins with it, and a removal leaves it last
    since = storage.last_change(folder)
    return replace(found, since=since) if since else None


def _together(name: str, entries: list[storage.FileEntry]) -> Files:
    # without its sidecar a Parquet file counts as not made, and is made anew; so does a checkpoint
    order = sorted((entry.uri for entry in entries), key=lambda uri: not uri.endswith(".json"))
    written = max((entry.written for entry in entries), default=NEVER)
    return Files(name, written, sum(entry.size for entry in entries), tuple(order))


def _discard(folder: Path, run: str) -> None:
    """Remove a run at once: it is moved away first, so that nobody ever finds half of it."""
    away = folder / REMOVED / run
    away.parent.mkdir(exist_ok=True)
    (folder / run).rename(away)
    storage.remove_folder(str(away))


def _table(title: str, *headings: str) -> Table:
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        numbers = heading in ("days", "size", "partitions")
        made.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    return made


def _by_table(parts: Iterable[Files]) -> dict[str, list[Files]]:
    found: dict[str, list[Files]] = defaultdict(list)
    for part in parts:
        found[part.name.split("/")[0]].append(part)
    return found


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} of them" if names else ""


def _size(items: Iterable[Item]) -> int:
    return sum(item.size for item in items)


def _size_of(folder: str) -> int:
    return sum(entry.size for entry in storage.walk(folder))
