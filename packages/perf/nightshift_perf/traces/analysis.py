"""Traces in, a `TraceProfile` out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightshift.contracts.profile import MemoryPoint, Roofline, Scaling, StepShare, TraceProfile
from nightshift_perf.hardware import Gpu
from nightshift_perf.traces import (
    arithmetic,
    breakdown,
    ceiling,
    diagnosis,
    kernels,
    processes,
    ranks,
    scaling,
    timeline,
    warmup,
)
from nightshift_perf.traces.breakdown import Breakdown, TraceWindow
from nightshift_perf.traces.ceiling import KernelCounters
from nightshift_perf.traces.trace import Trace

BINS = 120
MEMORY_POINTS = 240
UNEVEN = 1.05  # times the median that the mean of the steps may be


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


@dataclass(frozen=True)
class Measured:
    """Traces, and where the time goes in them.

    Attributes:
        recorded: a trace for each process and device.
        every: what each GPU in them does, without first steps that take far longer.
        breakdowns: of those, the GPUs that do the work.
        worst: the slowest of these; of a recording without any, its first process.
    """

    recorded: Sequence[Trace]
    every: Sequence[Breakdown]
    breakdowns: Sequence[Breakdown]
    worst: TraceWindow


def measure(traces: Sequence[Trace]) -> Measured:
    """Return where the time goes in at least one trace."""
    recorded = [part for trace in traces for part in processes.split(trace)]
    parts = list(map(warmup.leave_out, recorded))
    every = [breakdown.measure(part, device) for part in parts for device in part.devices]
    breakdowns = ranks.find_working(every)
    worst = diagnosis.slowest(breakdowns) if breakdowns else breakdown.measure_host(parts[0])
    return Measured(recorded, every, breakdowns, worst)


def analyze(traces: Sequence[Trace], known: Known) -> TraceProfile:
    """Return what traces say; see `describe`."""
    return describe(measure(traces), known)


def describe(measured: Measured, known: Known) -> TraceProfile:
    """Return what traces say.

    Args:
        measured: several are of several ranks, or of several world sizes.
        known: what they do not say.

    Raises:
        UserError: when the GPU has no peak of the precision.
    """
    breakdowns, worst = measured.breakdowns, measured.worst
    traces = [one.trace for one in breakdowns] or [worst.trace]
    looked_at: Sequence[TraceWindow] = breakdowns or [worst]
    uneven = ranks.imbalance(_comparable(breakdowns))
    device = _device(breakdowns, known)
    verdicts = arithmetic.judge(traces, device, known.counted)
    sums = arithmetic.add_up(traces, verdicts)
    step_ms = worst.step_ms if len(worst.trace.steps) else None
    mfu = _mfu(known, device, step_ms)
    return TraceProfile(
        sources=list(dict.fromkeys(part.origin.source for part in measured.recorded)),
        step_ms=round(step_ms, 4) if step_ms else None,
        gpu_busy_pct=_mean([one.percent(one.busy) for one in breakdowns]),
        data_wait_pct=_mean([one.percent(one.loading) for one in looked_at]) or 0.0,
        communication_pct=_mean([one.percent(one.communication) for one in breakdowns]) or 0.0,
        exposed_communication_pct=_mean([one.percent(one.exposed_communication) for one in breakdowns]) or 0.0,
        tensor_core_pct=round(100 * sums.on / (sums.on + sums.off), 3) if sums.on + sums.off else None,
        unknown_pct=round(100 * sums.unknown / sums.whole, 3) if sums.whole else 0.0,
        mfu_pct=round(mfu, 3) if mfu is not None and mfu <= 100 else None,
        diagnosis=diagnosis.diagnose(_comparable(breakdowns), sums) if breakdowns else diagnosis.without_gpu(worst),
        breakdown=_shares(worst),
        top_kernels=kernels.top_kernels(traces, verdicts),
        top_operations=kernels.top_operations(worst.trace),
        collectives=kernels.collectives(traces),
        step_times_ms=[round(float(took) / 1000, 4) for took in measured.recorded[0].step_times],
        gpu_busy_over_time=_busy_over_time(breakdowns),
        memory=_memory(traces),
        ranks=[ranks.describe_rank(one) for one in breakdowns],
        imbalance_pct=round(uneven.percent, 3) if uneven else None,
        roofline=_roofline(device, traces, known),
        scaling=_scaling(breakdowns),
        caveats=[
            *_caveats(traces, breakdowns, known, device),
            *_impossible(mfu, known, device),
            *_uneven_steps(worst),
            *_left_out(measured.every, breakdowns),
        ],
    )


def _comparable(breakdowns: Sequence[Breakdown]) -> Sequence[Breakdown]:
    """Return the GPUs of the largest world size: only ranks of one training wait for each other."""
    sizes = {one.trace.origin.world_size for one in breakdowns}
    return [one for one in breakdowns if one.trace.origin.world_size == max(sizes, key=lambda size: size or 0)]


def _shares(one: TraceWindow) -> list[StepShare]:
    """Return the parts of the window; a process without a GPU is idle in all but its operations."""
    times = {name: timeline.length(moments) for name, moments in one.parts.items()}
    return [
        StepShare(
            name=name,
            ms=round(one.ms(took), 4),
            pct=round(one.percent(took), 3),
            is_idle=name not in (*breakdown.WORKING, breakdown.HOST_PARTS[0]),
        )
        for name, took in times.items()
    ]


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
    return ceiling.mfu(known.flops_per_step, step_ms, device.peak(known.precision))


def _uneven_steps(one: TraceWindow) -> list[str]:
    """Say that a few steps take far longer, where the mean is far from the median."""
    mean = one.length / one.steps / 1000
    if mean <= UNEVEN * one.step_ms:
        return []
    return [
        f"A few steps take far longer: {one.step_ms:,.4g} ms is the median of a step, {mean:,.4g} ms the mean, to "
        "which the parts and costs of a step add up."
    ]


def _impossible(mfu: float | None, known: Known, device: Gpu | None) -> list[str]:
    """Return why there is no MFU where a step would compute more than the GPU can."""
    if mfu is None or device is None or mfu <= 100:
        return []
    return [
        f"No MFU: {known.flops_per_step:.4g} operations in a step of this length are more than the {device.name} "
        f"can do in {known.precision}. Give --flops-per-step for a step on one GPU, and the right --precision."
    ]


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
