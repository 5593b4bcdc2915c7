"""Table artifacts: a small JSON manifest that names the partitions in the lake, never the table itself.

Kubeflow downloads every artifact a step takes in, so what passes between steps stays small. A partition's
file name holds the hash of all it was made from; one that exists is complete, and is not made again.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field, computed_field, dataclasses

from nightshift import storage
from nightshift.contracts.artifact import Artifact
from nightshift.runtime.errors import UserError
from nightshift.storage import once

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Partition:
    """One UTC day of a table.

    Attributes:
        date: the day, YYYY-MM-DD.
        uri: its Parquet file.
        rows: rows in it.
        sha256: hash of the file.
        details: what the step that made it wants to keep (row counts, say); JSON values.
    """

    date: str
    uri: str
    rows: int
    sha256: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table by day, in order of days.

    Attributes:
        name: `events`, `features` or `scores`.
        partitions: its days.
        details: what concerns the whole table; JSON values.
        shared: folder by which the processes of a machine read it once together; empty: this one reads it alone.
    """

    name: str
    partitions: list[Partition]
    details: dict[str, Any] = field(default_factory=dict)
    shared: str = ""

    @property
    def sha256(self) -> str:
        """Identity of the content: days and their hashes, wherever they lie."""
        return storage.fingerprint([[part.date, part.sha256] for part in self.partitions])

    @property
    def rows(self) -> int:
        """Rows of all days."""
        return sum(part.rows for part in self.partitions)

    def read(self, days: Iterable[date], columns: list[str] | None = None) -> "pd.DataFrame":
        """Read some days into one frame.

        Raises:
            UserError: when a day is not in the table.
        """
        parts = [self.partition(day) for day in days]
        key = [[part.uri for part in parts], columns]
        return once.read_frame(self.shared, key, lambda: self._read(parts, columns))

    def _read(self, parts: list[Partition], columns: list[str] | None) -> "pd.DataFrame":
        import pandas as pd

        # the types of ids come from days that have some
        filled = [part for part in parts if part.rows] or parts[:1]
        return pd.concat([storage.read_frame(part.uri, columns) for part in filled], ignore_index=True)

    def partition(self, day: date) -> Partition:
        """Return a day's partition.

        Raises:
            UserError: when the day is not in the table.
        """
        if part := self._by_date.get(str(day)):
            return part
        span = f"{self.partitions[0].date} .. {self.partitions[-1].date}" if self.partitions else "nothing"
        raise UserError(f"table {self.name!r} has no {day}, it holds {span}; run the step that makes it again")

    @cached_property
    def _by_date(self) -> dict[str, Partition]:
        return {part.date: part for part in self.partitions}


class Manifest(Artifact):
    """A table as its manifest has it."""

    name: str = Field(description="`events`, `features` or `scores`")
    partitions: list[Partition] = Field(description="a UTC day each, in order of days")
    details: dict[str, Any] = Field(description="what concerns the whole table")

    @computed_field(description="identity of the content: days and their hashes, wherever they lie")  # type: ignore[prop-decorator]
    @property
    def sha256(self) -> str:
        """See `Table.sha256`."""
        return Table(self.name, self.partitions).sha256

    @computed_field(description="rows of all days")  # type: ignore[prop-decorator]
    @property
    def rows(self) -> int:
        """See `Table.rows`."""
        return Table(self.name, self.partitions).rows


def write_table(uri: str, table: Table) -> None:
    """Write a table's manifest."""
    Manifest(name=table.name, partitions=table.partitions, details=table.details).write(uri)


def read_table(uri: str) -> Table:
    """Read a table's manifest."""
    manifest = Manifest.read(uri)
    return Table(manifest.name, manifest.partitions, manifest.details)


def partition_uri(lake: str, use_case: str, table: str, day: date, key: str) -> str:
    """Return where a day's Parquet file lies: `<lake>/<use case>/<table>/date=<day>/<key>.parquet`."""
    return storage.join(lake, use_case, table, f"date={day}", f"{key[:16]}.parquet")


def find_partition(uri: str) -> Partition | None:
    """Return the partition at a URI when it is complete, that is when its sidecar has been written."""
    sidecar = f"{uri}.json"
    # the lake may have been moved since
    return Partition(**storage.read_json(sidecar) | {"uri": uri}) if storage.exists(sidecar) else None


def write_partition(uri: str, day: date, frame: "pd.DataFrame", details: dict[str, Any]) -> Partition:
    """Write a day's Parquet file, then the sidecar that says it is complete."""
    return _complete(Partition(str(day), uri, len(frame), storage.write_frame(uri, frame), details))


def write_batches(uri: str, day: date, batches: "Iterable[pd.DataFrame]") -> Partition:
    """Write a day's Parquet file from one batch of rows or more, then the sidecar that says it is complete."""
    return _complete(Partition(str(day), uri, *storage.write_batches(uri, batches)))


def _complete(partition: Partition) -> Partition:
    storage.write_json(f"{partition.uri}.json", asdict(partition))
    return partition
