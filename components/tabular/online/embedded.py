"""The default store: one process, with the state in its memory and a write-ahead log on its disk.

A folder holds the snapshot, `<number>.log` with what came in over it, and `current.json`, which says which of them
count. A swap writes what the new snapshot does not cover into a new log and then replaces `current.json`; whenever the
process ends, one or the other is whole.
"""

import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import date
from pathlib import Path

from components.common import locks
from components.common.contracts.artifact import Artifact
from components.common.contracts.online import SUFFIX
from components.common.errors import UserError
from components.tabular.online.base import Base
from components.tabular.online.event import Event
from components.tabular.online.log import Log, records
from components.tabular.online.refusals import earlier
from components.tabular.online.state import Label, State
from components.tabular.online.store import in_order

COMMITTED = 10_000  # records that a swap writes at a time: a commit is read as a whole
QUICK_SECONDS = 0.001  # of a commit
LOCK_SECONDS = 5  # one that was killed may hold it for a moment longer


class Current(Artifact):
    """Which snapshot and which log make up the state."""

    snapshot: str
    last: date
    log: int


def last(folder: Path) -> date | None:
    """Return the last day of the snapshot over which a folder's state lies, None where there is none yet."""
    pointer = folder / "current.json"
    return Current.read(str(pointer)).last if pointer.exists() else None


class Embedded:
    """See `store.Store`.

    Args:
        folder: where log and lock lie.
        base: the snapshot to lie over; if the folder's state lies over another one, it is swapped.
        seconds: how long to wait for a process that has the folder.

    Raises:
        UserError: when another process has the folder, the log is damaged, or the snapshot is an earlier one.
    """

    def __init__(self, folder: Path, base: Base, seconds: float = LOCK_SECONDS) -> None:
        self._folder, self._stack = folder, ExitStack()
        self._taking, self._swapping = threading.Lock(), threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._stack.enter_context(locks.held(folder / "lock", seconds=seconds))
        except BlockingIOError:
            raise UserError(f"{folder} is used by another process; stop it, or share a Redis between both") from None
        try:
            self._open(base)
        except BaseException:
            self._stack.close()
            raise

    @property
    def base(self) -> Base:
        """The snapshot that it lies over."""
        return self._state.base

    @property
    def problem(self) -> str | None:
        """Why the disk does not take what came in; None when it does."""
        return self._log.problem

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
        found: list[list[list[float]] | Exception] = []
        with self._taking:
            for events in requests:
                try:
                    found.append(self._take(events))
                except UserError as error:
                    found.append(error)
        return found

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
                self._check(base)
                self._swap(base)

    def close(self) -> None:
        """Commit, and let go of the folder."""
        with self._stack, closing(self._log):
            self._log.commit()

    def _take(self, events: Sequence[Event]) -> list[list[float]]:
        found: list[list[float]] = [[]] * len(events)
        for place in in_order(events):
            found[place], entry = self._state.take(events[place])
            if entry:
                self._log.append(entry)
        return found

    def _recover(self) -> None:
        """Take nothing in while the disk is full: it would be kept in memory without end."""
        if self._log.problem:
            self._log.commit()

    def _open(self, base: Base) -> None:
        pointer = self._folder / "current.json"
        current = Current.read(str(pointer)) if pointer.exists() else None
        if current is None or current.snapshot == base.identity:
            self._number = current.log if current else 1
            self._state, self._log = State(base), Log(self._path(self._number))
            for record, _ in records(self._log.path, 0, self._log.durable):
                self._state.restore(record)
            self._point(base)
        else:
            self._number, self._last = current.log, current.last
            self._check(base)
            self._log = Log(self._path(self._number))
            self._swap(base)
        self._clean()

    def _check(self, base: Base) -> None:
        if base.snapshot.last < self._last:
            raise earlier(base.snapshot.last, self._last)

    def _swap(self, base: Base) -> None:
        before, path = self._log, self._path(self._number + 1)
        path.unlink(missing_ok=True)  # of a swap that was cut short
        state, log = State(base), Log(path)
        end = _carry(before, 0, state, log)
        with self._taking:
            before.commit()
            _carry(before, end, state, log)
            log.commit()
            self._number += 1
            self._point(base)
            self._state, self._log = state, log
        before.close()
        self._clean()

    def _point(self, base: Base) -> None:
        self._last = base.snapshot.last
        current = Current(snapshot=base.identity, last=base.snapshot.last, log=self._number)
        current.write(str(self._folder / "current.json"))
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)  # the names of the new files too, before the old ones go
        os.close(folder)

    def _clean(self) -> None:
        """Remove what no longer counts."""
        kept = {self._log.path.name, f"{self.base.snapshot.sha256}{SUFFIX}"}
        for path in [*self._folder.glob("*.log"), *self._folder.glob(f"*{SUFFIX}")]:
            if path.name not in kept:
                path.unlink()

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.log"


def _carry(log: Log, start: int, state: State, target: Log) -> int:
    """Copy what a new snapshot does not cover from a log's durable records; return where those end."""
    end = start
    for number, (record, after) in enumerate(records(log.path, start, log.durable), 1):
        end = after
        if not state.covers(record):
            state.restore(record)
            target.append(record)
        if number % COMMITTED == 0:
            target.commit()
    return end
