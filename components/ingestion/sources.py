"""Where a day's rows come from: the simulator, a folder with files by day, or one table with all days."""

import errno
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, cached_property, partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from components.ingestion import formats
from components.ingestion.digests import Digests
from nightshift import storage, tasks
from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.config.source import Simulator
from nightshift.errors import UnavailableError, UserError
from nightshift.splits import Days, lookback
from nightshift.storage import clouds

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

SIMULATOR = "simulator"
# part of a simulated day's identity: raise it when simulator.py makes other rows from the same config
SIMULATOR_VERSION = 1
STORED = re.compile(f"(?:{'|'.join(clouds.SCHEMES)})://[^:]+")
# of a name that no file can have, since it holds a NUL character, Python says ValueError
ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError)
NO_FILES = storage.fingerprint([])  # identifies the rows of a day that needs no file and has none
LONGEST = 1024  # characters of a name: no object store has longer ones
READS = 16  # files at once, most of whose time is waiting


@dataclass(frozen=True)
class RawRows:
    """A day's rows, not parsed yet.

    Attributes:
        sha256: identity of what the rows are made from.
        load: parses them into a frame under the user's column names; raises UserError on a bad file.
    """

    sha256: str
    load: "Callable[[], pd.DataFrame]"


class EventSource(Protocol):
    """What every kind of source can say."""

    alike: ClassVar[bool]  # whether the rows of all days have the same dtypes, so that they can be read together

    def name(self, day: date) -> str:
        """Return what to call the day's rows in a message."""

    def absence(self, day: date) -> str:
        """Return that there is nothing for a day, for a message."""

    def has(self, day: date) -> bool:
        """Return whether there is anything for a day."""

    def read(self, day: date) -> RawRows:
        """Return a day's rows."""


def connect(data: str, config: Config, labels_due: date, digests: Digests | None = None) -> EventSource:
    """Return the source that `--data` and the config describe.

    Args:
        data: `simulator`, or the URI of a folder.
        config: the use case.
        labels_due: last day whose labels the simulator knows.
        digests: of files by day, as far as they are known; those that are read are added.

    Raises:
        UserError: when files are of another format, or the simulator does not make the config's columns.
    """
    if data == SIMULATOR:
        _require_simulated(config)
        return Simulated(config.simulator, labels_due, config.task.kind)
    formats.require_known(config.source)
    known = {} if digests is None else digests
    source: EventSource = FolderSource(data, config, known) if config.source.files else OneTable(data, config)
    for column in config.columns.holding(Holds.FILE).values():
        source = FileContents(source, data, column)
    return source


def _require_simulated(config: Config) -> None:
    columns, simulated = config.columns, tasks.find(config.task.kind).simulator.COLUMNS
    for name in columns.names:
        if name not in simulated:
            raise UserError(
                f"--data is {SIMULATOR!r}, which makes {', '.join(simulated)}, but config {config.name!r} names column "
                f"{name!r}; give --data with the folder of your files, or --config fraud"
            )


def require(source: EventSource, config: Config, days: Days) -> None:
    """Check that a source has every day of a run, the last of which is the logical date.

    Raises:
        UserError: naming the missing days, and what to do.
    """
    present = [day for day in days if source.has(day)]
    missing = [day for day in days if day not in set(present)]
    if not missing:
        return
    if days.last in missing:
        newest = f"the newest day before it is {present[-1]}" if present else f"nor is there any day of {days}"
        raise UserError(
            f"{source.absence(days.last)}, {newest}; bring it, give another --date "
            "(days are UTC), or set source.empty_days in the config if such days are right"
        )
    if missing[-1] < present[0]:
        raise UserError(_late_begin(source, config, days, present[0]))
    raise UserError(
        f"{len(missing)} of the {len(list(days))} days (UTC) that --date {days.last} needs are missing: "
        f"{spans(missing)}; {source.absence(missing[0])}; bring them, or give a --date whose days are complete, "
        "or set source.empty_days in the config if such days are right"
    )


def _late_begin(source: EventSource, config: Config, days: Days, first: date) -> str:
    """Return what to do about data that begins on a day after the first that is needed."""
    needed = f"{len(list(days))} days: {' + '.join(f'{count} ({key})' for count, key in lookback(config))}"
    earliest, last = first + (days.last - days.first), days.last
    while last < earliest and source.has(last + timedelta(days=1)):
        last += timedelta(days=1)
    if last == earliest:
        return (
            f"the data begins on {first}, and --date {days.last} looks back to {days.first} (UTC), over {needed}; "
            f"the earliest --date is {earliest}"
        )
    return (
        f"the data from {first} to {last} is {(last - first).days + 1} days (UTC), and any --date needs {needed}; "
        "bring more days, or lower one of these in the config"
    )


def spans(days: list[date]) -> str:
    """Return ascending days as text, neighbors joined: `2018-06-04, 2018-06-07 .. 2018-06-09`."""
    runs: list[list[date]] = []
    for day in days:
        if runs and day - runs[-1][-1] == timedelta(days=1):
            runs[-1].append(day)
        else:
            runs.append([day])
    texts = [f"{run[0]} .. {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return ", ".join(texts[:10]) + (f" and {len(texts) - 10} more" if len(texts) > 10 else "")


@dataclass(frozen=True)
class Simulated:
    """The embedded data, which has every day."""

    alike: ClassVar = True
    config: Simulator
    labels_due: date
    kind: str

    def name(self, day: date) -> str:
        """Return what to call the day's rows in a message."""
        return f"the simulator's {day}"

    def absence(self, day: date) -> str:
        """Return that there is nothing for a day, for a message."""
        return f"{self.name(day)} does not exist"

    def has(self, day: date) -> bool:  # noqa: ARG002  # it has every day
        """Return whether there is anything for a day."""
        return True

    def read(self, day: date) -> RawRows:
        """Return a day's rows; they are made only when they are loaded."""
        arrived = self.config.labels_arrived(day, self.labels_due)
        made_from = [SIMULATOR_VERSION, self.kind, self.config.model_dump(), day, arrived]
        return RawRows(storage.fingerprint(made_from), partial(self._make, day))

    def _make(self, day: date) -> "pd.DataFrame":
        return tasks.find(self.kind).simulator.day(self.config, day, self.labels_due)


class FolderSource:
    """A day's files, named by a template with {date}; it may name folders too, and several files by a *."""

    alike: ClassVar = False

    def __init__(self, root: str, config: Config, digests: Digests) -> None:
        self._root = root
        self._template = config.source.pattern
        self._source = config.source
        self._columns = config.columns
        self._digests = digests
        self._versions = cache(storage.versions)

    def name(self, day: date) -> str:
        """Return what the day's files are called."""
        return storage.join(self._root, self._template.replace("{date}", str(day)))

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
        load = partial(self._load, day, hashes, contents)
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

    def _load(self, day: date, hashes: Mapping[str, str], contents: Mapping[str, bytes]) -> "pd.DataFrame":
        import pandas as pd

        from nightshift.tasks import columns

        files = {
            uri: contents[uri] if uri in contents else _read_unchanged(uri, digest) for uri, digest in hashes.items()
        }
        frames = [self._parse(uri, data) for uri, data in files.items()]
        if len(frames) > 1:  # joined, a column that one lacks would be there
            for frame in frames:
                columns.require(frame, self._columns, self._source.may_be_empty(day))
        if not frames:
            return pd.DataFrame(columns=self._columns.names, dtype=object)
        return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)

    def _parse(self, uri: str, data: bytes) -> "pd.DataFrame":
        try:
            return formats.parse(uri, data, self._columns, self._source.format)
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

    alike: ClassVar = True

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
        return RawRows(self._table.sha256, partial(self._table.rows, day))

    @cached_property
    def _table(self) -> "ParsedTable":
        data = self._read(self._uri)
        try:
            return self._parse(data)
        except UserError as error:
            raise UserError(f"{self._uri} {error}") from None

    def _parse(self, data: bytes) -> "ParsedTable":
        from nightshift.tasks import columns, spelling

        frame = formats.parse(self._uri, data, self._config.columns, self._config.source.format)
        columns.require(frame, self._config.columns)
        written = frame[self._config.columns.event_time]
        times = spelling.times(written, self._config.source)
        columns.require_some(written, times, columns.TIME)
        # a row whose time cannot be read counts to the day of the row before it, so that it is counted once
        days = times.dt.floor("D").ffill().bfill()
        positions: dict[Any, Any] = frame.groupby(days.to_numpy()).indices
        return ParsedTable(storage.sha256(data), frame, {day.date(): rows for day, rows in positions.items()})


@dataclass(frozen=True)
class FileContents:
    """A source whose rows name image files. A file is taken to stay as it is: only its name is part of a day's hash.

    Attributes:
        table: the rows.
        root: URI of the folder below which the files lie; others are named by an s3:// or gs:// URI.
        column: the user's column of bytes, paths and URIs.
    """

    alike: ClassVar = False
    table: EventSource
    root: str
    column: str

    def name(self, day: date) -> str:
        """Return what to call the day's rows in a message."""
        return self.table.name(day)

    def absence(self, day: date) -> str:
        """Return that there is nothing for a day, for a message."""
        return self.table.absence(day)

    def has(self, day: date) -> bool:
        """Return whether there is anything for a day."""
        return self.table.has(day)

    def read(self, day: date) -> RawRows:
        """Return a day's rows; the files are read when they are loaded."""
        raw = self.table.read(day)
        return RawRows(raw.sha256, partial(self._load, raw))

    def _load(self, raw: RawRows) -> "pd.DataFrame":
        frame = raw.load()
        if self.column in frame:
            with ThreadPoolExecutor(READS) as pool:
                contents = list(pool.map(self._content, frame[self.column]))
            frame = frame.assign(**{self.column: _objects(contents)})
        return frame

    def _content(self, value: Any) -> Any:
        """Return a file's bytes, or its name where there is no file.

        Raises:
            UserError: when it may not be read, or the store refuses.
            UnavailableError: when the store fails in every try.
        """
        if not isinstance(value, str) or not 0 < len(value) <= LONGEST:
            return value
        path = PurePosixPath(value)
        # by :// and :: fsspec would find other places
        inside = not path.is_absolute() and ".." not in path.parts and "://" not in value and "::" not in value
        try:
            if inside or STORED.fullmatch(value):
                return storage.read_bytes(storage.join(self.root, value) if inside else value)
        except UserError as error:
            if not _is_absence(error.__cause__):  # those the rule missing_file names
                raise
        return value


def _is_absence(cause: BaseException | None) -> bool:
    return isinstance(cause, ABSENT) or (isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG)


def _objects(values: list[Any]) -> "npt.NDArray[np.object_]":
    import numpy as np

    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


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

    def rows(self, day: date) -> "pd.DataFrame":
        """Return a day's rows."""
        return self.frame.iloc[self.positions.get(day, [])].reset_index(drop=True)
