"""What would win most: every way to lose time has a rule that says what it costs, what shows it, and what helps.

What a rule says is won is what is lost: time of the slowest GPU in which it does nothing, or only moves data. Faster
arithmetic has no figure, since a trace does not tell how fast the same kernels would be; it comes last, unless nothing
that is lost is worth a change.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nightshift.contracts.profile import Finding
from nightshift_perf.traces import communication, gaps, kernels, ranks, timeline
from nightshift_perf.traces.arithmetic import Sums
from nightshift_perf.traces.breakdown import Breakdown
from nightshift_perf.traces.gaps import Cause
from nightshift_perf.traces.ranks import Imbalance
from nightshift_perf.traces.trace import DeviceWork, Host, Rows, Trace

LEAST = 1.0  # per cent of a step: what costs less is not worth a change
GPU_BOUND = 5.0  # per cent of a step: where nothing costs more, what the GPU computes is what to change first
SHORT = 20.0  # microseconds: kernels about as long as their launches
MANY_OFF = 50.0  # per cent of the time of matrix products, and of what may be one
MANY_UNKNOWN = 20.0  # per cent of the time of kernels that compute


@dataclass(frozen=True)
class DiagnosisInput:
    """What is judged: the slowest GPU, all GPUs, and what each idle moment of the slowest one is due to."""

    one: Breakdown
    all: Sequence[Breakdown]
    imbalance: Imbalance | None

    @property
    def trace(self) -> Trace:
        """Of the slowest GPU."""
        return self.one.trace

    @property
    def unit(self) -> str:
        """What counts and times are of: a step where the trace marks steps, else all of it."""
        return "per step" if len(self.trace.steps) else "in the trace"

    def finding(self, title: str, lost: float, evidence: str, fix: str) -> Finding:
        """Return a finding about so many microseconds."""
        ms, percent = self.one.ms(lost), self.one.percent(lost)
        return Finding(title=title, won_ms=round(ms, 3), won_pct=round(percent, 2), evidence=evidence, fix=fix)


Rule = Callable[[DiagnosisInput], Finding | None]


def diagnose(breakdowns: Sequence[Breakdown], sums: Sums) -> list[Finding]:
    """Return what to change, what would win most first.

    Args:
        breakdowns: one per GPU, at least one.
        sums: how long their kernels multiply matrices, on tensor cores or not.
    """
    case = DiagnosisInput(slowest(breakdowns), breakdowns, ranks.imbalance(breakdowns))
    lost = [one for rule in RULES if (one := rule(case)) and (one.won_pct or 0.0) >= LEAST]
    ranked = sorted(lost, key=lambda one: -(one.won_ms or 0.0))
    slow, limit = list(_arithmetic(case, sums)), list(_limit(case, ranked))
    return [*slow, *limit, *ranked, *_unknown(sums)] if limit else [*ranked, *slow, *_unknown(sums)]


def slowest(breakdowns: Sequence[Breakdown]) -> Breakdown:
    """Return the GPU with the longest steps, of several of them the one that computes most."""
    return max(breakdowns, key=lambda one: (round(one.step_ms, 3), one.compute))


def _data(case: DiagnosisInput) -> Finding | None:
    one = case.one
    spans = case.trace.host[case.trace.match_names(case.trace.host, *gaps.LOADING)]
    alone = case.trace.match_names(spans, "singleprocess").any()
    fix = (
        "The loader works in the training process: raise num_workers, and keep them with persistent_workers=True."
        if alone
        else "Raise num_workers or prefetch_factor, decode less for each sample, or put the data nearer by."
    )
    evidence = (
        f"The host waits for the data loader for {one.percent(one.loading):.1f} % of the step; during "
        f"{one.percent(one.idle[Cause.DATA]):.1f} % the GPU has nothing to do."
    )
    return case.finding("The data loader", one.idle[Cause.DATA], evidence, fix)


def _pageable(case: DiagnosisInput) -> Finding | None:
    one, work = case.one, case.trace.work
    rows = work[gaps.pageable(case.trace, work)]
    evidence = (
        f"{len(rows) / one.steps:.3g} copies {case.unit}, {rows['bytes'].sum() / one.steps / 1e6:.3g} MB, come from "
        f"pageable memory; they take {one.ms(one.exposed_pageable):.3g} ms without any computation, and the GPU is "
        f"idle for {one.ms(one.idle[Cause.COPY]):.3g} ms around them, since the host waits in each."
    )
    fix = "Pin the memory (pin_memory=True of the DataLoader) and copy with to(device, non_blocking=True)."
    return case.finding("Copies from pageable memory", one.exposed_pageable + one.idle[Cause.COPY], evidence, fix)


def _synchronization(case: DiagnosisInput) -> Finding | None:
    one, calls = case.one, synchronizations(case.trace)
    evidence = (
        f"The host waits for the GPU {calls / one.steps:.3g} times {case.unit}; the GPU runs dry and is idle for "
        f"{one.ms(one.idle[Cause.SYNC]):.3g} ms, until the host has caught up."
    )
    fix = (
        "Do not read values of the GPU in every step (item(), cpu(), print, nonzero): every 100th is enough for a log."
    )
    return case.finding("Synchronizations", one.idle[Cause.SYNC], evidence, fix)


def _allocation(case: DiagnosisInput) -> Finding | None:
    one = case.one
    calls = int(case.trace.match_names(_calls(case.trace), *gaps.ALLOCATING).sum())
    evidence = f"{calls / one.steps:.3g} allocations or releases {case.unit} wait for the GPU, while it is idle."
    fix = (
        "Keep shapes constant, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; do not call "
        "torch.cuda.empty_cache() in the loop."
    )
    return case.finding("Allocation of memory", one.idle[Cause.ALLOCATION], evidence, fix)


def _launches(case: DiagnosisInput) -> Finding | None:
    one, rows = case.one, _kernels(case)
    times = rows["end"] - rows["start"]
    short = 100 * float(np.mean(times < SHORT)) if len(times) else 0.0
    evidence = (
        f"The GPU is idle for {one.ms(one.idle[Cause.LAUNCH]):.3g} ms {case.unit} in short gaps, because the host "
        f"launches too late: {len(rows) / one.steps:,.0f} kernels {case.unit}, {short:.0f} % of them shorter than "
        f"{SHORT:g} us."
    )
    fix = "Launch less: torch.compile(mode='reduce-overhead'), CUDA graphs, a fused optimizer, larger batches."
    return case.finding("Gaps between kernels (launch-bound)", one.idle[Cause.LAUNCH], evidence, fix)


def _pauses(case: DiagnosisInput) -> Finding | None:
    one = case.one
    moments = gaps.causes(case.trace, one.device)[Cause.PAUSE]
    doing = kernels.during(case.trace, timeline.union(moments))
    activity = (
        f"; meanwhile the host is mostly in {doing}" if doing else "; the trace shows nothing of the host meanwhile"
    )
    evidence = f"The host launches nothing for {len(moments)} gaps of a millisecond and more{activity}."
    fix = "Take what the host does there (Python, logging, checkpoints, evaluation) out of the loop or into a thread."
    return case.finding("Gaps while the host does something else", one.idle[Cause.PAUSE], evidence, fix)


def _waits(case: DiagnosisInput) -> Finding | None:
    one = case.one
    evidence = (
        f"For {one.ms(one.idle[Cause.DEVICE]):.3g} ms {case.unit} the GPU is idle although its next work was launched; "
        "it waits for another stream, or for what is not in the trace."
    )
    fix = "Look in Perfetto at what ends when these gaps do: streams that wait for each other, other ranks, copies."
    return case.finding("Waits on the GPU itself", one.idle[Cause.DEVICE], evidence, fix)


def _communication(case: DiagnosisInput) -> Finding | None:
    one = case.one
    share = 100 * one.exposed_communication / one.communication if one.communication else 0.0
    collectives = kernels.collectives([case.trace])
    most = f", most of it {collectives[0].name}" if collectives else ""
    evidence = (
        f"Communication takes {one.percent(one.communication):.1f} % of the step{most}; {share:.0f} % of that runs "
        "while nothing is computed."
    )
    fix = (
        "Overlap it: larger DDP buckets (bucket_cap_mb), gradient_as_bucket_view=True, prefetching in FSDP; send less: "
        "bf16 gradients, gradient accumulation under no_sync(), more work per GPU."
    )
    return case.finding("Exposed communication", one.exposed_communication, evidence, fix)


def _imbalance(case: DiagnosisInput) -> Finding | None:
    if not case.imbalance:
        return None
    late = case.imbalance.slowest
    evidence = (
        f"{ranks.name(late)} ({late.trace.origin.source}) computes {case.imbalance.percent:.1f} % longer than the mean "
        f"of {len(case.all)} GPUs, which wait for it."
    )
    fix = "Give every rank the same work (tokens, rows of a table, length of sequences), and check that GPU's clocks."
    return case.finding("A straggler", case.imbalance.won, evidence, fix)


def _copies(case: DiagnosisInput) -> Finding | None:
    one = case.one
    lost = max(one.exposed_copies - one.exposed_pageable, 0.0)
    evidence = f"The GPU only copies or sets memory for {one.ms(lost):.3g} ms {case.unit}."
    fix = "Copy the next batch in a stream of its own while this one computes, and keep tensors on the GPU."
    return case.finding("Exposed copies", lost, evidence, fix)


def _arithmetic(case: DiagnosisInput, sums: Sums) -> Iterator[Finding]:
    """Return slow arithmetic that is sure: whatever is unknown counts as if it ran on tensor cores."""
    products = sums.on + sums.off + sums.unknown
    windows = sum(one.length for one in case.all)
    if sums.full and 100 * sums.full / products > MANY_OFF and 100 * sums.full / windows > LEAST:
        bases = ", ".join(f"{basis} ({100 * took / products:.0f} %)" for basis, took in sums.bases.items())
        yield Finding(
            title="Arithmetic without tensor cores",
            won_ms=None,
            won_pct=None,
            evidence=f"{100 * sums.full / products:.0f} % of the time of matrix products and convolutions, "
            f"{100 * sums.full / sums.whole:.0f} % of all that the GPU computes, is spent in full precision outside "
            f"the tensor cores, judged by {bases}.",
            fix="Try torch.autocast with bfloat16, or float16 and a GradScaler before Ampere, or TF32 "
            "(torch.set_float32_matmul_precision('high')), with channels_last for convolutions; check the accuracy.",
        )


def _unknown(sums: Sums) -> Iterator[Finding]:
    if sums.whole and 100 * sums.unknown / sums.whole > MANY_UNKNOWN:
        yield Finding(
            title="Kernels that are not known",
            won_ms=None,
            won_pct=None,
            evidence=f"Of {100 * sums.unknown / sums.whole:.0f} % of the time that the GPU computes, nothing tells "
            "whether it multiplies matrices, in which precision and on which cores: nothing is advised about that.",
            fix="Record with record_shapes=True and name the GPU (--gpu) for the achieved FLOP/s, or count with Nsight "
            "Compute and give its CSV beside the trace.",
        )


def _limit(case: DiagnosisInput, ranked: Sequence[Finding]) -> Iterator[Finding]:
    """Return that the GPU is the limit, where nothing that is lost is worth as much as what it computes."""
    most = (ranked[0].won_pct or 0.0) if ranked else LEAST
    if most < GPU_BOUND:
        yield Finding(
            title="The GPU is the limit",
            won_ms=None,
            won_pct=None,
            evidence=f"It is busy for {case.one.percent(case.one.busy):.1f} % of the step, and nothing else costs more "
            f"than {most:.2g} % of it.",
            fix="Look at the top kernels: fuse them, do less in them, or take a faster GPU.",
        )


def synchronizations(trace: Trace) -> int:
    """Return in how many calls the host waits for the GPU in the trace's window."""
    calls, (first, last) = _calls(trace), trace.window
    inside = calls[(calls["start"] >= first) & (calls["end"] <= last)]
    return int(trace.match_names(inside, *gaps.SYNCHRONIZING).sum())


def without_gpu(host_ms: float) -> Finding:
    """Return what there is to say of a trace in which no GPU does anything."""
    return Finding(
        title="No GPU in the trace",
        won_ms=None,
        won_pct=None,
        evidence=f"Over {host_ms:,.1f} ms no kernel, copy or memset of a GPU is recorded.",
        fix="If a GPU was used, record with ProfilerActivity.CUDA; if not, the top operations say what the CPU does.",
    )


def _calls(trace: Trace) -> Rows:
    return np.asarray(trace.host[trace.host["kind"] == Host.CALL])


def _kernels(case: DiagnosisInput) -> Rows:
    work = case.trace.work
    rows = work[(work["kind"] == DeviceWork.KERNEL) & (work["device"] == case.one.device)]
    return np.asarray(rows[~communication.communicates(case.trace, rows)])


RULES: tuple[Rule, ...] = (
    _data, _pageable, _synchronization, _allocation, _launches, _pauses, _waits, _communication, _imbalance, _copies
)  # fmt: skip
