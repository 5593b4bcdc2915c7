"""What would win most: every way to lose time has a rule that says what it costs, what shows it, and what helps.

What a rule says is won is what is lost: time of the slowest GPU in which it does nothing, or only moves data. Faster
arithmetic has no figure, since a trace does not tell how fast the same kernels would be; it comes last, unless nothing
that is lost is worth a change.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nightshift.contracts.profile import Finding
from nightshift_perf.traces import communication, gaps, kernels, ranks, timeline, utilization, warmup
from nightshift_perf.traces.arithmetic import Sums
from nightshift_perf.traces.breakdown import HOST_PARTS, IDLE, Breakdown, TraceWindow
from nightshift_perf.traces.gaps import Cause
from nightshift_perf.traces.ranks import Imbalance
from nightshift_perf.traces.trace import DeviceWork, Host, Rows, Trace

LEAST = 1.0  # per cent of a step: what costs less is not worth a change
GPU_BOUND = 5.0  # per cent of a step: where nothing costs more, what the GPU computes is what to change first
SHORT = 20.0  # microseconds: kernels about as long as their launches
MANY = 100.0  # per cent, from which on a ratio is easier to read
LOADER, GRIDS = "The data loader", "Grids that do not fill the GPU"
MANY_OFF = 50.0  # per cent of the time of matrix products, and of what may be one
MANY_UNKNOWN = 20.0  # per cent of the time of kernels that compute


@dataclass(frozen=True)
class Advice:
    """What helps: a sentence, and what to try in the config, keys of `task.trainer` or a candidate's parameters."""

    fix: str
    settings: tuple[str, ...] = ()

    def finding(self, title: str, evidence: str, won_ms: float | None = None, won_pct: float | None = None) -> Finding:
        """Return a finding with this advice."""
        settings = list(self.settings)
        return Finding(title=title, won_ms=won_ms, won_pct=won_pct, evidence=evidence, fix=self.fix, settings=settings)


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

    def finding(self, title: str, lost: float, evidence: str, advice: Advice) -> Finding:
        """Return a finding about so many microseconds."""
        ms, percent = round(self.one.ms(lost), 3), round(self.one.percent(lost), 2)
        return advice.finding(title, evidence, ms, percent)


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
    slow, limit = [*_use(case), *_arithmetic(case, sums)], list(_limit(case, ranked))
    return [*slow, *limit, *ranked, *_unknown(sums)] if limit else [*ranked, *slow, *_unknown(sums)]


def slowest(breakdowns: Sequence[Breakdown]) -> Breakdown:
    """Return the GPU with the longest steps, of several of them the one that computes most."""
    return max(breakdowns, key=lambda one: (round(one.step_ms, 3), one.compute))


def _data(case: DiagnosisInput) -> Finding | None:
    one = case.one
    evidence = (
        f"The host waits for the data loader for {one.percent(one.loading):.1f} % of the step; during "
        f"{one.percent(one.idle[Cause.DATA]):.1f} % the GPU has nothing to do."
    )
    finding = case.finding(LOADER, one.idle[Cause.DATA], evidence, _advise_loader(case.trace))
    return finding.model_copy(update={"gain_ms": one.gain(one.parts[IDLE[Cause.DATA]])})


def _advise_loader(trace: Trace) -> Advice:
    waits = trace.host[trace.match_names(trace.host, *gaps.LOADING)]
    if trace.match_names(waits, "singleprocess").any():
        fix = (
            "The loader works in the training process: raise num_workers, up to the cores that are free, and keep them "
            "with persistent_workers=True."
        )
        return Advice(fix, ("num_workers=2",))
    if trace.match_names(waits, gaps.NEXT_BATCH).any():
        fix = (
            "Nightshift's threads prefetch as far ahead as waits require: start more processes, each of which reads "
            "its part of a batch, keep the features decoded, or put them nearer by."
        )
        return Advice(fix, ("trainer.processes",))
    return Advice("Raise num_workers or prefetch_factor, decode less for each sample, or put the data nearer by.")


def _pageable(case: DiagnosisInput) -> Finding | None:
    one, work = case.one, case.trace.work
    rows = work[gaps.pageable(case.trace, work)]
    evidence = (
        f"{len(rows) / one.steps:.3g} copies {case.unit}, {rows['bytes'].sum() / one.steps / 1e6:.3g} MB, come from "
        f"pageable memory; they take {one.ms(one.exposed_pageable):.3g} ms without any computation, and the GPU is "
        f"idle for {one.ms(one.idle[Cause.COPY]):.3g} ms around them, since the host waits in each."
    )
    fix = "Pin the memory (pin_memory=True of the DataLoader) and copy with to(device, non_blocking=True)."
    lost = one.exposed_pageable + one.idle[Cause.COPY]
    return case.finding("Copies from pageable memory", lost, evidence, Advice(fix))


def _migrations(case: DiagnosisInput) -> Finding | None:
    one, work = case.one, case.trace.on(case.one.device)
    rows = work[gaps.migrating(case.trace, work)]
    moments = timeline.union(timeline.clip(timeline.spans(rows), one.window))
    evidence = (
        f"{len(rows) / one.steps:,.3g} migrations {case.unit}, {rows['bytes'].sum() / one.steps / 1e6:.3g} MB; "
        f"for {one.ms(timeline.length(moments)):.3g} ms pages move, while kernels that need them wait."
    )
    fix = (
        "Keep on the GPU what it uses (no managed memory, in RAPIDS a pool without it), or prefetch it "
        "(cudaMemPrefetchAsync, cudaMemAdvise); use less memory than the GPU has."
    )
    lost = timeline.length(moments)
    return case.finding("Page migrations (unified memory)", lost, evidence, Advice(fix, ("batch_size",)))


def _slowdown(case: DiagnosisInput) -> Finding | None:
    slower = utilization.slowdown(case.one)
    if not slower:
        return None
    fix = (
        "Look why its clocks fall (nvidia-smi -q -d CLOCK,POWER,PERFORMANCE): the power limit, its cooling, or another "
        "process; lock the clocks (nvidia-smi -lgc) while you measure."
    )
    evidence = f"{slower.evidence[0].upper()}{slower.evidence[1:]}."
    return case.finding("A GPU that slows down", slower.lost, evidence, Advice(fix))


def _synchronization(case: DiagnosisInput) -> Finding | None:
    one, calls = case.one, synchronizations(case.trace)
    evidence = (
        f"The host waits for the GPU {calls / one.steps:.3g} times {case.unit}; the GPU runs dry and is idle for "
        f"{one.ms(one.idle[Cause.SYNC]):.3g} ms, until the host has caught up."
    )
    fix = (
        "Do not read values of the GPU in every step (item(), cpu(), print, nonzero): every 100th is enough for a log."
    )
    return case.finding("Synchronizations", one.idle[Cause.SYNC], evidence, Advice(fix))


def _allocation(case: DiagnosisInput) -> Finding | None:
    one = case.one
    calls = int(case.trace.match_names(_calls(case.trace), *gaps.ALLOCATING).sum())
    evidence = f"{calls / one.steps:.3g} allocations or releases {case.unit} wait for the GPU, while it is idle."
    fix = (
        "Keep shapes constant, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; do not call "
        "torch.cuda.empty_cache() in the loop."
    )
    return case.finding("Allocation of memory", one.idle[Cause.ALLOCATION], evidence, Advice(fix))


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
    advice = Advice(fix, ("compile=cuda-graphs", "batch_size"))
    return case.finding("Gaps between kernels (launch-bound)", one.idle[Cause.LAUNCH], evidence, advice)


def _pauses(case: DiagnosisInput) -> Finding | None:
    one = case.one
    moments = gaps.causes(case.trace, one.device)[Cause.PAUSE]
    doing = kernels.during(case.trace, timeline.union(moments))
    activity = (
        f"; meanwhile the host is mostly in {doing}" if doing else "; the trace shows nothing of the host meanwhile"
    )
    evidence = f"The host launches nothing for {len(moments)} gaps of a millisecond and more{activity}."
    advice = _advise_pauses((doing or "").lower())
    return case.finding("Gaps while the host does something else", one.idle[Cause.PAUSE], evidence, advice)


def _advise_pauses(doing: str) -> Advice:
    if any(word in doing for word in warmup.COMPILING):
        fix = "It compiles in the loop: keep shapes constant, or mark the sizes that vary (torch._dynamo.mark_dynamic)."
        return Advice(fix, ("compile=none",))
    fix = "Take what the host does there (Python, logging, checkpoints, evaluation) out of the loop or into a thread."
    return Advice(fix, ("trainer.checkpoint_seconds",) if "checkpoint" in doing or "save" in doing else ())


def _waits(case: DiagnosisInput) -> Finding | None:
    one = case.one
    evidence = (
        f"For {one.ms(one.idle[Cause.DEVICE]):.3g} ms {case.unit} the GPU is idle although its next work was launched; "
        "it waits for another stream, or for what is not in the trace."
    )
    fix = "Look in Perfetto at what ends when these gaps do: streams that wait for each other, other ranks, copies."
    return case.finding("Waits on the GPU itself", one.idle[Cause.DEVICE], evidence, Advice(fix))


def _communication(case: DiagnosisInput) -> Finding | None:
    one = case.one
    share = 100 * one.exposed_communication / one.communication if one.communication else 0.0
    collectives = kernels.collectives([case.trace])
    most = f", most of it {collectives[0].name}" if collectives else ""
    evidence = (
        f"Communication takes {one.percent(one.communication):.1f} % of the step{most}; {share:.0f} % of that runs "
        "while nothing is computed."
    )
    advice = _advise_communication(collectives[0].name if collectives else "")
    return case.finding("Exposed communication", one.exposed_communication, evidence, advice)


def _advise_communication(most: str) -> Advice:
    if most == "send_recv":
        fix = "Stages of a pipeline wait for each other: more micro-batches, a schedule with less bubble, even stages."
        return Advice(fix, ("microbatches", "trainer.schedule=zero-bubble"))
    fix = (
        "Overlap it: larger DDP buckets (bucket_cap_mb), gradient_as_bucket_view=True, prefetching in FSDP; send less: "
        "bf16 gradients, gradient accumulation under no_sync(), more work per GPU."
    )
    return Advice(fix, ("trainer.bucket_mb", "trainer.compression=bf16", "microbatches", "batch_size"))


def _imbalance(case: DiagnosisInput) -> Finding | None:
    if not case.imbalance:
        return None
    late = case.imbalance.slowest
    evidence = (
        f"{ranks.name(late)} ({late.trace.origin.source}) computes {_longer(case.imbalance.percent)} the mean "
        f"of {len(case.all)} GPUs, which wait for it."
    )
    fix = "Give every rank the same work (tokens, rows of a table, length of sequences), and check that GPU's clocks."
    return case.finding("A straggler", case.imbalance.won, evidence, Advice(fix))


def _longer(percent: float) -> str:
    return f"{percent:.1f} % longer than" if percent <= MANY else f"{1 + percent / 100:.3g} times as long as"


def _copies(case: DiagnosisInput) -> Finding | None:
    one = case.one
    lost = max(one.exposed_copies - one.exposed_pageable - one.exposed_migrations, 0.0)
    evidence = f"The GPU only copies or sets memory for {one.ms(lost):.3g} ms {case.unit}."
    fix = "Copy the next batch in a stream of its own while this one computes, and keep tensors on the GPU."
    return case.finding("Exposed copies", lost, evidence, Advice(fix))


def _arithmetic(case: DiagnosisInput, sums: Sums) -> Iterator[Finding]:
    """Return slow arithmetic that is sure: whatever is unknown counts as if it ran on tensor cores."""
    products = sums.on + sums.off + sums.unknown
    windows = sum(one.length for one in case.all)
    if sums.full and 100 * sums.full / products > MANY_OFF and 100 * sums.full / windows > LEAST:
        bases = ", ".join(f"{basis} ({100 * took / products:.0f} %)" for basis, took in sums.bases.items())
        advice = Advice(
            "Try torch.autocast with bfloat16, or float16 and a GradScaler before Ampere, or TF32 "
            "(torch.set_float32_matmul_precision('high')), with channels_last for convolutions; check the accuracy.",
            ("precision=bf16",),
        )
        yield advice.finding(
            "Arithmetic without tensor cores",
            f"{100 * sums.full / products:.0f} % of the time of matrix products and convolutions, "
            f"{100 * sums.full / sums.whole:.0f} % of all that the GPU computes, is spent in full precision outside "
            f"the tensor cores, judged by {bases}.",
        )


def _use(case: DiagnosisInput) -> Iterator[Finding]:
    """Return kernels that leave much of the GPU without work."""
    if grids := utilization.small_grids(case.one):
        evidence = (
            f"{100 * grids.share:.0f} % of the time that the GPU computes are kernels with fewer blocks than it has "
            f"multiprocessors; {case.one.percent(grids.lost):.0f} % of its multiprocessors' time in the step is empty."
        )
        fix = "Give each kernel more: a larger batch, fused kernels, or independent work in another stream at once."
        yield case.finding(GRIDS, grids.lost, evidence, Advice(fix, ("batch_size", "microbatches", "compile=default")))
    if low := utilization.low_occupancy(case.one):
        evidence = (
            f"{100 * low.share:.0f} % of the time that the GPU computes are kernels, no matrix products, that have "
            f"less than {utilization.LOW:g} % of the warps that a multiprocessor holds."
        )
        fix = "Use fewer registers and less shared memory a block, or let torch.compile fuse and tune these kernels."
        yield Advice(fix, ("compile=default",)).finding("Low occupancy", evidence)


def _unknown(sums: Sums) -> Iterator[Finding]:
    if sums.whole and 100 * sums.unknown / sums.whole > MANY_UNKNOWN:
        advice = Advice(
            "Record with record_shapes=True and name the GPU (--gpu) for the achieved FLOP/s, or count with Nsight "
            "Compute and give its CSV beside the trace."
        )
        yield advice.finding(
            "Kernels that are not known",
            f"Of {100 * sums.unknown / sums.whole:.0f} % of the time that the GPU computes, nothing tells "
            "whether it multiplies matrices, in which precision and on which cores: nothing is advised about that.",
        )


def _limit(case: DiagnosisInput, ranked: Sequence[Finding]) -> Iterator[Finding]:
    """Return that the GPU is the limit, where nothing that is lost is worth as much as what it computes."""
    most = (ranked[0].won_pct or 0.0) if ranked else LEAST
    if most < GPU_BOUND:
        advice = Advice(
            "Look at the top kernels: fuse them, do less in them, or take a faster GPU.", ("compile=default",)
        )
        yield advice.finding(
            "The GPU is the limit",
            f"It is busy for {case.one.percent(case.one.busy):.1f} % of the step, and nothing else costs more "
            f"than {most:.2g} % of it.",
        )


def synchronizations(trace: Trace) -> int:
    """Return in how many calls the host waits for the GPU in the trace's window."""
    calls, (first, last) = _calls(trace), trace.window
    inside = calls[(calls["start"] >= first) & (calls["end"] <= last)]
    return int(trace.match_names(inside, *gaps.SYNCHRONIZING).sum())


def without_gpu(one: TraceWindow) -> list[Finding]:
    """Return what there is to say of a trace in which no GPU does anything: whether its loop waits for its loader."""
    evidence = f"The training waits for the data loader for {one.percent(one.loading):.1f} % of the step."
    waited = (round(one.ms(one.loading), 3), round(one.percent(one.loading), 2))
    loader = _advise_loader(one.trace).finding(LOADER, evidence, *waited)
    loader = loader.model_copy(update={"gain_ms": one.gain(one.parts[HOST_PARTS[1]])})
    nothing = Advice(
        "If a GPU was used, record with ProfilerActivity.CUDA; if not, the top operations say what the CPU does."
    ).finding(
        "No GPU in the trace", f"Over {one.length / 1000:,.1f} ms no kernel, copy or memset of a GPU is recorded."
    )
    percent = loader.won_pct or 0.0
    return [loader, nothing] if percent >= GPU_BOUND else [nothing, loader] if percent >= LEAST else [nothing]


def _calls(trace: Trace) -> Rows:
    return np.asarray(trace.host[trace.host["kind"] == Host.CALL])


def _kernels(case: DiagnosisInput) -> Rows:
    work = case.trace.work
    rows = work[(work["kind"] == DeviceWork.KERNEL) & (work["device"] == case.one.device)]
    return np.asarray(rows[~communication.communicates(case.trace, rows)])


RULES: tuple[Rule, ...] = (
    _data, _pageable, _migrations, _synchronization, _allocation, _launches, _pauses, _waits, _communication,
    _imbalance, _copies, _slowdown,
)  # fmt: skip
