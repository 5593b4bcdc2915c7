"""Traces in, a `TraceProfile` out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightshift.contracts.profile import Finding, MemoryPoint, Roofline, Scaling, StepShare, TraceProfile
from nightshift_perf.hardware import Gpu
from nightshift_perf.traces import (
    arithmetic,
    breakdown,
    ceiling,
    diagnosis,
    gaps,
    kernels,
    processes,
    ranks,
    scaling,
    timeline,
)
from nightshift_perf.traces.arithmetic import Sums
from nightshift_perf.traces.breakdown import Breakdown
from nightshift_perf.traces.ceiling import KernelCounters
from nightshift_perf.traces.gaps import Cause
from nightshift_perf.traces.trace import Trace

BINS = 120
MEMORY_POINTS = 240
WORKING = ("Computation", "Exposed communication", "Exposed copies")
IDLE = {
    Cause.DATA: "Idle: data loader",
    Cause.COPY: "Idle: pageable copies",
    Cause.SYNC: "Idle: synchronization",
    Cause.ALLOCATION: "Idle: allocation of memory",
    Cause.LAUNCH: "Idle: short gaps between kernels",
    Cause.PAUSE: "Idle: the host does something else",
    Cause.DEVICE: "Idle: waits on the GPU itself",
}


@dataclass(frozen=True)
class Known:
    """What a trace does not say.

    Attributes:
        flops_per_step: floating-point operations of a step on one GPU; None where nobody counted.
        precision: of the matrix products, as the hardware table names it.
        device: the GPU's name, where the trace has none or the wrong one; empty to take the trace's.
        counted: kernels as Nsight Compute measured them.
    """

    flops_per_step: float | None = None
    precision: str = "fp32"
    device: str = ""
    counted: Sequence[KernelCounters] = ()


def analyze(traces: Sequence[Trace], known: Known) -> TraceProfile:
    """Return what traces say.

    Args:
        traces: at least one; several are of several ranks, or of several world sizes.
        known: what they do not say.

    Raises:
        UserError: when the GPU has no peak of the precision.
    """
    parts = [part for trace in traces for part in processes.split(trace)]
    every = [breakdown.measure(part, device) for part in parts for device in part.devices]
    breakdowns = ranks.find_working(every)
    traces = [one.trace for one in breakdowns] or parts[:1]
    worst = diagnosis.slowest(breakdowns) if breakdowns else None
    uneven = ranks.imbalance(_comparable(breakdowns))
    device = _device(breakdowns, known)
    verdicts = arithmetic.judge(traces, device, known.counted)
    sums = arithmetic.add_up(traces, verdicts)
    steps = worst.trace.steps if worst else traces[0].steps
    step_ms = worst.step_ms if worst else _step_ms(traces[0])
    return TraceProfile(
        sources=list(dict.fromkeys(part.origin.source for part in parts)),
        step_ms=round(step_ms, 4) if len(steps) else None,
        gpu_busy_pct=_mean([one.percent(one.busy) for one in breakdowns]),
        data_wait_pct=_mean([one.percent(one.loading) for one in breakdowns]) or _host_waits(traces),
        communication_pct=_mean([one.percent(one.communication) for one in breakdowns]) or 0.0,
        exposed_communication_pct=_mean([one.percent(one.exposed_communication) for one in breakdowns]) or 0.0,
        tensor_core_pct=round(100 * sums.on / (sums.on + sums.off), 3) if sums.on + sums.off else None,
        unknown_pct=round(100 * sums.unknown / sums.whole, 3) if sums.whole else 0.0,
        mfu_pct=_mfu(known, device, step_ms if len(steps) else None),
        diagnosis=_diagnosis(breakdowns, traces, sums),
        breakdown=_shares(worst) if worst else [],
        top_kernels=kernels.top_kernels(traces, verdicts),
        top_operations=kernels.top_operations(worst.trace if worst else traces[0]),
        collectives=kernels.collectives(traces),
        step_times_ms=[round(float(took) / 1000, 4) for took in _between(traces[0])],
        gpu_busy_over_time=_busy_over_time(breakdowns),
        memory=_memory(traces),
        ranks=[ranks.describe_rank(one) for one in breakdowns],
        imbalance_pct=round(uneven.percent, 3) if uneven else None,
        roofline=_roofline(device, traces, known),
        scaling=_scaling(breakdowns),
        caveats=[*_caveats(traces, breakdowns, known, device), *_left_out(every, breakdowns)],
    )


def _comparable(breakdowns: Sequence[Breakdown]) -> Sequence[Breakdown]:
    """Return the GPUs of the largest world size: only ranks of one training wait for each other."""
    sizes = {one.trace.origin.world_size for one in breakdowns}
    return [one for one in breakdowns if one.trace.origin.world_size == max(sizes, key=lambda size: size or 0)]


def _diagnosis(breakdowns: Sequence[Breakdown], traces: Sequence[Trace], sums: Sums) -> list[Finding]:
    if breakdowns:
        return diagnosis.diagnose(_comparable(breakdowns), sums)
    first, last = traces[0].window
    return [diagnosis.without_gpu((last - first) / 1000)]


def _shares(one: Breakdown) -> list[StepShare]:
    times = dict(zip(WORKING, (one.compute, one.exposed_communication, one.exposed_copies), strict=True))
    idle = {IDLE[cause]: one.idle[cause] for cause in Cause}
    return [
        StepShare(name=name, ms=round(one.ms(took), 4), pct=round(one.percent(took), 3), is_idle=name in idle)
        for name, took in (times | idle).items()
    ]


def _host_waits(traces: Sequence[Trace]) -> float:
    trace = traces[0]
    first, last = trace.window
    waited = timeline.length(timeline.clip(gaps.loading(trace), trace.window))
    return round(100 * waited / (last - first), 3) if last > first else 0.0


def _step_ms(trace: Trace) -> float:
    first, last = trace.window
    return (last - first) / max(len(trace.steps), 1) / 1000


def _between(trace: Trace) -> timeline.Floats:
    """Return how long each step takes until the next one begins."""
    if not len(trace.steps):
        return np.zeros(0)
    return np.diff(np.r_[trace.steps[:, 0], trace.steps[-1, 1]])


def _busy_over_time(breakdowns: Sequence[Breakdown]) -> list[float]:
    if not breakdowns:
        return []
    shares = breakdown.busy_over_time(breakdowns[0].trace, breakdowns[0].device, BINS)
    return [round(100 * float(share), 2) for share in np.clip(shares, 0, 1)]


def _memory(traces: Sequence[Trace]) -> list[MemoryPoint]:
    """Return the memory of the first GPU with any; of each part of the time its highest moment."""
    rows = next((trace.memory for trace in traces if len(trace.memory)), None)
    if rows is None:
        return []
    rows = rows[rows["device"] == rows["device"][0]]
    parts = [part for part in np.array_split(rows, min(len(rows), MEMORY_POINTS)) if len(part)]
    highest = [part[int(np.argmax(part["allocated"]))] for part in parts]
    return [
        MemoryPoint(
            at_ms=round(float(row["at"]) / 1000, 4),
            allocated_bytes=int(row["allocated"]),
            reserved_bytes=int(row["reserved"]),
        )
        for row in highest
    ]


def _device(breakdowns: Sequence[Breakdown], known: Known) -> Gpu | None:
    named = next((name for one in breakdowns if (name := one.trace.origin.devices.get(one.device))), "")
    return ceiling.find(known.device or named)


def _mfu(known: Known, device: Gpu | None, step_ms: float | None) -> float | None:
    if known.flops_per_step is None or device is None or not step_ms:
        return None
    return round(ceiling.mfu(known.flops_per_step, step_ms, device.peak(known.precision)), 3)


def _roofline(device: Gpu | None, traces: Sequence[Trace], known: Known) -> Roofline | None:
    if device is None:
        return None
    if known.counted:
        return ceiling.roofline(device, known.precision, known.counted, "as Nsight Compute counted them")
    basis = "matrix products by the shapes of their operations, each operand read or written once"
    return ceiling.roofline(device, known.precision, ceiling.products(traces), basis)


def _scaling(breakdowns: Sequence[Breakdown]) -> Scaling | None:
    measured = ranks.points(breakdowns)
    return scaling.fit(measured) if measured else None


def _caveats(
    traces: Sequence[Trace], breakdowns: Sequence[Breakdown], known: Known, device: Gpu | None
) -> list[str]:  # fmt: skip
    several = len({trace.origin.source for trace in traces}) > 1
    prefixed = [
        f"{trace.origin.source}: {caveat}" if several else caveat for trace in traces for caveat in trace.caveats
    ]
    caveats = list(dict.fromkeys(prefixed))
    if breakdowns and device is None:
        named = known.device or "the GPU, which the trace does not name"
        caveats.append(f"The hardware table has no entry for {named}, so there is no MFU and no roofline.")
    if known.flops_per_step is None and breakdowns:
        caveats.append("MFU needs the floating-point operations of a step: --flops-per-step, by FlopCounterMode.")
    steps = [one.step_ms for one in _comparable(breakdowns)]
    if len(steps) > 1 and max(steps) > ranks.APART * min(steps):
        caveats.append("The steps of the traces take very different times: are they of one training?")
    return caveats


def _left_out(every: Sequence[Breakdown], breakdowns: Sequence[Breakdown]) -> list[str]:
    """Name the GPUs whose work is negligible, and those whose process marks no step though others do."""
    caveats = [
        f"{ranks.name(one)} works for {one.busy / 1000:.4g} ms in all, next to nothing beside others: it is left out."
        for one in every
        if not any(one is kept for kept in breakdowns)
    ]
    marked = [len(one.trace.steps) > 0 for one in breakdowns]
    caveats += [
        f"{ranks.name(one)} has no step marked: its figures are of all its time, and no step's."
        for one, has_steps in zip(breakdowns, marked, strict=True)
        if any(marked) and not has_steps
    ]
    return caveats


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 3) if values else None
