"""A write-ahead log: a record a line, each with its checksum, so that a torn one is recognized.

A record is durable once `commit` has returned. Threads that commit at the same time share one write and one sync.
What the disk refuses is written again by the next commit, from the last durable byte on: after a failed sync nobody
knows which part of it the disk has.
"""

import os
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from components.common.errors import UnavailableError, UserError
from components.tabular.online.state import Entry, Label

CHECKSUM = 8  # hexadecimal digits


class Log:
    """A log that is appended to; a torn record at its end is cut off when it is opened.

    Attributes:
        path: the file.
        durable: bytes of it that are.
        problem: why the disk did not take the last records; None when it did.
    """

    def __init__(self, path: Path) -> None:
        path.touch()
        self.path, self.durable = path, _sound(path)
        self._file = path.open("ab", buffering=0)
        self._file.truncate(self.durable)
        self._pending: list[bytes] = []
        self._adding, self._writing = threading.Lock(), threading.Lock()
        self.problem: str | None = None

    def append(self, record: Entry | Label) -> None:
        """Add a record, which is not durable yet."""
        line = _line(record)
        with self._adding:
            self._pending.append(line)

    def commit(self) -> None:
        """Make every record durable that was added before.

        Raises:
            UnavailableError: when the disk does not take them; the next commit tries again.
        """
        with self._writing:
            with self._adding:
                lines, self._pending = self._pending, []
            try:
                if lines:
                    self._write(b"".join(lines))
            except OSError as error:
                with self._adding:
                    self._pending[:0] = lines
                self.problem = f"{self.path}: {error.strerror}; make room"
                raise UnavailableError(self.problem) from error
            self.problem = None

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        self._file.close()

    def _write(self, content: bytes) -> None:
        if self.problem:
            self._file.truncate(self.durable)
        rest = memoryview(content)
        while rest:
            rest = rest[self._file.write(rest) :]
        os.fdatasync(self._file.fileno())  # with the size, without the time of the change
        self.durable += len(content)


def records(path: Path, start: int, stop: int) -> Iterator[tuple[Entry | Label, int]]:
    """Yield the records of a log and where each ends; a torn one ends it.

    Args:
        path: the log.
        start: where a record begins.
        stop: where one ends.

    Raises:
        UserError: when a record is damaged that others follow.
    """
    end = start
    with path.open("rb") as file:
        file.seek(start)
        while end < stop:
            line = file.readline()
            record = _record(line)
            if record is None:
                if any(map(_record, file)):
                    raise UserError(f"{path} is damaged at byte {end}; restore it, or remove it to lose what came in")
                return
            end += len(line)
            yield record, end


def _sound(path: Path) -> int:
    """Return where the last whole record of a log ends."""
    end = 0
    for _, end in records(path, 0, path.stat().st_size):  # noqa: B007 - the last one counts
        pass
    return end


def _line(record: Entry | Label) -> bytes:
    text = msgspec.json.encode(record)
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _record(line: bytes) -> Entry | Label | None:
    """Read a line; None when it is torn."""
    text = line[CHECKSUM + 1 : -1]
    if line[-1:] != b"\n" or line[:CHECKSUM] != b"%08x" % zlib.crc32(text):
        return None
    values = msgspec.json.decode(text)
    return Label(*values) if len(values) == len(Label._fields) else Entry(*values)
