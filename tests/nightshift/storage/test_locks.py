"""Locks between processes, with real ones."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from nightshift.storage import locks

HOLD = (
    "import sys; from nightshift.storage import locks\n"
    "with locks.hold(sys.argv[1], shared=sys.argv[2] == 'shared'): print('held', flush=True); sys.stdin.read()"
)


@contextmanager
def held_elsewhere(path: Path, how: str = "alone") -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds a lock until the block ends."""
    command = [sys.executable, "-c", HOLD, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.communicate()


def is_free(lock: Callable[[], AbstractContextManager[object]]) -> bool:
    try:
        with lock():
            return True
    except BlockingIOError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theirs", "ours", "free"),
    [("alone", "alone", False), ("alone", "shared", False), ("shared", "alone", False), ("shared", "shared", True)],
)
def test_only_shared_locks_are_held_at_the_same_time(tmp_path: Path, theirs: str, ours: str, free: bool) -> None:
    with held_elsewhere(tmp_path / "lock", theirs):
        assert is_free(lambda: locks.hold(tmp_path / "lock", shared=ours == "shared", seconds=0)) == free
        assert locks.is_held(tmp_path / "lock") == (theirs == "alone")
    assert is_free(lambda: locks.hold(tmp_path / "lock", seconds=0))


@pytest.mark.slow
def test_a_lock_ends_with_a_killed_process(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path / "lock") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not locks.is_held(tmp_path / "lock")


@pytest.mark.slow
def test_a_lock_that_is_awaited_is_gotten_when_it_is_free(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path / "lock") as process:
        threading.Timer(0.2, process.kill).start()
        with locks.hold(tmp_path / "lock", seconds=60):
            assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_an_inheritable_lock_lasts_as_long_as_the_child_that_has_it(tmp_path: Path) -> None:
    for inheritable in (True, False):
        with locks.hold(tmp_path / "lock", inheritable=inheritable):
            child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
        assert locks.is_held(tmp_path / "lock") == inheritable
        child.communicate()
        assert not locks.is_held(tmp_path / "lock")


def test_a_file_that_was_replaced_while_it_was_awaited_is_locked_where_it_is_now(tmp_path: Path) -> None:
    path, entered = tmp_path / "draft", threading.Event()

    def write() -> None:
        with locks.hold(path) as file:
            file.write(b"second")
            entered.set()

    with locks.hold(path):
        waiting = threading.Thread(target=write)
        waiting.start()
        os.replace(path, tmp_path / "target")
    waiting.join()

    assert entered.is_set()
    assert (path.read_bytes(), (tmp_path / "target").read_bytes()) == (b"second", b"")


def test_a_nested_lock_is_held_until_the_outer_block_ends_and_excludes_other_threads(tmp_path: Path) -> None:
    seen: list[bool] = []

    def look() -> None:
        seen.append(is_free(lambda: locks.hold_nested(tmp_path / "lock", seconds=0)))

    with locks.hold_nested(tmp_path / "lock", seconds=0):
        with locks.hold_nested(tmp_path / "lock", seconds=0):
            pass
        other = threading.Thread(target=look)
        other.start()
        other.join()
    look()

    assert seen == [False, True]


def test_a_file_that_is_not_there_is_not_held(tmp_path: Path) -> None:
    assert not locks.is_held(tmp_path / "lock")
    assert not (tmp_path / "lock").exists()
