"""Server processes on one socket, each with its own model, and the memory that they share."""

import mmap
import os
import signal
import threading
import time
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.runtime.step import USER_ERROR, log

PAUSE_SECONDS = 0.2  # before a worker is restarted
SLOTS = 8192  # numbers of a worker
ENDING = (signal.SIGTERM, signal.SIGINT)


class SharedCounters:
    """Numbers of all workers; each worker changes its own and reads all. They outlive a worker.

    Attributes:
        worker: index of this worker, from 0.
        workers: number of workers.
    """

    def __init__(self, workers: int = 1) -> None:
        self.worker, self.workers = 0, workers
        self._memory = mmap.mmap(-1, workers * SLOTS * 8)
        self._rows = np.frombuffer(self._memory, np.int64).reshape(workers, SLOTS)

    @property
    def counts(self) -> "memoryview[int]":
        """This worker's numbers as int64, of shape (SLOTS,); the first identifies the served version."""
        return self._own_memory().cast("q")

    @property
    def sums(self) -> "memoryview[float]":
        """The same memory as float64."""
        return self._own_memory().cast("d")

    def total_counts(self) -> npt.NDArray[np.int64]:
        """Return the sum of the workers' counts, int64 of shape (SLOTS,)."""
        counts: npt.NDArray[np.int64] = self._rows.sum(axis=0)
        return counts

    def total_sums(self) -> npt.NDArray[np.float64]:
        """Return the sum of the workers' sums, float64 of shape (SLOTS,)."""
        sums: npt.NDArray[np.float64] = self._rows.view(np.float64).sum(axis=0)
        return sums

    def report(self, served: object) -> None:
        """Publish what this worker serves; None: it lags behind its pointer."""
        self.counts[0] = 0 if served is None else 1 + zlib.crc32(repr(served).encode())

    def count_lagging(self) -> int:
        """Return how many workers serve another version than this one."""
        return int(np.count_nonzero(self._rows[:, 0] != self._rows[self.worker, 0]))

    def _own_memory(self) -> "memoryview[Any]":
        size = SLOTS * 8
        return memoryview(self._memory)[self.worker * size : (self.worker + 1) * size]


class WorkerPool:
    """Processes forked from this one; one that ends by itself is restarted."""

    def __init__(self, counters: SharedCounters) -> None:
        self._counters = counters
        self._workers: dict[int, int] = {}  # process id -> index
        self._is_ending = False
        self._alive = os.pipe()  # never written: its end tells the workers that this process has ended

    def start(self) -> None:
        """Return in each worker. In this process, supervise them until a signal ends it with its workers.

        Raises:
            SystemExit: in this process; with code 2 when a worker could not start and has printed why.
        """
        signal.set_wakeup_fd(-1)  # as a container's first process: the workers end first
        for number in ENDING:
            signal.signal(number, lambda *_: self._end())
        if any(self._fork(worker) for worker in range(self._counters.workers)):
            return
        first = set(self._workers)
        while self._workers:
            pid, status = os.wait()
            if pid not in self._workers:  # as a container's first process this one is every orphan's parent
                continue
            worker, code = self._workers.pop(pid), os.waitstatus_to_exitcode(status)
            if pid in first and code == USER_ERROR:
                self._end()
                raise SystemExit(USER_ERROR)
            if self._restart(pid, code, worker):
                return
        raise SystemExit(0)

    def _restart(self, pid: int, code: int, worker: int) -> bool:
        """Fork a worker again, unless this process is ending; return whether this is the new process."""
        if self._is_ending:
            return False
        log.error("worker %d has ended, code %d; the next one takes its place", pid, code)
        time.sleep(PAUSE_SECONDS)
        return self._fork(worker)

    def _fork(self, worker: int) -> bool:
        """Fork a worker; return whether this is the new process."""
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until the new process is registered
        pid = -1 if self._is_ending else os.fork()
        if pid == 0:
            self._become(worker)
        elif pid > 0:
            self._workers[pid] = worker
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        return pid == 0

    def _become(self, worker: int) -> None:
        self._counters.worker = worker
        self._counters.report(None)  # until it has loaded its version
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        os.close(self._alive[1])
        threading.Thread(target=self._end_with_parent, daemon=True).start()

    def _end_with_parent(self) -> None:
        os.read(self._alive[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _end(self) -> None:
        self._is_ending = True
        for pid in self._workers:
            os.kill(pid, signal.SIGTERM)
