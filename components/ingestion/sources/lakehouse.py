"""A table of a lakehouse as a source: one snapshot of Delta Lake's or Apache Iceberg's, whatever commits follow.

A day is identified by the data files that may hold its rows, whose names are never used twice.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from zoneinfo import ZoneInfo

from components.ingestion.sources.protocol import RawRows
from nightshift import storage
from nightshift.config import Config
from nightshift.data.arrow import to_frame
from nightshift.runtime.errors import UnavailableError, UserError, require_extra

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyiceberg.table import Table

CATALOG = "iceberg://"
# by the login and the endpoint that the other sources use
STORES = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
DAY = timedelta(days=1)
CLOCK_CHANGE = timedelta(hours=3)  # more than any zone's


class TableSnapshot(Protocol):
    """One version of a table. Its conditions are SQL of the kind that both libraries read; None is every row.

    Attributes:
        name: where the table is, and which version of it this is.
        version: a number that no other version has.
        schema: of its rows.
    """

    name: str
    version: int
    schema: "pa.Schema"

    def files(self, condition: str | None) -> list[str]:
        """Return what identifies each data file that may hold such rows, and which of its rows are deleted, sorted."""

    def read(self, columns: list[str], condition: str | None) -> "pa.Table":
        """Return columns of such rows, in any order."""


class LakehouseTable:
    """A table with all days, of which only those are read that a run needs; rows without a time are of no day."""

    has_fixed_dtypes: ClassVar = False

    def __init__(self, snapshot: TableSnapshot, config: Config) -> None:
        from nightshift.tasks import columns

        with explain_faults(snapshot.name):
            columns.require(to_frame(snapshot.schema.empty_table()), config.columns, may_be_empty=True)
        self._snapshot, self._source = snapshot, config.source
        self._time, self._columns = config.columns.event_time, config.columns.names
        self._dated = lru_cache(maxsize=2)(self._read_dated)

    def name(self, day: date) -> str:
        """Return the table's version, and the day in it."""
        return f"{self._snapshot.name}, {day}"

    def absence(self, day: date) -> str:
        """Return that the table has no rows of a day, for a message."""
        return f"{self._snapshot.name} has no row of {day}"

    @property
    def details(self) -> Mapping[str, Any]:
        """The version that is read, and how many of its rows have no time."""
        quoted = f"{_quote(self._time)} is null"
        _, days = self._dated(None if self._bounds(date(2000, 1, 1)) is None else quoted, (self._time,))
        return {"version": self._snapshot.version, "rows_without_time": int(days.isna().sum())}

    def has(self, day: date) -> bool:
        """Return whether the table has rows of a day, or the day may lack them; none may before the first row."""
        return len(self._read_rows(day, (self._time,))) > 0 or (
            self._source.may_be_empty(day) and self._begins_before(day)
        )

    def read(self, day: date) -> RawRows:
        """Return a day's rows, identified by the files that may hold them; they are read when they are loaded."""
        with explain_faults(self._snapshot.name):
            files = self._snapshot.files(self._condition(day))
        return RawRows(storage.fingerprint(files), partial(self._read_rows, day, tuple(self._columns)))

    def _read_rows(self, day: date, columns: tuple[str, ...]) -> "pd.DataFrame":
        frame, days = self._dated(self._condition(day), columns)
        return frame[days == str(day)].reset_index(drop=True)

    def _read_dated(self, condition: str | None, columns: tuple[str, ...]) -> "tuple[pd.DataFrame, pd.Series]":
        """Return rows, and the UTC day of each, NaT without a time.

        They are sorted, so that of rows with one id the same one is first however files are arranged.
        """
        from nightshift.tasks import columns as rules
        from nightshift.tasks import spelling

        with explain_faults(self._snapshot.name):
            rows = self._snapshot.read(list(columns), condition)
            order = sorted(columns, key=lambda column: column != self._time)
            frame = to_frame(rows.sort_by([(column, "ascending") for column in order]))
            times = spelling.times(frame[self._time], self._source)
            rules.require_some(frame[self._time], times, rules.TIME)
        return frame, times.dt.floor("D")

    def _begins_before(self, day: date) -> bool:
        bounds = self._bounds(day)
        if bounds is None:
            return bool(self._dated(None, (self._time,))[1].min().date() < day)
        with explain_faults(self._snapshot.name):
            return bool(self._snapshot.files(f"{_quote(self._time)} < '{bounds[0]}'"))

    def _condition(self, day: date) -> str | None:
        if (bounds := self._bounds(day)) is None:
            return None
        column = _quote(self._time)
        return f"{column} >= '{bounds[0]}' and {column} < '{bounds[1]}'"

    def _bounds(self, day: date) -> tuple[str, str] | None:
        """Return values of the time column between which all rows of a UTC day lie; None where its order is another.

        Where a zone changes its clocks a few rows of the days beside it lie there too.
        """
        import pyarrow as pa

        kind = self._snapshot.schema.field(self._time).type
        first = datetime(day.year, day.month, day.day, tzinfo=UTC)
        if pa.types.is_timestamp(kind) and kind.tz:
            return first.isoformat(), (first + DAY).isoformat()
        if not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
            return None
        zone = ZoneInfo(self._source.timezone)
        margin = timedelta(0) if self._source.timezone == "UTC" else CLOCK_CHANGE
        start = first.astimezone(zone).replace(tzinfo=None) - margin
        end = (first + DAY).astimezone(zone).replace(tzinfo=None) + margin
        if pa.types.is_date(kind):
            return str(start.date()), str((end + DAY - timedelta(microseconds=1)).date())
        return start.isoformat(), end.isoformat()


class DeltaSnapshot:
    """A version of a Delta Lake table."""

    def __init__(self, uri: str) -> None:
        import pyarrow as pa

        with require_extra("source.delta", "lakehouse"):
            from deltalake import DeltaTable
        with explain_faults(f"{uri} (source.delta)"):
            self._table: DeltaTable = DeltaTable(uri)
            self.version = self._table.version()
            self.schema = pa.schema(self._table.schema())
        self.name = f"{uri}, version {self.version}"

    def files(self, condition: str | None) -> list[str]:
        """Return the URIs of files, with a hash of the rows that are left where some are deleted."""
        deleted, uris = self._deletions(), self._table.file_uris(file_pruning_predicate=condition)
        return sorted(f"{uri} {deleted.get(PurePosixPath(uri).name, '')}" for uri in uris)

    def read(self, columns: list[str], condition: str | None) -> "pa.Table":
        """Return columns of rows."""
        import pyarrow as pa

        rows = pa.table(self._table.scan(columns, condition))
        return rows.cast(pa.schema([self.schema.field(column) for column in columns]))

    def _deletions(self) -> dict[str, str]:
        """Return name of a file -> hash of which rows are left, of files with deleted rows."""
        import pyarrow as pa

        if "deletionVectors" not in (self._table.protocol().reader_features or []):
            return {}
        vectors = pa.table(self._table.deletion_vectors()).to_pylist()
        return {PurePosixPath(row["filepath"]).name: storage.fingerprint(row["selection_vector"]) for row in vectors}


class IcebergSnapshot:
    """The current snapshot of an Apache Iceberg table."""

    def __init__(self, data: str, name: str) -> None:
        with require_extra("source.iceberg", "lakehouse"):
            from pyiceberg.catalog import load_catalog
            from pyiceberg.table import StaticTable
        uri = storage.join(data, name)
        with explain_faults(f"{uri} (source.iceberg)"):
            self._table: Table = (
                load_catalog(data.removeprefix(CATALOG)).load_table(name)
                if data.startswith(CATALOG)
                else StaticTable.from_metadata(uri, STORES)
            )
            snapshot = self._table.current_snapshot()
        if snapshot is None:
            raise UserError(f"{uri} has no snapshot: nothing was written to it yet; give another table or --data")
        self.version = snapshot.snapshot_id
        self.schema = self._table.schema().as_arrow()
        self.name = f"{uri}, snapshot {self.version}"

    def files(self, condition: str | None) -> list[str]:
        """Return the URIs of files, each with those of the files that delete some of its rows."""
        tasks = self._table.scan(condition or "true").plan_files()
        return sorted(" ".join([task.file.file_path, *_deletions(task)]) for task in tasks)

    def read(self, columns: list[str], condition: str | None) -> "pa.Table":
        """Return columns of rows."""
        return self._table.scan(condition or "true", tuple(columns)).to_arrow().select(columns)


def _deletions(task: Any) -> list[str]:
    return sorted(file.file_path for file in task.delete_files)


@contextmanager
def explain_faults(name: str) -> Iterator[None]:
    """Say of which table a fault is.

    Raises:
        UserError: for what the user has to fix.
        UnavailableError: when a file is gone, or the store does not answer.
    """
    try:
        yield
    except UserError as error:
        raise UserError(f"{name} {error}") from None
    except Exception as error:
        reason = " ".join(str(error).splitlines()[0].split())[:300] if str(error) else type(error).__name__
        if "metadata" in reason and isinstance(error, FileNotFoundError):
            raise UserError(
                f"{name}: no version-hint.text says which metadata is the newest; give the table's catalog: "
                f"--data {CATALOG}<catalog> and source.iceberg: <namespace>.<table>"
            ) from None
        if isinstance(error, OSError) or re.search("Object .*not found", str(error)):
            raise UnavailableError(
                f"{name}: {reason}; if the table was cleaned up (vacuum, expired snapshots) while it was read, run the "
                "same command again"
            ) from None
        raise UserError(f"{name}: {reason}; check the path, the table and the credentials") from None


def _quote(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
