"""SQLite exports of Nsight Systems (`nsys export --type sqlite`), by the schema of its documentation.

Times are nanoseconds there. Tables and columns that were not recorded are absent. No real export was at hand when this
was written: the tests make one by that schema.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from components.common.errors import UserError
from components.profiling.traces.trace import HOST, MEMORY, WORK, Host, Origin, Rows, Trace, Work

# enumerations of CUPTI: what is copied from where (CUpti_ActivityMemcpyKind), and kinds of memory
DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
TO_DEVICE, FROM_DEVICE = 1, 2
PAGEABLE = 1  # CUpti_ActivityMemoryKind; 2 is pinned, 3 the GPU's
RANGES = (59, 60)  # NvtxPushPopRange, NvtxStartEndRange
STEP = re.compile(r"(step|iteration|iter|batch)[ #:_]*\d+", re.IGNORECASE)
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
    except sqlite3.Error as error:
        raise UserError(f"{source} is no complete SQLite export of Nsight Systems ({error}); {EXPORT}") from None


@dataclass
class Export:
    """An open export."""

    database: sqlite3.Connection
    names: dict[str, int] = field(default_factory=dict)

    def trace(self, source: str) -> Trace:
        """Return all of it that is used.

        Raises:
            UserError: when none of the known tables is there.
        """
        texts = dict(self._rows("StringIds", "id", "value"))
        work = _array([*self._kernels(texts), *self._copies(), *self._sets()], WORK)
        ranges = list(self._ranges(texts))
        host = _array([*self._calls(texts), *(row for row, _ in ranges)], HOST)
        if not len(work) and not len(host):
            raise UserError(
                f"{source}: no table of CUDA or NVTX in it; record with: nsys profile --trace=cuda,nvtx ..."
            )
        steps = np.array(sorted(row[:2] for row, name in ranges if STEP.fullmatch(name)), dtype=np.float64).reshape(
            -1, 2
        )
        zero = min(float(rows["start"].min()) for rows in (work, host) if len(rows))
        for rows in (work, host):
            rows["start"] -= zero
            rows["end"] -= zero
        return Trace(
            origin=Origin(source, "Nsight Systems", devices=dict(self._devices())),
            names=list(self.names),
            work=work,
            host=host,
            memory=np.zeros(0, dtype=MEMORY),
            steps=steps - zero,
            caveats=_caveats(len(steps)),
        )

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Return columns of a table, None for those it does not have; nothing when it is absent."""
        there = {row[1] for row in self.database.execute(f"PRAGMA table_info({table})")}
        if there:
            wanted = ", ".join(f'"{column}"' if column in there else "NULL" for column in columns)
            # the names are this module's
            yield from self.database.execute(f"SELECT {wanted} FROM {table}")  # noqa: S608

    def _kernels(self, texts: dict[int, str]) -> Iterator[tuple[Any, ...]]:
        columns = ("start", "end", "deviceId", "streamId", "correlationId", "demangledName", "shortName")
        for start, end, device, stream, cause, long, short in self._rows("CUPTI_ACTIVITY_KIND_KERNEL", *columns):
            name = self._name(texts.get(long) or texts.get(short) or "unknown kernel")
            yield _work(start, end, 0, Work.KERNEL, name, cause, device, stream)

    def _copies(self) -> Iterator[tuple[Any, ...]]:
        columns = ("start", "end", "bytes", "deviceId", "streamId", "correlationId", "copyKind", "srcKind", "dstKind")
        for start, end, size, device, stream, cause, kind, source, target in self._rows(
            "CUPTI_ACTIVITY_KIND_MEMCPY", *columns
        ):
            text = f"Memcpy {DIRECTIONS.get(kind, 'other')} ({_sides(kind, source, target)})"
            yield _work(start, end, size, Work.COPY, self._name(text), cause, device, stream)

    def _sets(self) -> Iterator[tuple[Any, ...]]:
        columns = ("start", "end", "bytes", "deviceId", "streamId", "correlationId")
        for start, end, size, device, stream, cause in self._rows("CUPTI_ACTIVITY_KIND_MEMSET", *columns):
            yield _work(start, end, size, Work.SET, self._name("Memset (Device)"), cause, device, stream)

    def _calls(self, texts: dict[int, str]) -> Iterator[tuple[Any, ...]]:
        columns = ("start", "end", "globalTid", "correlationId", "nameId")
        for start, end, thread, cause, name in self._rows("CUPTI_ACTIVITY_KIND_RUNTIME", *columns):
            yield _host(start, end, cause, thread, self._name(texts.get(name, "unknown call")), Host.CALL)

    def _ranges(self, texts: dict[int, str]) -> Iterator[tuple[tuple[Any, ...], str]]:
        columns = ("start", "end", "eventType", "globalTid", "text", "textId")
        for start, end, kind, thread, text, number in self._rows("NVTX_EVENTS", *columns):
            if end is not None and kind in RANGES:
                name = text or texts.get(number) or "unnamed range"
                yield _host(start, end, -1, thread, self._name(name), Host.RANGE), name

    def _devices(self) -> Iterator[tuple[int, str]]:
        yield from ((int(number), str(name)) for number, name in self._rows("TARGET_INFO_GPU", "id", "name"))

    def _name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))


def _sides(kind: int, source: int | None, target: int | None) -> str:
    """Name both ends of a copy as PyTorch does."""
    host = "Pageable" if (source if kind == TO_DEVICE else target) == PAGEABLE else "Pinned"
    return {TO_DEVICE: f"{host} -> Device", FROM_DEVICE: f"Device -> {host}"}.get(kind, "Device -> Device")


def _work(start: int, end: int, size: int | None, kind: Work, name: int, *where: int | None) -> tuple[Any, ...]:
    """Return a row; `where` is its cause, device and stream."""
    cause, device, stream = (-1 if each is None else each for each in where)
    return start / 1000, end / 1000, size or 0, cause, -1, name, device, stream, kind


def _host(start: int, end: int, cause: int | None, thread: int | None, name: int, kind: Host) -> tuple[Any, ...]:
    return start / 1000, end / 1000, -1 if cause is None else cause, -1, thread or 0, name, kind


def _array(rows: list[tuple[Any, ...]], dtype: np.dtype[np.void]) -> Rows:
    found = np.array([row for row in rows if row[1] >= row[0]], dtype=dtype)
    return found[np.argsort(found["start"], kind="stable")]


def _caveats(steps: int) -> list[str]:
    said = ["Nsight Systems does not record memory over time, operations of PyTorch or shapes; their parts are empty."]
    if not steps:
        said.append("No step is marked, so all figures are of the whole trace: put each in an NVTX range 'step 1', ...")
    return said
