"""Several processes that answer on one socket, each with a model of its own, and the memory that they share."""

import mmap
import os
import signal
import threading
import time
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.step import USER_ERROR, log

PAUSE_SECONDS = 0.2  # before a worker that has ended is started again
SLOTS = 8192  # numbers that a worker may count
ENDING = (signal.SIGTERM, signal.SIGINT)


class Board:
    """Numbers of all workers, which each of them reads and of which it changes its own; none is lost with a worker.

    Attributes:
        place: which worker this is, from 0 on.
        workers: how many there are.
    """

    def __init__(self, workers: int = 1) -> None:
        self.place, self.workers = 0, workers
        self._memory = mmap.mmap(-1, workers * SLOTS * 8)
        self._rows = np.frombuffer(self._memory, np.int64).reshape(workers, SLOTS)

    @property
    def counts(self) -> "memoryview[int]":
        """This worker's numbers as int64, of shape (SLOTS,); the first says what it serves."""
        return self._own().cast("q")

    @property
    def sums(self) -> "memoryview[float]":
        """The same memory as float64."""
        return self._own().cast("d")

    def total_counts(self) -> npt.NDArray[np.int64]:
        """Return the workers' counts added up, int64 of shape (SLOTS,)."""
        found: npt.NDArray[np.int64] = self._rows.sum(axis=0)
        return found

    def total_sums(self) -> npt.NDArray[np.float64]:
        """Return the workers' sums added up, float64 of shape (SLOTS,)."""
        found: npt.NDArray[np.float64] = self._rows.view(np.float64).sum(axis=0)
        return found

    def serve(self, what: object) -> None:
        """Tell the others what this worker serves; None: not what it should."""
        self.counts[0] = 0 if what is None else 1 + zlib.crc32(repr(what).encode())

    def behind(self) -> int:
        """Return how many workers serve something else than this one."""
        return int(np.count_nonzero(self._rows[:, 0] != self._rows[self.place, 0]))

    def _own(self) -> "memoryview[Any]":
        size = SLOTS * 8
        return memoryview(self._memory)[self.place * size : (self.place + 1) * size]


class Workers:
    """Processes forked from this one, each started again when it ends by itself."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._places: dict[int, int] = {}  # by process
        self._is_ending = False
        self._alive = os.pipe()  # nobody writes: its end tells the workers that this process has gone

    def start(self) -> None:
        """Return in each worker. This process stays here until it is asked to end, and ends with its workers.

        Raises:
            SystemExit: in this process. With 2 when a worker could not start for a reason that it has printed.
        """
        signal.set_wakeup_fd(-1)  # as a container's first process: the workers end first
        for each in ENDING:
            signal.signal(each, lambda *_: self._end())
        if any(self._is_worker(place) for place in range(self._board.workers)):
            return
        first = set(self._places)
        while self._places:
            pid, status = os.wait()
            place, code = self._places.pop(pid), os.waitstatus_to_exitcode(status)
            if pid in first and code == USER_ERROR:
                self._end()
                raise SystemExit(USER_ERROR)
            if self._is_restarted(pid, code, place):
                return
        raise SystemExit(0)

    def _is_restarted(self, pid: int, code: int, place: int) -> bool:
        if self._is_ending:
            return False
        log.error("worker %d has ended, code %d; the next one takes its place", pid, code)
        time.sleep(PAUSE_SECONDS)
        return self._is_worker(place)

    def _is_worker(self, place: int) -> bool:
        """Fork; return whether this is the new process."""
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until it is known whom to tell
        pid = -1 if self._is_ending else os.fork()
        if pid == 0:
            self._become(place)
        elif pid > 0:
            self._places[pid] = place
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        return pid == 0

    def _become(self, place: int) -> None:
        self._board.place = place
        self._board.serve(None)  # until it has loaded what its predecessor served
        for each in ENDING:
            signal.signal(each, signal.SIG_DFL)
        os.close(self._alive[1])
        threading.Thread(target=self._end_with_parent, daemon=True).start()

    def _end_with_parent(self) -> None:
        os.read(self._alive[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _end(self) -> None:
        self._is_ending = True
        for pid in self._places:
            os.kill(pid, signal.SIGTERM)
