"""Events of a use case, found by an identifier in the days that its runs have read, with what models scored them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Any

from nightshift import config, storage
from nightshift.config.columns import Columns, Holds
from nightshift.contracts.listings import EventList, ScoredEvent
from nightshift.contracts.tables import Manifest, Partition, partition_uri
from nightshift.runtime.errors import UserError, nearest
from pipelines import records
from pipelines.run_index import IndexedRun
from pipelines.workspace import Workspace, read_summary

RUNS = 40  # the newest runs whose days are known
DAYS, ROWS, LISTED = 60, 50_000_000, 200  # a search ends with one of them: days, rows read, events
SCORED = 40  # files of scores a day: one a version and set of features
EVENTS, FEATURES = "ingestion/events", "features/features"  # in a run's folder
ID = "event_id"
SHOWN = 200  # characters of a value

EventRow = dict[str, Any]  # column -> value


@dataclass(frozen=True)
class EventQuery:
    """What is searched.

    Attributes:
        column: that holds identifiers, by its name inside the pipeline; empty: the first that is not the event's own.
        value: the identifier as a text; empty: nothing is searched.
        last: the newest day that is searched; None: the newest there is.
        days: the most days that are searched, the newest first.
        with_features: whether the features of each event are read too.
    """

    column: str = ""
    value: str = ""
    last: date | None = None
    days: int = DAYS
    with_features: bool = False


@dataclass(frozen=True)
class SearchedDay:
    """A day that was searched, with its events that match; None where its file is gone."""

    part: Partition
    rows: list[EventRow] | None

    @property
    def day(self) -> date:
        """The day."""
        return date.fromisoformat(self.part.date)


def find_events(workspace: Workspace, name: str, query: EventQuery) -> EventList:
    """Return the events of a use case with an identifier, the newest day first.

    Raises:
        UserError: when the use case has no run that has read events, or the column holds no identifiers.
    """
    columns = list_identifiers(workspace, name)
    column = query.column or next((known for known in columns if known != ID), ID)
    if column not in columns:
        raise UserError(f"column is {column[:SHOWN]!r}, not one of {', '.join(columns)}{nearest(column, columns)}")
    days = locate_days(workspace, name, "events", read_events)
    wanted = [days[day] for day in sorted(days, reverse=True) if query.last is None or day <= query.last]
    searched = list(_search(wanted[: query.days], column, query.value)) if query.value else []
    events = [event for one in searched if one.rows for event in _describe(workspace, name, one, query.with_features)]
    return EventList(
        use_case=name,
        columns=columns,
        column=column,
        value=query.value,
        searched=[one.day for one in searched],
        rows=sum(one.part.rows for one in searched),
        missing=[one.day for one in searched if one.rows is None],
        older=date.fromisoformat(wanted[len(searched)].date) if searched and len(searched) < len(wanted) else None,
        events=events[:LISTED],
        left_out=max(len(events) - LISTED, 0),
    )


def locate_days(
    workspace: Workspace, name: str, table: str, read: Callable[[str], Manifest | None]
) -> dict[date, Partition]:
    """Return the days of a table as the newest runs have them, in this lake, which may have been moved since."""
    days: dict[date, Partition] = {}
    for _, manifest in read_manifests(workspace, name, read):
        for part in manifest.partitions:
            day = date.fromisoformat(part.date)
            if day not in days:
                days[day] = Partition(
                    part.date, relocate(workspace, name, table, day, part.uri), part.rows, part.sha256
                )
    return days


def relocate(workspace: Workspace, name: str, table: str, day: date, uri: str) -> str:
    """Return where a partition lies: in this lake, which may have been moved since, and nowhere else."""
    key = uri.rsplit("/", 1)[-1].removesuffix(".parquet")
    return partition_uri(workspace.state.lake, name, table, day, key)


def read_manifests(
    workspace: Workspace, name: str, read: Callable[[str], Manifest | None]
) -> Iterator[tuple[IndexedRun, Manifest]]:
    """Return the newest runs of a use case that have a manifest, with it.

    Raises:
        UserError: when it has no run.
    """
    return islice(workspace.index.derive_all(workspace.require_runs(name), read), RUNS)


def read_events(folder: str) -> Manifest | None:
    """Return the manifest of the events that a run in a folder has read, None where it has read none."""
    return _read_manifest(folder, EVENTS, "events")


def read_features(folder: str) -> Manifest | None:
    """Return the manifest of the features that a run in a folder has made, None where it has made none."""
    return _read_manifest(folder, FEATURES, "features")


def list_identifiers(workspace: Workspace, name: str) -> list[str]:
    """Return the columns of a use case's events that hold identifiers, by their names inside the pipeline.

    Raises:
        UserError: when it has no run whose config can be read.
    """
    for run in workspace.require_runs(name):
        if columns := read_columns(workspace, run):
            return list(columns.holding(Holds.IDENTIFIER))
    raise UserError(f"no run of {name[:SHOWN]!r} has a config that this version reads")


def read_columns(workspace: Workspace, run: IndexedRun) -> Columns | None:
    """Return the columns in the config of a run, None where it cannot be read."""
    folder = workspace.index.folder(run)
    uri = storage.join(folder, records.FILE)
    try:
        raw = (
            records.parse(storage.read_bytes(uri), uri).parameters["config"]
            if storage.exists(uri)
            else read_summary(folder)["config"]
        )
        return config.parse(raw).columns
    except (KeyError, UserError):
        return None


def select_rows(uri: str, column: str, values: Sequence[Any]) -> list[EventRow]:
    """Return the rows of a Parquet file that hold one of some values; none where its type has no such value."""
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(storage.arrow_file(storage.read_bytes(uri)))
    if column not in file.schema_arrow.names:
        return []
    try:
        wanted = pa.array(values).cast(file.schema_arrow.field(column).type)
    except pa.ArrowInvalid:
        return []
    # most days have none: their other columns are not read
    matching = compute.is_in(file.read([column])[column], value_set=wanted)
    return list(file.read().filter(matching).to_pylist()) if compute.any(matching).as_py() else []


def _read_manifest(folder: str, path: str, link: str) -> Manifest | None:
    uri = storage.join(folder, path)
    if not storage.exists(uri):
        # an engine may keep artifacts elsewhere
        uri = read_summary(folder).get("links", {}).get(link, "")
    return Manifest.read(uri) if uri and storage.exists(uri) else None


def _search(parts: Iterable[Partition], column: str, value: str) -> Iterator[SearchedDay]:
    read = matching = 0
    for part in parts:
        if read >= ROWS or matching >= LISTED:
            return
        rows = select_rows(part.uri, column, [value]) if storage.exists(part.uri) else None
        read, matching = read + part.rows, matching + len(rows or ())
        yield SearchedDay(part, rows)


def _describe(workspace: Workspace, name: str, searched: SearchedDay, with_features: bool) -> Iterator[ScoredEvent]:
    ids = [row[ID] for row in searched.rows or [] if ID in row]
    scores = _read_scores(workspace, name, searched.day, ids)
    features = _group(_read_features(workspace, name, searched.day, ids) if with_features else [])
    for row in searched.rows or []:
        event = row.get(ID)
        yield ScoredEvent(
            day=searched.day,
            event_id=_write(event),
            values=_write_row(row),
            scores=[_write_row(score, without=row) for score in scores.get(event, [])],
            features=_write_row(next(iter(features.get(event, [])), {}), without=row),
        )


def _read_scores(workspace: Workspace, name: str, day: date, ids: Sequence[Any]) -> dict[Any, list[EventRow]]:
    """Return event -> what each version has scored it, the newest last."""
    folder = storage.join(workspace.state.lake, name, "scores", f"date={day}")
    files = [file for file in storage.names(folder) if file.endswith(".parquet")][:SCORED]
    rows = [row for file in files for row in select_rows(storage.join(folder, file), ID, ids)]
    return _group(sorted(rows, key=_rank))


def _rank(score: EventRow) -> int:
    """Return the order of a version; one that was not registered comes first."""
    version = str(score.get("model_version"))
    return int(version) if version.isdecimal() else 0


def _read_features(workspace: Workspace, name: str, day: date, ids: Sequence[Any]) -> list[EventRow]:
    part = locate_days(workspace, name, "features", read_features).get(day)
    return select_rows(part.uri, ID, ids) if part and storage.exists(part.uri) else []


def _group(rows: Iterable[EventRow]) -> dict[Any, list[EventRow]]:
    groups: dict[Any, list[EventRow]] = defaultdict(list)
    for row in rows:
        groups[row[ID]].append(row)
    return groups


def _write_row(row: EventRow, without: Mapping[str, Any] | None = None) -> dict[str, str]:
    return {column[:SHOWN]: _write(value) for column, value in row.items() if column not in (without or {})}


def _write(value: Any) -> str:
    if isinstance(value, bytes):
        return f"({len(value):,} bytes)"
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
