"""Files as a source: a folder with files by day, or one table with all days."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, cached_property, partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from components.ingestion import formats
from components.ingestion.digests import Digests
from components.ingestion.sources.protocol import RawRows
from nightshift import storage
from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.runtime.errors import UnavailableError, UserError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

NO_FILES = storage.fingerprint([])  # identifies the rows of a day that needs no file and has none


class FolderSource:
    """A day's files, named by a template with {date}; it may name folders too, and several files by a *."""

    has_fixed_dtypes: ClassVar = False
    details: ClassVar[Mapping[str, Any]] = {}  # each day has a hash of its own

    def __init__(self, root: str, config: Config, digests: Digests) -> None:
        self._root = root
        self._template = config.source.pattern
        self._source = config.source
        self._columns = config.columns
        self._digests = digests
        self._versions = cache(storage.versions)

    def name(self, day: date) -> str:
        """Return what the day's files are called."""
        return storage.join(self._root, self._template.format(date=day))

    def absence(self, day: date) -> str:
        """Return that there is no file of a day, for a message."""
        return f"{self.name(day)} does not exist"

    def has(self, day: date) -> bool:
        """Return whether there is a file of the day, or none is needed; each folder is listed once.

        A week without any file is no row of closed days: the data has not begun, or does not come any more.
        """
        week = (day - timedelta(days=number) for number in range(7))
        return bool(self._files(day)) or (self._source.is_closed(day) and any(map(self._files, week)))

    def read(self, day: date) -> RawRows:
        """Return a day's rows, in order of the names of files; one whose digest is known is read when it is loaded."""
        contents = dict[str, bytes]()
        hashes = {uri: self._digest(uri, version, contents) for uri, version in self._files(day).items()}
        whole = list(hashes.values())
        load = partial(self._load, hashes, contents)
        return RawRows(whole[0] if len(whole) == 1 else storage.fingerprint(whole), load)

    def _files(self, day: date) -> dict[str, storage.Version | None]:
        folder, template = self.name(day).rsplit("/", 1)
        pattern = re.compile(".*".join(map(re.escape, template.split("*"))))
        entries = self._versions(folder).items()
        return {storage.join(folder, name): version for name, version in entries if pattern.fullmatch(name)}

    def _digest(self, uri: str, version: storage.Version | None, contents: dict[str, bytes]) -> str:
        """Return a file's hash; if it has to be read for that, its bytes are left in `contents`."""
        known, digest = self._digests.get(uri, (None, ""))
        if version is not None and version == known:
            return digest
        contents[uri] = storage.read_settled(uri)
        digest = storage.sha256(contents[uri])
        if version is not None:
            self._digests[uri] = version, digest
        return digest

    def _load(self, hashes: Mapping[str, str], contents: Mapping[str, bytes]) -> "pd.DataFrame":
        import pandas as pd

        from nightshift.tasks import columns

        if not hashes:
            return pd.DataFrame(columns=self._columns.names, dtype=object)
        files = {
            uri: contents[uri] if uri in contents else _read_unchanged(uri, digest) for uri, digest in hashes.items()
        }
        frames = [self._parse(uri, data) for uri, data in files.items()]
        parts = [frame for frame in frames if len(frame)]
        for part in parts:  # joined, a column that one lacks would be there
            columns.require(part, self._columns)
        return formats.join(parts or frames, self._columns.holding(Holds.AMOUNT, Holds.NUMBER).values())

    def _parse(self, uri: str, data: bytes) -> "pd.DataFrame":
        from nightshift.tasks.derived import derive

        try:
            frame = formats.parse(uri, data, self._columns, self._source.format)
            return derive(frame, self._source, uri.removeprefix(self._root).lstrip("/"))
        except UserError as error:
            which = f"({PurePosixPath(uri).name}) " if "*" in self._template else ""
            raise UserError(f"{which}{error}") from None


def _read_unchanged(uri: str, digest: str) -> bytes:
    """Read a file whose digest is known.

    Raises:
        UnavailableError: when it has changed since its folder was listed.
    """
    data = storage.read_bytes(uri)
    if storage.sha256(data) != digest:
        raise UnavailableError(f"{uri} changed while it was read; run the same command again")
    return data


class OneTable:
    """One file with all days. Days outside a run's window, the future included, are left alone.

    It is read once in each run, since it is another file whenever a day was added to it.
    """

    has_fixed_dtypes: ClassVar = True
    details: ClassVar[Mapping[str, Any]] = {}  # each day has a hash of its own

    def __init__(self, root: str, config: Config, read: Callable[[str], bytes] = storage.read_settled) -> None:
        self._uri = storage.join(root, config.source.pattern)
        self._config = config
        self._read = read

    def name(self, day: date) -> str:
        """Return the table, and the day in it."""
        return f"{self._uri}, {day}"

    def absence(self, day: date) -> str:
        """Return that the table has no rows of a day, for a message."""
        return f"{self._uri} has no row of {day}"

    def has(self, day: date) -> bool:
        """Return whether the table has rows of a day, or the day may lack them; none may before the first row."""
        positions = self._table.positions
        return day in positions or (self._config.source.may_be_empty(day) and min(positions) < day)

    def read(self, day: date) -> RawRows:
        """Return a day's rows; identified by the whole table, since any row may have changed."""
        return RawRows(self._table.sha256, partial(self._table.read_rows, day))

    @cached_property
    def _table(self) -> "ParsedTable":
        data = self._read(self._uri)
        try:
            return self._parse(data)
        except UserError as error:
            raise UserError(f"{self._uri} {error}") from None

    def _parse(self, data: bytes) -> "ParsedTable":
        from nightshift.tasks import columns, spelling
        from nightshift.tasks.derived import derive

        source = self._config.source
        frame = derive(formats.parse(self._uri, data, self._config.columns, source.format), source)
        columns.require(frame, self._config.columns)
        written = frame[self._config.columns.event_time]
        times = spelling.times(written, source)
        columns.require_some(written, times, columns.TIME)
        # a row whose time cannot be read counts to the day of the row before it, so that it is counted once
        days = times.dt.floor("D").ffill().bfill()
        positions: dict[Any, Any] = frame.groupby(days.to_numpy()).indices
        return ParsedTable(storage.sha256(data), frame, {day.date(): rows for day, rows in positions.items()})


@dataclass(frozen=True)
class ParsedTable:
    """A table with all days.

    Attributes:
        sha256: hash of its file.
        frame: every row.
        positions: day -> its rows' positions in the frame.
    """

    sha256: str
    frame: "pd.DataFrame"
    positions: "dict[date, npt.NDArray[np.intp]]"

    def read_rows(self, day: date) -> "pd.DataFrame":
        """Return a day's rows."""
        return self.frame.iloc[self.positions.get(day, [])].reset_index(drop=True)
