"""Traces of torch.profiler (Kineto), in the dialects of PyTorch 1.8 and later."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import Any, BinaryIO

import numpy as np

from nightshift.runtime.errors import UserError
from nightshift_perf.traces import processes, products, steps
from nightshift_perf.traces.rows import RowBuffer
from nightshift_perf.traces.steps import StepMark
from nightshift_perf.traces.stream import Arguments, EventReader, TraceEvent
from nightshift_perf.traces.trace import HOST, MEMORY, WORK, Collective, DeviceWork, Host, Matmul, Origin, Rows, Trace

# categories of events by PyTorch 1.x, Kineto (`ActivityType`) and its plugins: XPU, MTIA, HPU, PrivateUse1
CATEGORIES = (
    (re.compile(r"(\w+_)?kernel|hccl|mtia_ccp_events"), DeviceWork.KERNEL),
    (re.compile(r"(\w+_)?memcpy"), DeviceWork.COPY),
    (re.compile(r"(\w+_)?memset"), DeviceWork.SET),
    (re.compile(r"operator|cpu_op"), Host.OPERATION),
    (re.compile(r"(\w+_)?(runtime|driver)|hpu_op"), Host.CALL),
    (re.compile(r"user_annotation"), Host.RANGE),
)
# on devices, beside what they do
NO_WORK = ("gpu_user_annotation", "cuda_sync", "cuda_event", "cuda_profiler_range", "gpu_pm_counter", "overhead")
# what MTIA's control processors write beside kernels
MTIA = {"dma_request": DeviceWork.COPY, "event_wait": None, "event_record": None}
CPU = 0  # c10::DeviceType; all others are devices
LARGEST = 2**31
MULTIPLIED = np.dtype([("operation", "i8"), ("product", "i4")])


def read(file: BinaryIO, source: str) -> Trace:
    """Read a trace.

    Args:
        file: JSON, plain or gzip, of any length.
        source: names it in errors.

    Raises:
        UserError: when it is not a trace, or only a part of one.
    """
    reader, builder = EventReader(file, source), TraceBuilder()
    for piece in reader.pieces():
        builder.add(piece)
    if not len(builder.work) and not len(builder.host):
        raise UserError(f"{source}: {reader.events:,} events, none of the CPU or of a GPU; record it with "
                        "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])")  # fmt: skip
    return builder.trace(_origin(source, reader.about), _list_repairs(reader))


@cache
def category(name: str) -> DeviceWork | Host | None:
    """Return what events of a category are."""
    return next((kind for pattern, kind in CATEGORIES if pattern.fullmatch(name.lower())), None)


@dataclass
class TraceBuilder:
    """What has been read of a trace; times are as they stand there, less the first one."""

    zero: float | None = None
    names: dict[str, int] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    lanes: dict[tuple[str, int], int] = field(default_factory=dict)
    marks: list[StepMark] = field(default_factory=list)
    collectives: dict[tuple[int, int], Collective] = field(default_factory=dict)
    products: dict[Matmul, int] = field(default_factory=dict)
    multiplying: list[tuple[int, int]] = field(default_factory=list)  # products of the piece that is being read
    multiplied: RowBuffer = field(default_factory=lambda: RowBuffer(MULTIPLIED))
    work: RowBuffer = field(default_factory=lambda: RowBuffer(WORK))
    host: RowBuffer = field(default_factory=lambda: RowBuffer(HOST))
    memory: RowBuffer = field(default_factory=lambda: RowBuffer(MEMORY))
    begun: dict[str, list[TraceEvent]] = field(default_factory=lambda: defaultdict(list))
    strange: Counter[str] = field(default_factory=Counter)
    broken: int = 0

    def add(self, events: Iterable[TraceEvent]) -> None:
        """Take some more events."""
        work: list[tuple[Any, ...]] = []
        host: list[tuple[Any, ...]] = []
        memory = []
        for event in events:
            if event.ph == "X" or (event.ph in ("B", "E") and self._ends(event)):
                self._complete(event, work, host)
            elif event.name == "[memory]" and event.args:
                memory.append(self._memory(event, event.args))
        self.work.extend(work)
        self.host.extend(host)
        self.memory.extend([row for row in memory if row])
        self.multiplied.extend(self.multiplying)
        self.multiplying.clear()

    def trace(self, origin: Origin, caveats: list[str]) -> Trace:
        """Return the whole, with what is to be said of how it was read."""
        work, host, memory = self.work.sort(), self.host.sort(), self.memory.sort()
        own = work[["lane", "cause"]].copy()
        processes.assign(work, host, list(self.processes), list(self.lanes))
        self._multiply(work)
        marks = sorted(self.marks, key=lambda mark: mark.start)
        return Trace(
            origin=origin,
            names=list(self.names),
            work=work,
            host=host,
            memory=_levels(memory),
            steps=steps.choose(marks, {}),
            collectives=self._number_collectives(own, work["cause"]),
            products=list(self.products),
            caveats=[*caveats, *self._caveats(bool(marks), len(work))],
            processes=list(self.processes) or [""],
            marks=marks,
        )

    def _number_collectives(self, own: Rows, causes: Rows) -> dict[int, Collective]:
        """Return collective operations by their causes as all processes are numbered."""
        if not self.collectives:
            return {}
        pairs = zip(own.tolist(), causes.tolist(), strict=True)
        return {cause: collective for key, cause in pairs if (collective := self.collectives.get(key))}

    def _multiply(self, work: Rows) -> None:
        """Fill in what the operations multiply that launched some work."""
        known = self.multiplied.sort()
        if len(known):
            positions = np.minimum(np.searchsorted(known["operation"], work["operation"]), len(known) - 1)
            work["product"] = np.where(
                known["operation"][positions] == work["operation"], known["product"][positions], -1
            )

    def _ends(self, event: TraceEvent) -> bool:
        """Return whether an event ends one that has begun, and make it the whole of it then."""
        open_events = self.begun[f"{event.pid}/{event.tid}"]
        if event.ph == "B":
            open_events.append(event)
        if event.ph == "B" or not open_events:
            return False
        first = open_events.pop()
        start, end = _number(first.ts), _number(event.ts)
        event.name, event.cat, event.ts, event.args = first.name, first.cat, first.ts, first.args or event.args
        event.dur = None if start is None or end is None else end - start
        return True

    def _complete(self, event: TraceEvent, work: list[tuple[Any, ...]], host: list[tuple[Any, ...]]) -> None:
        span = self._span(event)
        if span is None or not isinstance(event.cat, str):
            return
        kind = category(event.cat)
        if event.cat == "mtia_ccp_events":
            kind = MTIA.get(str(event.name), kind)
            if kind is None:
                return
        if isinstance(kind, DeviceWork):
            work.append(self._work(event, span, kind))
        elif kind is not None:
            host.append(self._host(event, span, kind))
        elif event.args and event.args.stream is not None and event.cat not in NO_WORK:
            self.strange[event.cat] += 1

    def _span(self, event: TraceEvent) -> tuple[float, float] | None:
        start, took = _number(event.ts), _number(event.dur)
        if start is None or took is None or took < 0:
            self.broken += 1
            return None
        if self.zero is None:
            self.zero = start
        return start - self.zero, start - self.zero + took

    def _work(self, event: TraceEvent, span: tuple[float, float], kind: DeviceWork) -> tuple[Any, ...]:
        args = event.args or Arguments()
        device = _integer(args.device if args.device is not None else event.pid)
        stream = _integer(args.stream if args.stream is not None else event.tid)
        lane = self.lanes.setdefault((str(event.pid), device), len(self.lanes))
        cause, operation = _integer(args.correlation), _integer(_external(args))
        if args.collective or args.group is not None:
            self.collectives[lane, cause] = Collective(
                str(args.collective or ""), _integer(args.elements), str(args.dtype), _integer(args.ranks)
            )
        size = _integer(args.bytes, 0)
        known = args.blocks is not None
        shape = (_number(args.blocks) or 0.0, _number(args.occupancy) or -1.0) if known else (-1.0, -1.0)
        return (*span, size, cause, operation, self._name(event), device, stream, kind, lane, -1, -1, *shape)

    def _host(self, event: TraceEvent, span: tuple[float, float], kind: Host) -> tuple[Any, ...]:
        args, name = event.args or Arguments(), str(event.name)
        process = self.processes.setdefault(str(event.pid), len(self.processes))
        thread = self.threads.setdefault(f"{event.pid}/{event.tid}", len(self.threads))
        operation = _integer(_external(args))
        if kind is Host.OPERATION:
            if name.startswith(("ProfilerStep", "enumerate(DataLoader)")):
                kind = Host.RANGE
            elif operation >= 0 and (counted := products.count(name, args.shapes, args.types)):
                product = self.products.setdefault(counted, len(self.products))
                self.multiplying.append((processes.number(process, operation), product))
        if kind is Host.RANGE and (step := steps.parse(name)):
            self.marks.append(StepMark(*span, process, thread, *step))
        return (*span, _integer(args.correlation), operation, thread, self._name(event), kind, process)

    def _memory(self, event: TraceEvent, args: Arguments) -> tuple[Any, ...] | None:
        at, kind = _number(event.ts), _integer(args.device_type)
        if at is None or kind in (-1, CPU):
            return None
        self.zero = at if self.zero is None else self.zero
        known = args.allocated is not None
        level = _number(args.allocated) if known else _number(args.changed)
        reserved = _number(args.reserved) if known else -1.0  # below 0: only by how much it changed is known
        process = self.processes.get(str(event.pid), 0)
        return at - self.zero, _integer(args.device_id), level or 0.0, reserved or 0.0, process

    def _caveats(self, has_steps: bool, work: int) -> list[str]:
        caveats = []
        if self.broken:
            caveats.append(f"{self.broken:,} events have no time or a negative duration; they are left out.")
        if self.strange:
            kinds = ", ".join(f"{count:,} of {kind!r}" for kind, count in self.strange.most_common(5))
            caveats.append(f"Events on a device whose category is not known are left out: {kinds}.")
        if work and not has_steps:
            caveats.append(
                "No step is marked, so all figures are of the whole trace: call profiler.step() after each batch."
            )
        return caveats

    def _name(self, event: TraceEvent) -> int:
        return self.names.setdefault(str(event.name), len(self.names))


def _origin(source: str, about: dict[str, Any]) -> Origin:
    spread, devices = about.get("distributedInfo"), about.get("deviceProperties")
    spread = spread if isinstance(spread, dict) else {}
    listed = [properties for properties in devices if isinstance(properties, dict)] if isinstance(devices, list) else []
    rank, size = _integer(spread.get("rank")), _integer(spread.get("world_size"))
    return Origin(
        source=source,
        rank=rank if rank >= 0 else None,
        world_size=size if size > 0 else None,
        devices={_integer(properties.get("id")): str(properties.get("name", "")) for properties in listed},
    )


def _list_repairs(reader: EventReader) -> list[str]:
    sentences = []
    if reader.mended:
        sentences.append(f"{reader.mended:,} events are no JSON (N/A as a number, quotes in a name); they are read as "
                         "they are meant.")  # fmt: skip
    if reader.is_open:
        sentences.append("The list of events has no end: if the recording was cut off, its last events are missing.")
    return sentences


def _levels(rows: Rows) -> Rows:
    """Make levels of memory rows; PyTorch 1.x only says by how much each device's changed."""
    changes = rows["reserved"] < 0
    for process, device in np.unique(rows[["process", "device"]][changes]).tolist():
        mine = changes & (rows["process"] == process) & (rows["device"] == device)
        levels = np.cumsum(rows["allocated"][mine])
        rows["allocated"][mine] = levels - min(levels.min(), 0)
    rows["reserved"][changes] = 0
    return rows


def _external(args: Arguments) -> Any:
    return args.external if args.external is not None else args.external_before


def _number(value: Any) -> float | None:
    if type(value) is float:  # nearly all are: nothing else is worth its time
        return value if isfinite(value) else None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _integer(value: Any, otherwise: int = -1) -> int:
    """Return a number, also out of `stream 7`."""
    if type(value) is int:
        return value if abs(value) < LARGEST else otherwise
    if isinstance(value, str):
        value = value.rsplit(" ", 1)[-1]
    number = _number(value)
    return otherwise if number is None or abs(number) >= LARGEST else int(number)
