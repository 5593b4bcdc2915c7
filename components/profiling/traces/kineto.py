"""Traces of torch.profiler (Kineto), in the dialects of PyTorch 1.8 and later."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, BinaryIO

import numpy as np

from components.common.errors import UserError
from components.profiling.traces import products, timeline
from components.profiling.traces.stream import Arguments, Event, Reader
from components.profiling.traces.trace import HOST, MEMORY, WORK, Collective, Host, Matmul, Origin, Rows, Trace, Work

# categories of events; PyTorch 1.x wrote the first of each line
WORKS = {
    "Kernel": Work.KERNEL, "kernel": Work.KERNEL,
    "Memcpy": Work.COPY, "gpu_memcpy": Work.COPY,
    "Memset": Work.SET, "gpu_memset": Work.SET,
}  # fmt: skip
HOSTS = {
    "Operator": Host.OPERATION, "cpu_op": Host.OPERATION,
    "Runtime": Host.CALL, "cuda_runtime": Host.CALL, "cuda_driver": Host.CALL,
    "user_annotation": Host.RANGE,
}  # fmt: skip
STEP = re.compile(r"ProfilerStep#?\s*\d+")
CUDA = 1  # c10::DeviceType
LARGEST = 2**31


def read(file: BinaryIO, source: str) -> Trace:
    """Read a trace.

    Args:
        file: JSON, plain or gzip, of any length.
        source: names it in errors.

    Raises:
        UserError: when it is not a trace, or only a part of one.
    """
    reader, found = Reader(file, source), Gathered()
    for piece in reader.pieces():
        found.add(piece)
    if not any(len(rows) for rows in (*found.work, *found.host)):
        raise UserError(f"{source}: {reader.events:,} events, none of the CPU or of a GPU; record it with "
                        "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])")  # fmt: skip
    return found.trace(_origin(source, reader.about), _mended(reader))


@dataclass
class Gathered:
    """What has been read of a trace; times are as they stand there, less the first one."""

    zero: float | None = None
    names: dict[str, int] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    steps: list[tuple[float, float]] = field(default_factory=list)
    collectives: dict[int, Collective] = field(default_factory=dict)
    matmuls: dict[int, Matmul] = field(default_factory=dict)
    work: list[Rows] = field(default_factory=list)
    host: list[Rows] = field(default_factory=list)
    memory: list[Rows] = field(default_factory=list)
    broken: int = 0

    def add(self, events: Iterable[Event]) -> None:
        """Take some more events."""
        work, host, memory = [], [], []
        for event in events:
            if event.ph == "X":
                span = self._span(event)
                if span is None or not isinstance(event.cat, str):
                    continue
                if (done := WORKS.get(event.cat)) is not None:
                    work.append(self._work(event, span, done))
                elif (did := HOSTS.get(event.cat)) is not None:
                    host.append(self._host(event, span, did))
            elif event.name == "[memory]" and event.args:
                memory.append(self._memory(event, event.args))
        self.work.append(np.array(work, dtype=WORK))
        self.host.append(np.array(host, dtype=HOST))
        self.memory.append(np.array([row for row in memory if row], dtype=MEMORY))

    def trace(self, origin: Origin, caveats: list[str]) -> Trace:
        """Return the whole, with what is to be said of how it was read."""
        work, host, memory = (np.concatenate(parts) for parts in (self.work, self.host, self.memory))
        steps = np.array(sorted(self.steps), dtype=np.float64).reshape(-1, 2)
        return Trace(
            origin=origin,
            names=list(self.names),
            work=work[np.argsort(work["start"], kind="stable")],
            host=host[np.argsort(host["start"], kind="stable")],
            memory=_levels(memory[np.argsort(memory["at"], kind="stable")]),
            steps=timeline.union(steps) if _overlap(steps) else steps,
            collectives=self.collectives,
            matmuls=self.matmuls,
            caveats=caveats + _caveats(self.broken, len(steps), len(work)),
        )

    def _span(self, event: Event) -> tuple[float, float] | None:
        start, took = _number(event.ts), _number(event.dur)
        if start is None or took is None or took < 0:
            self.broken += 1
            return None
        if self.zero is None:
            self.zero = start
        return start - self.zero, start - self.zero + took

    def _work(self, event: Event, span: tuple[float, float], kind: Work) -> tuple[Any, ...]:
        args = event.args or Arguments()
        cause = _integer(args.correlation)
        if args.collective:
            self.collectives[cause] = Collective(
                str(args.collective), _integer(args.elements), str(args.dtype), _integer(args.ranks)
            )
        device = _integer(args.device if args.device is not None else event.pid)
        stream = _integer(args.stream if args.stream is not None else event.tid)
        operation = _integer(_external(args))
        return (*span, _integer(args.bytes, 0), cause, operation, self._name(event), device, stream, kind)

    def _host(self, event: Event, span: tuple[float, float], kind: Host) -> tuple[Any, ...]:
        args, name = event.args or Arguments(), str(event.name)
        if name.startswith("ProfilerStep") and STEP.fullmatch(name):
            self.steps.append(span)
            kind = Host.RANGE
        operation = _integer(_external(args))
        if kind is Host.OPERATION and operation >= 0 and (counted := products.count(name, args.shapes, args.types)):
            self.matmuls[operation] = counted
        if kind is Host.OPERATION and name.startswith("enumerate(DataLoader)"):
            kind = Host.RANGE
        thread = self.threads.setdefault(f"{event.pid}/{event.tid}", len(self.threads))
        return (*span, _integer(args.correlation), operation, thread, self._name(event), kind)

    def _memory(self, event: Event, args: Arguments) -> tuple[Any, ...] | None:
        at = _number(event.ts)
        if at is None or args.device_type != CUDA:
            return None
        self.zero = at if self.zero is None else self.zero
        known = args.allocated is not None
        level = _number(args.allocated) if known else _number(args.changed)
        reserved = _number(args.reserved) if known else -1.0  # below 0: only by how much it changed is known
        return at - self.zero, _integer(args.device_id), level or 0.0, reserved or 0.0

    def _name(self, event: Event) -> int:
        return self.names.setdefault(str(event.name), len(self.names))


def _origin(source: str, about: dict[str, Any]) -> Origin:
    spread, devices = about.get("distributedInfo"), about.get("deviceProperties")
    spread = spread if isinstance(spread, dict) else {}
    listed = [each for each in devices if isinstance(each, dict)] if isinstance(devices, list) else []
    rank, size = _integer(spread.get("rank")), _integer(spread.get("world_size"))
    return Origin(
        source=source,
        tool="torch.profiler",
        rank=rank if rank >= 0 else None,
        world_size=size if size > 0 else None,
        devices={_integer(each.get("id")): str(each.get("name", "")) for each in listed},
    )


def _mended(reader: Reader) -> list[str]:
    sentences = []
    if reader.mended:
        sentences.append(f"{reader.mended:,} events are no JSON (N/A as a number, quotes in a name); they are read as "
                         "they are meant.")  # fmt: skip
    if reader.is_open:
        sentences.append("The list of events has no end: if the recording was cut off, its last events are missing.")
    return sentences


def _caveats(broken: int, steps: int, work: int) -> list[str]:
    found = []
    if broken:
        found.append(f"{broken:,} events have no time or a negative duration; they are left out.")
    if work and not steps:
        found.append("No step is marked, so all figures are of the whole trace: call profiler.step() after each batch.")
    return found


def _levels(rows: Rows) -> Rows:
    """Return memory rows with levels; PyTorch 1.x only says by how much each device's changed."""
    found = rows.copy()
    changes = found["reserved"] < 0
    for device in np.unique(found["device"][changes]):
        mine = changes & (found["device"] == device)
        levels = np.cumsum(found["allocated"][mine])
        found["allocated"][mine] = levels - min(levels.min(), 0)
    found["reserved"][changes] = 0
    return found


def _overlap(steps: timeline.Floats) -> bool:
    return bool(np.any(steps[1:, 0] < steps[:-1, 1]))


def _external(args: Arguments) -> Any:
    return args.external if args.external is not None else args.external_before


def _number(value: Any) -> float | None:
    if type(value) is float:  # nearly all are: nothing else is worth its time
        return value if isfinite(value) else None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def _integer(value: Any, otherwise: int = -1) -> int:
    """Return a number, also out of `stream 7`."""
    if type(value) is int:
        return value if abs(value) < LARGEST else otherwise
    if isinstance(value, str):
        value = value.rsplit(" ", 1)[-1]
    found = _number(value)
    return otherwise if found is None or abs(found) >= LARGEST else int(found)
