"""Totals by name: kernels of GPUs, collective operations, operations of the host."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightshift.contracts.profile import CollectiveTime, Kernel, Operation
from nightshift_perf.traces import arithmetic, communication, names, timeline
from nightshift_perf.traces.arithmetic import KernelVerdict, Verdicts
from nightshift_perf.traces.names import Kind
from nightshift_perf.traces.timeline import Floats
from nightshift_perf.traces.trace import Collective, DeviceWork, Host, Rows, Trace

TOP = 20
PART = 100_000  # rows that are held as objects at once
WIDTHS = {"float": 4, "int": 4, "half": 2, "bfloat16": 2, "double": 8, "long": 8, "char": 1, "byte": 1, "int8": 1}


@dataclass
class Total:
    """Calls and microseconds of one name; `talking` is the time in which it moves data between ranks."""

    calls: int = 0
    time: float = 0.0
    talking: float = 0.0


def totals(trace: Trace, rows: Rows, times: Floats) -> dict[str, Total]:
    """Return calls and time of each name."""
    calls = np.bincount(rows["name"], minlength=len(trace.names))
    sums = np.bincount(rows["name"], weights=times, minlength=len(trace.names))
    return {trace.names[i]: Total(int(calls[i]), float(sums[i])) for i in np.flatnonzero(calls)}


def top_kernels(traces: Sequence[Trace], verdicts: Verdicts) -> list[Kernel]:
    """Return the kernels of all traces with the largest totals, largest first."""
    by_name: dict[str, Total] = defaultdict(Total)
    for trace in traces:
        rows = trace.work[trace.work["kind"] == DeviceWork.KERNEL]
        times = rows["end"] - rows["start"]
        talking = totals(trace, rows, times * communication.communicates(trace, rows))
        for name, one in totals(trace, rows, times).items():
            by_name[name].calls += one.calls
            by_name[name].time += one.time
            by_name[name].talking += talking[name].time
    whole = sum(one.time for one in by_name.values()) or 1.0
    first = sorted(by_name, key=lambda name: (-by_name[name].time, name))[:TOP]
    return [_kernel(name, by_name[name], whole, verdicts[name]) for name in first]


def _kernel(name: str, total: Total, whole: float, verdict: KernelVerdict) -> Kernel:
    talks = names.classify(name).kind is Kind.COMMUNICATION or 2 * total.talking > total.time
    return Kernel(
        name=name,
        kind="communication" if talks else "computation",
        operation="communication" if talks else verdict.kind.value,
        calls=total.calls,
        total_ms=round(total.time / 1000, 4),
        mean_us=round(total.time / total.calls, 3),
        pct=round(100 * total.time / whole, 3),
        tensor_cores=verdict.tensor_cores,
        precision=verdict.precision,
        basis=verdict.basis.value if verdict.basis else None,
    )


def collectives(traces: Sequence[Trace]) -> list[CollectiveTime]:
    """Return the collective operations of all traces, most time first."""
    times: dict[str, list[tuple[float, Collective | None]]] = defaultdict(list)
    for trace in traces:
        for row in trace.work[communication.communicates(trace, trace.work)]:
            metadata = trace.collectives.get(int(row["cause"]))
            one = names.collective(metadata.name if metadata and metadata.name else trace.names[row["name"]])
            times[one].append((float(row["end"] - row["start"]), metadata))
    summaries = [_collective(name, calls) for name, calls in times.items()]
    return sorted(summaries, key=lambda one: -one.total_ms)


def _collective(name: str, calls: list[tuple[float, Collective | None]]) -> CollectiveTime:
    moved = [(time, size(metadata), metadata.ranks) for time, metadata in calls if metadata and metadata.elements > 0]
    total, known = sum(time for time, _ in calls), sum(time for time, _, _ in moved)
    on_bus = sum(moved_bytes * _bus_factor(name, ranks) for _, moved_bytes, ranks in moved)
    return CollectiveTime(
        name=name,
        calls=len(calls),
        total_ms=round(total / 1000, 4),
        bytes=sum(moved_bytes for _, moved_bytes, _ in moved) if len(moved) == len(calls) else None,
        bus_gb_per_s=round(on_bus / known / 1000, 3) if known else None,
    )


def size(collective: Collective) -> int:
    """Return the bytes that went into a collective operation."""
    return collective.elements * WIDTHS.get(collective.dtype.lower(), 1)


def _bus_factor(name: str, ranks: int) -> float:
    """Return what the bus carries per byte that went in (nccl-tests, doc/PERFORMANCE.md)."""
    if ranks < 2:
        return 0.0
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": float(ranks - 1)}
    return factors.get(name, 1.0 if name in ("broadcast", "reduce", "send_recv") else (ranks - 1) / ranks)


def top_operations(trace: Trace) -> list[Operation]:
    """Return what the host spends most of its own time on: operations of PyTorch, or ranges where there are none."""
    rows = find_operations(trace)
    own = own_times(rows)
    by_name, whole = totals(trace, rows, own), float(own.sum()) or 1.0
    first = sorted(by_name, key=lambda name: (-by_name[name].time, name))[:TOP]
    return [
        Operation(
            name=name,
            calls=by_name[name].calls,
            self_cpu_ms=round(by_name[name].time / 1000, 3),
            self_device_ms=None,
            share=round(by_name[name].time / whole, 4),
        )
        for name in first
    ]


def find_operations(trace: Trace) -> Rows:
    """Return the operations of PyTorch on the host, or its ranges where there are none."""
    kind = Host.OPERATION if np.any(trace.host["kind"] == Host.OPERATION) else Host.RANGE
    return np.asarray(trace.host[trace.host["kind"] == kind])


def longest(trace: Trace) -> list[tuple[str, float]]:
    """Return the three names with the most time, and their shares: kernels, or operations of the host without a GPU."""
    shares = [(entry.name, entry.pct / 100) for entry in top_kernels([trace], arithmetic.judge([trace]))]
    return (shares or [(entry.name, entry.share) for entry in top_operations(trace)])[:3]


def own_times(rows: Rows) -> Floats:
    """Return the time of each row without that of the rows inside it on the same thread."""
    own = rows["end"] - rows["start"]
    order = np.lexsort([-own, rows["start"], rows["thread"]])
    above: list[tuple[int, int, float]] = []  # row, thread and end of what the row is inside
    for first in range(0, len(order), PART):
        part = order[first : first + PART]
        times = zip(part.tolist(), *(rows[name][part].tolist() for name in ("thread", "start", "end")), strict=True)
        for row, thread, start, end in times:
            while above and (above[-1][1] != thread or above[-1][2] <= start):
                above.pop()
            if above:
                own[above[-1][0]] -= min(end, above[-1][2]) - start
            above.append((row, thread, end))
    return np.asarray(np.maximum(own, 0.0))


def during(trace: Trace, moments: Floats) -> str | None:
    """Return the name of what the host does for most of some moments, steps aside; None where nothing is known."""
    rows = trace.host[(trace.host["kind"] != Host.CALL) & ~trace.match_names(trace.host, "profilerstep")]
    shared = timeline.measure_overlap(timeline.spans(rows), moments)
    if not len(moments) or not shared.any():
        return None
    sums = np.bincount(rows["name"], weights=shared, minlength=len(trace.names))
    return trace.names[int(np.argmax(sums))]
