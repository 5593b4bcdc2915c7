"""The default store: one process, with the state in its memory and a write-ahead log on its disk.

A folder holds the snapshot, `<number>.log` with what came in over it, and `mark`, which says how much of the log was
acknowledged; see `log.py`. The log with the highest number counts. A swap writes what the new snapshot does not cover
into a draft, which then becomes the next log; whenever the process ends, one or the other is whole. A file that is not
as it was left is never overwritten nor removed: the folder is refused until a person has repaired it (`repair.py`).
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import date
from itertools import filterfalse
from pathlib import Path

import msgspec

from nightshift.contracts.online import SUFFIX
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.storage import locks, stores
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.limits import NOW, Clock
from nightshift.tabular.online.log import MODE, Header, LogMark, Marker, Record, WriteAheadLog, commits, damage_error
from nightshift.tabular.online.refusals import earlier
from nightshift.tabular.online.state import Label, OnlineState
from nightshift.tabular.online.store import in_order

COMMITTED = 10_000  # records that a swap writes at a time: a commit is read as a whole
QUICK_SECONDS = 0.001  # longest commit of a quick disk
LOCK_SECONDS = 5  # one that was killed may hold it for a moment longer


def last(folder: Path) -> date | None:
    """Return the last day of the snapshot over which a folder's state lies, None where there is none yet.

    Raises:
        UserError: when the log is damaged where it says so.
    """
    path = newest(folder)
    return header(path).last if path else None


def newest(folder: Path) -> Path | None:
    """Return the log that counts, None where there is none yet."""
    logs = [path for path in folder.glob("*.log") if path.stem.isdecimal()]
    return max(logs, key=lambda path: int(path.stem), default=None)


def header(path: Path) -> Header:
    """Return what the first line of a log says.

    Raises:
        UserError: when it is damaged.
    """
    first = next(commits(path), None)
    if first is None:
        raise damage_error(path, "is damaged at byte 0")
    header_line = msgspec.json.decode(first.text, type=Header)
    if header_line.number != int(path.stem):
        raise damage_error(path, f"is log {header_line.number} under another name")
    return header_line


def flush(folder: Path) -> None:
    """Make the names in a folder durable."""
    file = os.open(folder, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


@contextmanager
def alone(folder: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Have a state's folder alone, which is made if it is missing.

    Args:
        folder: of the state.
        seconds: how long to wait for a process that has it.

    Raises:
        UserError: when another process has it for longer than that.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "lock").touch(MODE)
    with ExitStack() as stack:
        try:
            stack.enter_context(locks.hold(folder / "lock", seconds=seconds))
        except BlockingIOError:
            raise UserError(f"{folder} is used by another process; stop it, or share a Redis between both") from None
        yield


class Embedded:
    """See `store.Store`.

    Args:
        folder: where log and lock lie.
        base: the snapshot to lie over; if the folder's state lies over another one, it is swapped.
        seconds: how long to wait for a process that has the folder.
        clock: says what time it is.

    Raises:
        UserError: when another process has the folder, something in it is damaged, or the snapshot is an earlier one.
    """

    def __init__(self, folder: Path, base: Base, seconds: float = LOCK_SECONDS, clock: Clock = NOW) -> None:
        self._folder, self._clock = folder, clock
        self._taking, self._swapping = threading.Lock(), threading.Lock()
        with ExitStack() as stack:
            stack.enter_context(alone(folder, seconds))
            try:
                self._marker = stack.enter_context(closing(Marker(folder / "mark")))
                self._open(base)
            except OSError as error:
                raise stores.explain(error, str(folder)) from error
            self._stack = stack.pop_all()

    @property
    def base(self) -> Base:
        """The snapshot that it lies over."""
        return self._state.base

    @property
    def problem(self) -> str | None:
        """Why the disk does not take what came in; None when it does."""
        return self._log.problem

    def probe(self) -> None:
        """Look whether the disk takes what it has refused; see `store.Store`."""
        with suppress(UnavailableError):
            self._recover()

    @property
    def is_quick(self) -> bool:
        """Whether the disk is; while the snapshot is swapped, it may have to be waited for."""
        return self._log.seconds < QUICK_SECONDS and not self._swapping.locked()

    def take(self, events: Sequence[Event]) -> list[list[float]]:
        """Take a request's events in; see `store.Store`."""
        self._recover()
        with self._taking:
            return self._take(events)

    def take_all(self, requests: Sequence[Sequence[Event]]) -> list[list[list[float]] | Exception]:
        """Take several requests in; see `store.Store`."""
        self._recover()
        answers: list[list[list[float]] | Exception] = []
        with self._taking:
            for events in requests:
                try:
                    answers.append(self._take(events))
                except UserError as error:
                    answers.append(error)
        return answers

    def label(self, label: Label) -> bool:
        """Take a label in; return whether its event is known."""
        self._recover()
        with self._taking:
            known = self._state.label(label)
            if known:
                self._log.append(label)
        return known

    def commit(self) -> None:
        """Make durable what was taken in before."""
        self._log.commit()

    def swap(self, base: Base) -> None:
        """Change to another snapshot; see `store.Store`. Requests wait for the last records only."""
        with self._swapping:
            if base.identity != self.base.identity:
                _check(base, self.base.snapshot.last)
                self._swap(base)

    def close(self) -> None:
        """Commit, and let go of the folder."""
        with self._stack, closing(self._log):
            self._log.commit()

    def _take(self, events: Sequence[Event]) -> list[list[float]]:
        if len(events) > 1:
            self._state.check(events)
        rows: list[list[float]] = [[]] * len(events)
        for index in in_order(events):
            rows[index], entry = self._state.take(events[index])
            if entry:
                self._log.append(entry)
        return rows

    def _recover(self) -> None:
        """Take nothing in while the disk is full: it would be kept in memory without end."""
        if self._log.problem:
            self._log.commit()

    def _open(self, base: Base) -> None:
        path, mark = newest(self._folder), self._marker.read()
        if mark and (path is None or int(path.stem) < mark.header.number):
            raise damage_error(self._folder / f"{mark.header.number}.log", "is missing")
        if path is None:
            self._lie(self._state_over(base), self._begin(1, base))
        else:
            self._follow(path, mark, base)
        self._clean()

    def _follow(self, path: Path, mark: LogMark | None, base: Base) -> None:
        """Go on with a log that was left."""
        header_line = header(path)
        state, is_same = self._state_over(base), header_line.snapshot == base.identity
        if not is_same:
            _check(base, header_line.last)
        log = WriteAheadLog(path, _replay(path, mark, state.restore if is_same else lambda _: None))
        self._lie(state, log)
        if not is_same:
            self._swap(base)

    def _state_over(self, base: Base) -> OnlineState:
        return OnlineState(base, self._clock)

    def _begin(self, number: int, base: Base) -> WriteAheadLog:
        """Begin a log under a name that does not count."""
        path = self._folder / f"{number}.draft"
        path.unlink(missing_ok=True)  # a leftover of an interrupted swap
        return WriteAheadLog.create(path, Header(number, base.identity, base.snapshot.last))

    def _lie(self, state: OnlineState, log: WriteAheadLog) -> None:
        """Have a log and its state count from now on."""
        log.rename(self._folder / f"{log.mark.header.number}.log")
        self._state, self._log = state, log
        flush(self._folder)  # its name, before the one of the log before goes
        self._marker.write(log.mark)
        log.marker = self._marker

    def _swap(self, base: Base) -> None:
        before = self._log
        state, log = self._state_over(base), self._begin(before.mark.header.number + 1, base)
        copied = _carry(before, None, state, log)
        with self._taking:
            before.commit()
            _carry(before, copied, state, log)
            log.commit()
            self._lie(state, log)
        before.close()
        self._clean()

    def _clean(self) -> None:
        """Remove what no longer counts."""
        kept = {self._log.path.name, f"{self.base.snapshot.sha256}{SUFFIX}"}
        for pattern in ("*.log", "*.draft", f"*{SUFFIX}"):
            for path in self._folder.glob(pattern):
                if path.name not in kept:
                    path.unlink()


def _check(base: Base, present: date) -> None:
    if base.snapshot.last < present:
        raise earlier(base.snapshot.last, present)


def _replay(path: Path, mark: LogMark | None, restore: Callable[[Record], None]) -> LogMark:
    """Read a log that was left; return how far it is whole.

    Args:
        path: the log.
        mark: how far it was durable at least, if that is known.
        restore: takes each record in.

    Raises:
        UserError: when it is damaged, or lacks what was durable.
    """
    whole = LogMark(header(path), 0, "", 0)
    is_there = mark is None or mark.header.number < whole.header.number
    for commit in commits(path):
        for record in (records := commit.records):
            restore(record)
        whole = LogMark(whole.header, commit.end, commit.checksum.decode(), whole.records + len(records))
        is_there = is_there or whole == mark
    if mark and not is_there:
        raise damage_error(path, f"has {whole.records:,} records, and {mark.records:,} were written")
    return whole


def _carry(log: WriteAheadLog, after: LogMark | None, state: OnlineState, target: WriteAheadLog) -> LogMark:
    """Copy what a new snapshot does not cover from a log's durable records.

    Args:
        log: the log.
        after: where an earlier call has ended; None: from the start.
        state: over the new snapshot.
        target: the new log.

    Returns:
        where it has ended.
    """
    durable = log.mark
    kept = (record for commit in commits(log.path, after, durable.end) for record in commit.records)
    for number, record in enumerate(filterfalse(state.covers, kept), 1):
        state.restore(record)
        target.append(record)
        if number % COMMITTED == 0:
            target.commit()
    return durable
