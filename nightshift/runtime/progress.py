"""Whether a process that is waited for gets on: seconds alone say little on a machine that others use too."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Patience:
    """How long to wait for a process, in seconds.

    Attributes:
        still: without progress.
        most: in all.
    """

    still: float = 60.0
    most: float = 1800.0


class Progress:
    """The progress of a process while it is waited for."""

    def __init__(self, patience: Patience, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to wait."""
        self._patience, self._clock = patience, clock
        self._began = self._moved = clock()
        self._signs: object = None

    def stall_reason(self, *signs: object) -> str | None:
        """Return why it is no use to wait any longer, None where it is.

        Args:
            signs: what changes as long as the process gets on, such as the length of its log.
        """
        now = self._clock()
        if signs != self._signs:
            self._signs, self._moved = signs, now
        if now - self._began > self._patience.most:
            return f"within {self._patience.most:g} s"
        if now - self._moved > self._patience.still:
            return f"and made no progress for {self._patience.still:g} s"
        return None


def cpu_seconds(root: int) -> float | None:
    """Return the CPU time so far of a process and of all that it has started and that still run; None without /proc."""
    if not Path("/proc/self/stat").exists():
        return None
    ticks = 0
    for pid in family(root):
        with suppress(OSError):  # it has ended meanwhile
            ticks += sum(map(int, _status(pid)[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def family(root: int) -> list[int]:
    """Return a process and all that it has started, whatever session they are in."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parents[int(folder.name)] = int(_status(int(folder.name))[1])
    pids = [root]
    for pid in pids:  # grows while it is walked
        pids += [child for child, parent in parents.items() if parent == pid]
    return pids


def _status(pid: int) -> list[str]:
    """Return a process's status behind its name: state, parent ..."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
