"""SQLite exports of Nsight Systems (`nsys export --type sqlite`), of 2020 to 2026.

Their layout changes from version to version, and what was not recorded is absent, so what is read depends on the tables
and columns that are there. Times are nanoseconds.

| what | 2020, early 2021 | later |
|---|---|---|
| GPUs | `TARGET_INFO_CUDA_GPU` or `TARGET_INFO_GPU`, by `deviceId` | `TARGET_INFO_GPU` by `id` |
| a process's number of a GPU | the same | `TARGET_INFO_CUDA_DEVICE`: `pid`, `cudaId` -> `gpuId` |
| enumerations | constants of the documentation | tables `ENUM_*`: `id`, `name`, `label` |
| what is missing | a default value, such as 0 or an empty text | NULL, or no column |
| CUDA graphs | their kernels | `CUPTI_ACTIVITY_KIND_GRAPH_TRACE`: each graph as a whole |
| names of ranges | `text` | `text`, or `textId` of registered strings |

A `globalTid` is a machine, a process and a thread in one number: its upper bits, without the 24 of the thread, are the
process, as those of a `globalPid` are.
"""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from nightshift.runtime.errors import UserError
from nightshift_perf.traces import processes, steps
from nightshift_perf.traces.rows import RowBuffer
from nightshift_perf.traces.steps import StepMark
from nightshift_perf.traces.timeline import Floats
from nightshift_perf.traces.trace import HOST, MEMORY, WORK, DeviceWork, Host, Origin, Rows, Trace

# enumerations by the documentation: what is copied from where, and kinds of memory
DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP", 11: "HtoD", 12: "DtoH", 13: "DtoD"}
MIGRATIONS = (11, 12, 13)  # of pages of unified memory
MEMORIES = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device", 6: "Managed"}
RANGES = (59, 60, None)  # NvtxPushPopRange, NvtxStartEndRange, and where the table does not say
THREAD_BITS, PID = 24, (1 << 24) - 1
WHEN = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")  # columns of work
GRID = ("gridX", "gridY", "gridZ")
SAMPLED = re.compile(r"(GPC|SM|graphics) clock|power|throttl", re.IGNORECASE)
GPU_BITS = 0xFF  # of a metric's type, the GPU's number
PART = 100_000  # rows that are held as objects at once
EXPORT = "export it with: nsys export --type sqlite FILE.nsys-rep"


def read(path: str, source: str) -> Trace:
    """Read an export.

    Args:
        path: the file on this machine.
        source: names it in errors.

    Raises:
        UserError: when it is not such an export, or an incomplete one.
    """
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as database:
            return Export(database).trace(source)
    except UserError:  # is a ValueError, and says more
        raise
    except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{source} is no complete SQLite export of Nsight Systems ({error}); {EXPORT}") from None


@dataclass
class Export:
    """An open export."""

    database: sqlite3.Connection
    names: dict[str, int] = field(default_factory=dict)
    processes: dict[int, int] = field(default_factory=dict)
    lanes: dict[int, int] = field(default_factory=dict)
    marks: list[StepMark] = field(default_factory=list)

    def trace(self, source: str) -> Trace:
        """Return all of it that is used.

        Raises:
            UserError: when none of the known tables is there.
        """
        texts = dict(self._rows("StringIds", "id", "value"))
        host = _array(chain(self._calls(texts), self._ranges(texts)), HOST)
        work = _array(chain(self._kernels(texts), self._graphs(), self._copies(), self._sets()), WORK)
        if not len(work) and not len(host):
            raise UserError(
                f"{source}: no table of CUDA or NVTX in it; record with: nsys profile --trace=cuda,nvtx ..."
            )
        labels = [str(key & PID) for key in self.processes]
        processes.assign(work, host, labels, [("", device) for device in self.lanes])
        zero = min(float(table["start"].min()) for table in (work, host) if len(table))
        for table in (work, host):
            table["start"] -= zero
            table["end"] -= zero
        marks = [
            replace(mark, start=mark.start - zero, end=mark.end - zero)
            for mark in sorted(self.marks, key=lambda mark: mark.start)
        ]
        gpus = self._gpus()
        return Trace(
            origin=Origin(source, devices=gpus),
            names=list(self.names),
            work=work,
            host=host,
            memory=np.zeros(0, dtype=MEMORY),
            steps=steps.choose(marks, {}),
            caveats=_caveats(bool(marks)),
            processes=labels or [""],
            marks=marks,
            gpus=self._gpus_of_processes(gpus),
            counters=self._counters(zero),
        )

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Return columns of a table; nothing when it is absent.

        Args:
            table: its name.
            columns: their names; where versions differ `one|other`, of which the first is taken that is there. A column
                that the table does not have is None.
        """
        present = {row[1] for row in self.database.execute(f"PRAGMA table_info({table})")}
        if present:
            selected = ", ".join(_column(column, present) for column in columns)
            # the names are this module's
            yield from self.database.execute(f"SELECT {selected} FROM {table}")  # noqa: S608

    def _kernels(self, texts: dict[int, str]) -> Iterator[tuple[Any, ...]]:
        columns = (*GRID, "demangledName", "shortName")
        sizes = dict(self._rows("TARGET_INFO_GPU", "id", "smCount"))
        for *when, x, y, z, long, short in self._rows("CUPTI_ACTIVITY_KIND_KERNEL", *WHEN, *columns):
            name = texts.get(long) or texts.get(short) or "unknown kernel"
            size = sizes.get(when[2])
            *row, _, occupancy = self._work(name, DeviceWork.KERNEL, 0, *when)
            yield (*row, x * y * z / size if size and x and y and z else -1.0, occupancy)

    def _graphs(self) -> Iterator[tuple[Any, ...]]:
        for *when, graph in self._rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", *WHEN, "graphExecId|graphId"):
            yield self._work(f"CUDA graph {graph}", DeviceWork.KERNEL, 0, *when)

    def _copies(self) -> Iterator[tuple[Any, ...]]:
        memories = MEMORIES | dict(self._rows("ENUM_CUDA_MEM_KIND", "id", "label|name"))
        columns = ("bytes", "copyKind", "srcKind", "dstKind")
        for *when, size, kind, source, target in self._rows("CUPTI_ACTIVITY_KIND_MEMCPY", *WHEN, *columns):
            sides = "Unified memory" if kind in MIGRATIONS else _sides(kind, memories.get(source), memories.get(target))
            name = f"Memcpy {DIRECTIONS.get(kind, 'other')} ({sides})"
            yield self._work(name, DeviceWork.COPY, size, *when)

    def _sets(self) -> Iterator[tuple[Any, ...]]:
        for *when, size in self._rows("CUPTI_ACTIVITY_KIND_MEMSET", *WHEN, "bytes"):
            yield self._work("Memset (Device)", DeviceWork.SET, size, *when)

    def _calls(self, texts: dict[int, str]) -> Iterator[tuple[Any, ...]]:
        columns = ("start", "end", "globalTid", "correlationId", "nameId")
        for start, end, thread, cause, name in self._rows("CUPTI_ACTIVITY_KIND_RUNTIME", *columns):
            yield self._host(start, end, thread, cause, texts.get(name, "unknown call"), Host.CALL)

    def _ranges(self, texts: dict[int, str]) -> Iterator[tuple[Any, ...]]:
        columns = ("start", "end", "globalTid", "eventType", "text", "textId")
        for start, end, thread, kind, text, number in self._rows("NVTX_EVENTS", *columns):
            if kind in RANGES and end is not None and end > start:
                name = text or texts.get(number) or "unnamed range"
                row = self._host(start, end, thread, None, name, Host.RANGE)
                if step := steps.parse(name):
                    self.marks.append(StepMark(row[0], row[1], row[-1], row[4], *step))
                yield row

    def _gpus(self) -> dict[int, str]:
        """Return the names of GPUs by the machine's number of them."""
        tables = [("TARGET_INFO_CUDA_GPU", "deviceId|id"), ("TARGET_INFO_GPU", "id|deviceId|cuDevice")]
        gpus = [row for table, number in tables for row in self._rows(table, number, "name")]
        return {int(number): str(name or "") for number, name in gpus if number is not None}

    def _gpus_of_processes(self, gpus: dict[int, str]) -> dict[int, dict[int, str]]:
        """Return the names of GPUs by a process's number of them, which `CUDA_VISIBLE_DEVICES` changes."""
        names: dict[int, dict[int, str]] = {}
        devices = list(self._rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId"))
        for key, process in self.processes.items():
            seen = {own: gpus.get(gpu, "") for pid, own, gpu in devices if pid in (key & PID, None)}
            if seen:
                names[process] = seen
        return names

    def _counters(self, zero: float) -> dict[tuple[int, str], Floats]:
        """Return clocks, power and throttling that were sampled (`--gpu-metrics-devices`)."""
        metrics = self._rows("TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName")
        listed = {(kind, number): name for kind, number, name in metrics if SAMPLED.search(name or "")}
        samples: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
        for at, kind, number, value in self._rows("GPU_METRICS", "timestamp", "typeId", "metricId", "value"):
            if (kind, number) in listed and value is not None:
                samples[kind & GPU_BITS, listed[kind, number]].append((at / 1000 - zero, float(value)))
        return {key: np.array(sorted(rows)) for key, rows in samples.items()}

    def _name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))

    def _process(self, number: int | None) -> int:
        """Return the process of a `globalTid` or `globalPid`; -1 where it is missing."""
        return self.processes.setdefault(number >> THREAD_BITS, len(self.processes)) if number else -1

    def _work(self, name: str, kind: DeviceWork, size: int | None, *when: int | None) -> tuple[Any, ...]:
        """Return a row; `when` are the columns `WHEN`."""
        start, end, device, stream, cause, process = when
        number = -1 if device is None else device
        lane = self.lanes.setdefault(number, len(self.lanes))
        where = (-1 if cause is None else cause, -1, self._name(name), number, -1 if stream is None else stream)
        return start / 1000, end / 1000, size or 0, *where, kind, lane, self._process(process), -1, -1.0, -1.0  # type: ignore[operator]

    def _host(
        self, start: int, end: int, thread: int | None, cause: int | None, name: str, kind: Host
    ) -> tuple[Any, ...]:
        process = max(self._process(thread), 0)
        where = (-1 if cause is None else cause, -1, thread or 0, self._name(name), kind, process)
        return start / 1000, end / 1000, *where


def _column(names: str, present: set[str]) -> str:
    return next((f'"{name}"' for name in names.split("|") if name in present), "NULL")


def _sides(kind: int, source: str | None, target: str | None) -> str:
    """Name both ends of a copy as PyTorch does."""
    direction = DIRECTIONS.get(kind)
    if direction == "HtoD":
        return f"{source or 'Host'} -> Device"
    return f"Device -> {target or 'Host'}" if direction == "DtoH" else "Device -> Device"


def _array(tuples: Iterable[tuple[Any, ...]], dtype: np.dtype[np.void]) -> Rows:
    remaining, table = iter(tuples), RowBuffer(dtype)
    while part := list(islice(remaining, PART)):
        table.extend([row for row in part if row[1] >= row[0]])
    return table.sort()


def _caveats(has_steps: bool) -> list[str]:
    caveats = [
        "Nsight Systems does not record memory over time, operations of PyTorch or shapes; their parts are empty."
    ]
    if not has_steps:
        caveats.append(
            "No step is marked, so all figures are of the whole trace: put each in an NVTX range 'step 1', ..."
        )
    return caveats
