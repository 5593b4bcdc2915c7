"""A write-ahead log: a commit a line, each with its checksum and that of the line before, the first one a header.

A record is durable once `commit` has returned. Threads that commit at the same time share one write and one sync. What
the disk refuses is written again by the next commit, from the last durable byte on: after a failed sync nobody knows
which part of it the disk has.

Lines are written over zeros, so `fdatasync` has no new length to make durable, and does not wait for the file system's
journal. A power loss may leave any of a commit's pages as zeros; it is then torn as a whole, and none follows it.

A second file, the mark, says how far the log was durable, so that a log that has lost its end is recognized. It is not
synced, so after a power loss it says less than the log holds, and never more.
"""

import math
import os
import shlex
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.tabular.online.layout import EventRecord
from nightshift.tabular.online.state import Label

FIRST = b"0" * 8  # instead of the checksum of the line before
TEXT = 18  # where a line's text begins, after its own checksum and that of the line before
AHEAD = 2**20  # zeros that are written at a time, bytes
MARK_SIZE = 512  # bytes, so that it lies in one sector
MODE = 0o600
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has the latter only

Record = EventRecord | Label


class Header(msgspec.Struct, frozen=True):
    """Which log it is.

    Attributes:
        number: one more than that of the log before.
        snapshot: identity of the snapshot over which it lies.
        last: the snapshot's last day.
    """

    number: int
    snapshot: str
    last: date


class LogMark(msgspec.Struct, frozen=True):
    """How much of a log is durable at least.

    Attributes:
        header: the log's.
        end: bytes.
        checksum: of the last commit in them.
        records: in them.
    """

    header: Header
    end: int
    checksum: str
    records: int


class Commit(NamedTuple):
    """A line of a log; `end` is the first byte after it, and the header holds no records."""

    end: int
    checksum: bytes
    text: bytes

    @property
    def records(self) -> list[Record]:
        """What it holds."""
        rows = [] if self.text.startswith(b"{") else msgspec.json.decode(self.text)
        return [EventRecord(*row) if isinstance(row[-1], list) else Label(*row) for row in rows]


def damage_error(path: Path, what: str) -> UserError:
    """Return the refusal of a file of a state that is not as it was left."""
    return UserError(
        f"{path} {what}, so events that were acknowledged may be missing; nothing has been changed. Restore the folder "
        f"from a backup, or see what can be read: nightshift repair {shlex.quote(str(path.parent))}"
    )


class Marker:
    """The file that says how far a state's log is durable; see `LogMark`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, MODE)

    def read(self) -> LogMark | None:
        """Return what it says; None when it is new, or damaged: then the log has to speak for itself."""
        checksum, _, text = os.pread(self._file, MARK_SIZE, 0).rstrip().partition(b" ")
        if not text or checksum != b"%08x" % zlib.crc32(text):
            return None
        return msgspec.json.decode(text, type=LogMark)

    def write(self, mark: LogMark) -> None:
        """Say it anew."""
        text = msgspec.json.encode(mark)
        with suppress(OSError):  # it says too little then, which a power loss does too
            os.pwrite(self._file, (b"%08x %b" % (zlib.crc32(text), text)).ljust(MARK_SIZE - 1) + b"\n", 0)

    def close(self) -> None:
        """Make it durable, and close it."""
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)


class WriteAheadLog:
    """A log that is appended to.

    Args:
        path: the file, which is made if it is missing.
        mark: how much of it is durable.

    Attributes:
        path: the file.
        mark: how much of it is durable.
        marker: is told when more is; None: nothing.
        problem: why the disk did not take the last records; None when it did.
        seconds: that the last write took; infinity before the first.
    """

    def __init__(self, path: Path, mark: LogMark) -> None:
        self.path, self.mark = path, mark
        self.marker: Marker | None = None
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, MODE), "r+b", buffering=0)
        self._clear()
        self._pending: list[bytes] = []
        self._adding, self._writing = threading.Lock(), threading.Lock()
        self.problem: str | None = None
        self.seconds = math.inf

    @classmethod
    def create(cls, path: Path, header: Header) -> "WriteAheadLog":
        """Begin a log; a file of this name is written over."""
        log = cls(path, LogMark(header, 0, FIRST.decode(), 0))
        log._write(msgspec.json.encode(header), 0)
        return log

    @property
    def durable(self) -> int:
        """Bytes of it that are durable."""
        return self.mark.end

    def append(self, record: Record) -> None:
        """Add a record, which is not durable yet."""
        text = msgspec.json.encode(record)
        with self._adding:
            self._pending.append(text)

    def commit(self) -> None:
        """Make every record durable that was added before.

        Raises:
            UnavailableError: when the disk does not take them; the next commit tries again.
        """
        with self._writing:
            with self._adding:
                texts, self._pending = self._pending, []
            try:
                if texts:
                    self._write(b"[%b]" % b",".join(texts), len(texts))
            except OSError as error:
                with self._adding:
                    self._pending[:0] = texts
                self.problem = f"{self.path}: {error.strerror}; make room"
                raise UnavailableError(self.problem) from error
            self.problem = None

    def rename(self, path: Path) -> None:
        """Give it another name."""
        os.replace(self.path, path)
        self.path = path

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        self._file.close()

    def _clear(self) -> None:
        """Cut off what is not durable, and the zeros."""
        self._file.truncate(self.durable)
        self._size = self.durable

    def _write(self, text: bytes, records: int) -> None:
        started = time.perf_counter()
        if self.problem:
            self._clear()
        before = self.mark
        body = b"%b %b" % (before.checksum.encode(), text)
        line = b"%08x %b\n" % (zlib.crc32(body), body)
        end = self.durable + len(line)
        rest = memoryview(line if end <= self._size else line + bytes(AHEAD))
        self._file.seek(self.durable)
        while rest:
            rest = rest[self._file.write(rest) :]
        _sync(self._file.fileno())
        self._size = max(self._size, self._file.tell())
        self.mark = LogMark(before.header, end, line[: len(FIRST)].decode(), before.records + records)
        if self.marker:
            self.marker.write(self.mark)
        self.seconds = time.perf_counter() - started


def commits(path: Path, after: LogMark | None = None, stop: float = math.inf) -> Iterator[Commit]:
    """Yield the commits of a log, its header first; a torn one ends it.

    Args:
        path: the log.
        after: those after this mark; None: all.
        stop: where a commit ends, the last one to yield.

    Raises:
        UserError: when it is damaged.
    """
    end, previous = (after.end, after.checksum.encode()) if after else (0, FIRST)
    with path.open("rb") as file:
        file.seek(end)
        while end < stop and (line := file.readline()):
            commit = _commit(line, end + len(line))
            if commit is None or line[len(FIRST) + 1 : TEXT - 1] != previous:
                if _is_torn(line) and not file.read().strip(b"\0"):
                    return
                raise damage_error(path, f"is damaged at byte {end:,}")
            yield commit
            end, previous = commit.end, commit.checksum


def readable(path: Path) -> Iterator[Commit]:
    """Yield the lines of a damaged log that are as they were written, its header among them, if it is."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            end += len(line)
            if commit := _commit(line, end):
                yield commit


def _commit(line: bytes, end: int) -> Commit | None:
    """Read a line; None when it is torn or damaged."""
    checksum, body = line[: len(FIRST)], line[len(FIRST) + 1 : -1]
    if line[-1:] != b"\n" or checksum != b"%08x" % zlib.crc32(body):
        return None
    return Commit(end, checksum, line[TEXT:-1])


def _is_torn(line: bytes) -> bool:
    """Return whether a line that is wrong was never whole: it has no end, or what a page held before, zeros."""
    has_end = line[-1:] == b"\n" or _commit(line.rstrip(b"\0")[:-1] + b"\n", 0) is not None
    return not has_end or (line[-1:] == b"\n" and b"\0\0" in line)
