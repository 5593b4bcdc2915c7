"""Processes that tests start, and waiting for what they do: for the thing itself, never for a time."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

Answer = TypeVar("Answer")

SECONDS = 300.0  # far more than anything takes on a loaded machine; only a failure waits that long


def wait_until(ask: Callable[[], Answer], what: str, seconds: float = SECONDS, pause: float = 0.02) -> Answer:
    """Return the first true answer, asking after each pause; a refused connection counts as a false one.

    Raises:
        AssertionError: when there is none in time; it names what was awaited.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if answer := ask():
                return answer
        except OSError:
            pass
        time.sleep(pause)
    raise AssertionError(f"not within {seconds:.0f} s: {what}")


def content(file: Path) -> str:
    """Wait until somebody has written to a file, and return the text."""
    return wait_until(lambda: file.exists() and file.read_text(), f"{file} is written") or ""


@contextmanager
def started(command: Sequence[str], **options: Any) -> "Iterator[subprocess.Popen[Any]]":
    """Start a process; it is killed at the end of the block if it still runs."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def read_memory(pid: int) -> int:
    """The resident bytes of a process."""
    return 1024 * int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


def engine(*words: str) -> list[str]:
    """The command line of `nightshift`."""
    return [sys.executable, "-m", "pipelines.cli", *words]
