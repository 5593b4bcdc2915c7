"""Names the process that the others of a training wait for, and ends the training, so that it begins anew.

Each process says again and again which collective operations it has entered, as PyTorch's flight recorder has them, and
what its main thread does. A process that has not entered an operation in which others wait is the one that stopped.
"""

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Self

import torch.distributed as dist
from torch._C import _distributed_c10d

log = logging.getLogger("nightshift")
recorder: Any = _distributed_c10d

REMEMBERED = 200  # operations, by the flight recorder
INTERVAL = 5.0  # seconds between two reports at most
FAILED = 1  # exit status: to try again may help
MAIN = threading.main_thread().ident


@dataclass(frozen=True)
class ProcessReport:
    """What a process has said of itself.

    Attributes:
        rank: its number.
        host: where it runs.
        operations: group of processes -> number and name of the newest operation that it has entered there.
        location: of its main thread, `file:line function`.
        idle: seconds since it has entered an operation.
        is_saving: whether it saves a checkpoint, for which the others may have to wait.
    """

    rank: int
    host: str
    operations: Mapping[str, tuple[int, str]]
    location: str
    idle: float
    is_saving: bool = False


@dataclass(frozen=True)
class Hang:
    """An operation in which processes wait.

    Attributes:
        missing: the processes that have not entered it.
        waiting: the ranks of those that have.
        operation: its name.
        number: which of its group it is.
    """

    missing: Sequence[ProcessReport]
    waiting: Sequence[int]
    operation: str
    number: int

    def __str__(self) -> str:
        names = "; ".join(
            f"rank {report.rank} on {report.host}, in {report.location}, {report.idle:.0f} s without an operation"
            for report in self.missing
        )
        ranks = ", ".join(f"rank {rank}" for rank in self.waiting)
        return f"in {self.operation} number {self.number} wait {ranks}; not there: {names}"


def find_hang(reports: Sequence[ProcessReport]) -> Hang | None:
    """Return who is waited for, None where nobody is behind in any group.

    A process that is behind in one group and waits in another is itself held up, and not named while there is another.
    """
    hangs = [hang for group in _groups(reports) if (hang := _find_hang(group, reports))]
    waiting = {rank for hang in hangs for rank in hang.waiting}
    return min(hangs, key=lambda hang: sum(report.rank in waiting for report in hang.missing), default=None)


def _groups(reports: Sequence[ProcessReport]) -> list[str]:
    return sorted({group for report in reports for group in report.operations})


def _find_hang(group: str, reports: Sequence[ProcessReport]) -> Hang | None:
    members = [report for report in reports if group in report.operations]
    number, operation = max(report.operations[group] for report in members)
    missing = [report for report in members if report.operations[group][0] < number]
    waiting = [report.rank for report in members if report.operations[group][0] == number]
    return Hang(missing, waiting, operation, number) if missing else None


class HangWatch:
    """Watches this process's collective operations, and ends it when it waits for others longer than some seconds.

    Messages between the stages of a pipeline are no collective operations, and are not watched.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._is_saving = seconds, False
        self._ended = threading.Event()
        self._newest: dict[str, tuple[int, str]] = {}
        self._since = time.monotonic()

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread = threading.Thread(target=self._watch, name="hangs", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Watch no longer."""
        self._ended.set()
        self._thread.join()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Let others wait for as long as this process saves a checkpoint."""
        self._is_saving = True
        try:
            yield
        finally:
            self._is_saving = False

    def _watch(self) -> None:
        store, rank = _store(), dist.get_rank()
        while not self._ended.wait(min(INTERVAL, self._seconds / 4)):
            try:
                self._look(store, rank)
            except (RuntimeError, ValueError, KeyError) as error:  # a store that is busy: the next look may succeed
                log.warning("processes could not be compared: %s", error)

    def _look(self, store: Any, rank: int) -> None:
        operations = self._newest | _newest_operations()
        if operations != self._newest:
            self._newest, self._since = operations, time.monotonic()
        idle = time.monotonic() - self._since
        report = ProcessReport(rank, socket.gethostname(), operations, _location(), idle, self._is_saving)
        store.set(str(rank), json.dumps(asdict(report)))
        if idle > self._seconds:
            reports = _read_reports(store)
            if not any(report.is_saving for report in reports):
                _end(find_hang(reports), rank)


def _end(hang: Hang | None, rank: int) -> None:
    """End this process if it is the first of those that wait; the launcher ends the others."""
    if hang and rank == min(hang.waiting):
        log.error("the training hangs: %s; it ends, to begin again at its last checkpoint", hang)
        os._exit(FAILED)


def _read_reports(store: Any) -> list[ProcessReport]:
    ranks = [str(rank) for rank in range(dist.get_world_size()) if store.check([str(rank)])]
    return [ProcessReport(**json.loads(store.get(rank))) for rank in ranks]


def _store() -> Any:
    """Return a connection of this thread's own to the store: a call on the group's may wait for another process."""
    store: Any = dist.distributed_c10d._get_default_store()  # noqa: SLF001  # nothing public names it
    store = store.clone()
    store.set_timeout(timedelta(seconds=INTERVAL))
    return dist.PrefixStore("hangs", store)  # type: ignore[attr-defined]


def _newest_operations() -> dict[str, tuple[int, str]]:
    # NCCL has a recorder of its own beside the one of all others
    dumps = [getattr(recorder, name, None) for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json")]
    known = [json.loads(dump(includeCollectives=True)).get("entries", []) for dump in dumps if dump]
    return {
        "/".join(map(str, entry["process_group"])): (entry["collective_seq_id"], entry["profiling_name"])
        for entry in chain.from_iterable(known)
        if not entry["is_p2p"]
    }


def _location() -> str:
    """Return where the main thread is."""
    frame = sys._current_frames()[MAIN or 0]  # noqa: SLF001  # it has no other name
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
