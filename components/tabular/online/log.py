"""A write-ahead log: a commit a line, each with its checksum, so that a torn one is recognized.

A record is durable once `commit` has returned. Threads that commit at the same time share one write and one sync. What
the disk refuses is written again by the next commit, from the last durable byte on: after a failed sync nobody knows
which part of it the disk has.

Lines are written over zeros, so `fdatasync` has no new length to make durable, and does not wait for the file system's
journal. A power loss may leave any of a commit's pages as zeros; it is then torn as a whole, and none follows it.
"""

import math
import os
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from components.common.errors import UnavailableError, UserError
from components.tabular.online.state import Entry, Label

CHECKSUM = 8  # hexadecimal digits
AHEAD = 2**20  # zeros that are written at a time, bytes
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has the latter only


class Log:
    """A log that is appended to; a torn commit at its end is cut off when it is opened.

    Attributes:
        path: the file.
        durable: bytes of it that are.
        problem: why the disk did not take the last records; None when it did.
        seconds: that the last write took; infinity before the first.
    """

    def __init__(self, path: Path) -> None:
        path.touch()
        self.path, self.durable = path, _sound(path)
        self._file = path.open("r+b", buffering=0)
        self._clear()
        self._pending: list[bytes] = []
        self._adding, self._writing = threading.Lock(), threading.Lock()
        self.problem: str | None = None
        self.seconds = math.inf

    def append(self, record: Entry | Label) -> None:
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
                    self._write(_line(texts))
            except OSError as error:
                with self._adding:
                    self._pending[:0] = texts
                self.problem = f"{self.path}: {error.strerror}; make room"
                raise UnavailableError(self.problem) from error
            self.problem = None

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        self._file.close()

    def _clear(self) -> None:
        """Cut off what is not durable, and the zeros."""
        self._file.truncate(self.durable)
        self._size = self.durable

    def _write(self, line: bytes) -> None:
        started = time.perf_counter()
        if self.problem:
            self._clear()
        end = self.durable + len(line)
        rest = memoryview(line if end <= self._size else line + bytes(AHEAD))
        self._file.seek(self.durable)
        while rest:
            rest = rest[self._file.write(rest) :]
        _sync(self._file.fileno())
        self._size, self.durable = max(self._size, self._file.tell()), end
        self.seconds = time.perf_counter() - started


def records(path: Path, start: int, stop: int) -> Iterator[tuple[Entry | Label, int]]:
    """Yield the records of a log and where the commit of each ends; a torn one ends it.

    Args:
        path: the log.
        start: where a commit begins.
        stop: where one ends.

    Raises:
        UserError: when a commit is damaged that others follow.
    """
    end = start
    with path.open("rb") as file:
        file.seek(start)
        while end < stop:
            line = file.readline()
            found = _records(line)
            if found is None:
                if any(map(_records, file)):
                    raise UserError(f"{path} is damaged at byte {end}; restore it, or remove it to lose what came in")
                return
            end += len(line)
            for record in found:
                yield record, end


def _sound(path: Path) -> int:
    """Return where the last whole commit of a log ends."""
    end = 0
    for _, end in records(path, 0, path.stat().st_size):  # noqa: B007 - the last one counts
        pass
    return end


def _line(texts: list[bytes]) -> bytes:
    text = b"[%b]" % b",".join(texts)
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _records(line: bytes) -> list[Entry | Label] | None:
    """Read a line; None when it is torn."""
    text = line[CHECKSUM + 1 : -1]
    if line[-1:] != b"\n" or line[:CHECKSUM] != b"%08x" % zlib.crc32(text):
        return None
    return [Label(*each) if len(each) == len(Label._fields) else Entry(*each) for each in msgspec.json.decode(text)]
