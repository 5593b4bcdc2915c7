"""Locks between processes: `flock` on a file, the only kind of lock in the project.

The operating system releases a lock with its last process, so no lock is ever stale, also between hosts on NFS or
Lustre (mounted with `-o flock`), where a process number would mean nothing.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

POLL_SECONDS = 0.05
_OWN: ContextVar[frozenset[str]] = ContextVar("locks", default=frozenset())


@contextmanager
def hold(
    path: str | Path, *, shared: bool = False, seconds: float | None = None, inheritable: bool = False
) -> Iterator[BinaryIO]:
    """Hold a lock on a file, which is created if it is missing.

    Args:
        path: the file; its folder exists.
        shared: allow others to hold it shared at the same time.
        seconds: longest wait for others; 0: none, None: no limit.
        inheritable: let child processes with inherited descriptors hold it too, until the last of them ends.

    Yields:
        the file, opened for reading and appending.

    Raises:
        BlockingIOError: when others hold it longer.
    """
    with _hold_file(Path(path), fcntl.LOCK_SH if shared else fcntl.LOCK_EX, seconds) as file:
        os.set_inheritable(file.fileno(), inheritable)
        yield file


@contextmanager
def hold_nested(path: str | Path, seconds: float) -> Iterator[None]:
    """Hold an exclusive lock, which the same thread may take again within the block.

    Raises:
        BlockingIOError: when others hold it longer than `seconds`.
    """
    name = os.path.realpath(path)
    if name in _OWN.get():
        yield
        return
    with hold(path, seconds=seconds) as file:
        file.truncate(0)
        file.write(secrets.token_hex(16).encode())
        file.flush()
        token = _OWN.set(_OWN.get() | {name})
        try:
            yield
        finally:
            _OWN.reset(token)


def read_holder(path: str | Path) -> str | None:
    """Return a text that is new each time `hold_nested` takes a lock; None while nobody holds it."""
    return Path(path).read_text() if is_held(path) else None


def is_held(path: str | Path) -> bool:
    """Return whether a process holds an exclusive lock on a file."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


@contextmanager
def _hold_file(path: Path, operation: int, seconds: float | None) -> Iterator[BinaryIO]:
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        with path.open("a+b") as file:
            _lock(file, operation, deadline)
            if _lies_at(path, file):
                yield file
                return


def _lock(file: BinaryIO, operation: int, deadline: float | None) -> None:
    if deadline is None:
        fcntl.flock(file, operation)
        return
    while True:
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(POLL_SECONDS)


def _lies_at(path: Path, file: BinaryIO) -> bool:
    """Return whether the path still leads to the file; the lock's last holder may have moved or removed it."""
    try:
        return os.path.samefile(path, file.fileno())
    except FileNotFoundError:
        return False
