"""Locks between processes: `flock` on a file, the only kind of lock in the project.

The operating system ends a lock with the last process that holds it, so none is ever stale. That also holds for
another host on NFS or Lustre (mounted with `-o flock`), where a process number would mean nothing.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

POLL_SECONDS = 0.05
_OWN: ContextVar[frozenset[str]] = ContextVar("locks", default=frozenset())


@contextmanager
def held(
    path: str | Path, *, shared: bool = False, seconds: float | None = None, inheritable: bool = False
) -> Iterator[BinaryIO]:
    """Hold a lock on a file, which is made if it is missing.

    Args:
        path: the file; its folder exists.
        shared: others may hold it shared at the same time.
        seconds: how long to wait for others at most; 0 not at all, None as long as it takes.
        inheritable: child processes that keep their descriptors hold it too, until the last of them ends.

    Yields:
        the file, opened to read and to append.

    Raises:
        BlockingIOError: when others hold it for longer than that.
    """
    with _locked(Path(path), fcntl.LOCK_SH if shared else fcntl.LOCK_EX, seconds) as file:
        os.set_inheritable(file.fileno(), inheritable)
        yield file


@contextmanager
def nested(path: str | Path, seconds: float) -> Iterator[None]:
    """Hold a lock alone; within the block the same thread may ask for it again, and has it.

    Raises:
        BlockingIOError: when others hold it for longer than these seconds.
    """
    name = os.path.realpath(path)
    if name in _OWN.get():
        yield
        return
    with held(path, seconds=seconds):
        token = _OWN.set(_OWN.get() | {name})
        try:
            yield
        finally:
            _OWN.reset(token)


def is_held(path: str | Path) -> bool:
    """Return whether some process holds a lock on a file alone."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


@contextmanager
def _locked(path: Path, how: int, seconds: float | None) -> Iterator[BinaryIO]:
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        with path.open("a+b") as file:
            _lock(file, how, deadline)
            if _lies_at(path, file):
                yield file
                return


def _lock(file: BinaryIO, how: int, deadline: float | None) -> None:
    if deadline is None:
        fcntl.flock(file, how)
        return
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(POLL_SECONDS)


def _lies_at(path: Path, file: BinaryIO) -> bool:
    """Return whether a file is still the one at a path; whoever held the lock before may have moved or removed it."""
    try:
        return os.path.samefile(path, file.fileno())
    except FileNotFoundError:
        return False
