"""What keeps processes from scaling: the costliest first, with the key of the config to change, and what that wins."""

from collections.abc import Iterator
from statistics import mean
from typing import Any

from nightshift.config.neural import Compile, Compression, Precision, Trainer
from nightshift_perf import bubbles
from nightshift_perf.contracts import ScalingFinding
from nightshift_perf.replicas import ScalingCurve, ScalingMeasurement, ScalingSpec

LEAST = 2.0  # per cent of a step: what costs less is noise
SMALL = 1e6  # bytes, of a bucket or of all gradients
LONGER = 1.2  # times as long as all in one piece
# field of `task.trainer` -> what its processes exchange, and what lessens that
EXCHANGES = {
    "tensor": ("Processes along tensor sum the activations of every layer", "a smaller tensor, and shard in its place"),
    "context": ("Processes along context gather keys and values of every layer", "a smaller context"),
    "shard": ("Processes that share parameters gather each block's, in every microbatch", "fewer microbatches"),
    "pipeline": ("Stages hand each other the activations of every microbatch", "a smaller pipeline"),
}


def diagnose_scaling(curve: ScalingCurve) -> list[ScalingFinding]:
    """Return what keeps the most processes from scaling, what would win most first; last, what computes faster."""
    lost = [finding for finding in _find_losses(curve) if finding.won_pct is None or finding.won_pct >= LEAST]
    settings = {finding.setting for finding in lost}
    faster = [finding for finding in _find_computing(curve) if finding.setting not in settings]
    return [*sorted(lost, key=lambda finding: -(finding.won_ms or 0.0)), *faster]


def _find_losses(curve: ScalingCurve) -> Iterator[ScalingFinding]:
    job, run = curve.job, curve.last
    yield _find_loading(run)
    yield _find_straggler(run)
    yield _find_exchange(job, run)
    if run.orders:
        yield _find_bubble(job, run)
    if run.orders and not run.shares_cores:
        yield _find_uneven_stages(run)
    yield _find_contention(curve)


def _describe(run: ScalingMeasurement, title: str, lost: float, evidence: str, fix: str) -> ScalingFinding:
    """Return a finding about so many seconds of a step."""
    return ScalingFinding(
        title=title,
        won_ms=round(1e3 * lost, 3),
        won_pct=round(100 * lost / run.step, 2),
        evidence=evidence,
        fix=fix,
        expected_gain_pct=None,
    )


def _suggest(finding: ScalingFinding, setting: str, value: Any, share: float | None) -> ScalingFinding:
    """Return a finding with a setting that wins a share of a step, 0..1; None where only trying tells."""
    gain = None if share is None else round(100 * share / (1 - share), 1)
    return finding.model_copy(update={"setting": setting, "value": value, "expected_gain_pct": gain})


def _find_loading(run: ScalingMeasurement) -> ScalingFinding:
    evidence = "In this time processes wait for rows and compute nothing."
    fix = "Put the data nearer by, keep it decoded (the features step does), or compute more on each row."
    return _describe(run, "The data loader", run.loading, evidence, fix)


def _find_straggler(run: ScalingMeasurement) -> ScalingFinding:
    slowest = max(range(len(run.paths)), key=run.paths.__getitem__)
    evidence = f"Process {slowest} takes {run.paths[slowest] / mean(run.paths) - 1:.0%} longer than the mean."
    queued = run.processes[slowest].queued
    if not run.shares_cores and queued > run.waiting / 2:
        evidence += f" Other programs have its core for {1e3 * queued:,.0f} ms of a step."
    fix = "Look at what else runs on its core or GPU and at its clocks; give every process the same work."
    return _describe(run, "A straggler", run.waiting, evidence, fix)


def _find_exchange(job: ScalingSpec, run: ScalingMeasurement) -> ScalingFinding:
    if run.gradients:
        return _find_small_buckets(run) if _has_small_buckets(run) else _find_gradients(job, run)
    layout = job.layout
    is_used = {**{axis: getattr(layout, axis) > 1 for axis in EXCHANGES}, "shard": layout.zero or layout.shard > 1}
    used = [EXCHANGES[axis] for axis in EXCHANGES if is_used[axis]]
    evidence = f"{' and '.join(what for what, _ in used)}."
    fix = f"Give each process more rows; write {', or '.join(change for _, change in used)}."
    return _describe(run, "Exposed communication", run.exchanging, evidence, fix)


def _find_gradients(job: ScalingSpec, run: ScalingMeasurement) -> ScalingFinding:
    gradients = run.gradients
    assert gradients
    half, whole = gradients.half_exchange, gradients.exchange
    evidence = f"{gradients.bytes / 1e6:,.2f} MB of gradients take {1e3 * whole:,.1f} ms in one piece."
    fix = "Send half as many bytes, or give each process more rows, in microbatches if memory lacks."
    finding = _describe(run, "Exposed communication", run.exchanging, evidence, fix)
    # the time of few bytes is that of messages
    if job.layout.compression is not Compression.NONE or half >= whole or gradients.bytes < SMALL:
        return finding
    return _suggest(finding, "task.trainer.compression", "bf16", run.exchanging * (1 - half / whole) / run.step)


def _has_small_buckets(run: ScalingMeasurement) -> bool:
    gradients = run.gradients
    assert gradients
    is_small = gradients.buckets > 1 and gradients.bytes < SMALL * gradients.buckets
    return is_small and run.exchanging > LONGER * gradients.exchange


def _find_small_buckets(run: ScalingMeasurement) -> ScalingFinding:
    gradients = run.gradients
    assert gradients
    as_one = f"{gradients.bytes / 1e6:,.2f} MB of gradients take {1e3 * gradients.exchange:,.1f} ms in one piece"
    evidence, fix = f"{as_one}; they go in {gradients.buckets}.", "Exchange more of them at once."
    finding = _describe(run, "Gradients in small pieces", run.exchanging, evidence, fix)
    won = (run.exchanging - gradients.exchange) / run.step
    return _suggest(finding, "task.trainer.bucket_mb", Trainer().bucket_mb, won)


def _find_bubble(job: ScalingSpec, run: ScalingMeasurement) -> ScalingFinding:
    """Return what a pipeline of equal stages loses while it fills and drains."""
    even = mean(bubbles.measure_bubble(bubbles.even_out(orders)) for orders in run.orders)
    lost = even * mean(bubbles.replay(orders) for orders in run.orders)
    pieces, by_formula = job.pieces, bubbles.formula(job.layout, job.pieces)
    evidence = f"Stages wait for {even:.1%} of the pipeline's time with {pieces} microbatches"
    evidence += "." if by_formula is None else f"; (p - 1) / (v m + p - 1) is {by_formula:.1%}."
    finding = _describe(run, "The pipeline's bubble", lost, evidence, "More pieces fill it; each has fewer rows.")
    share = mean(map(bubbles.replay, run.orders)) / run.step
    if run.shares_cores:
        evidence, share = f"{evidence} On shared cores other processes use that time; with a core for each:", 1.0
        finding = finding.model_copy(update={"won_ms": None, "won_pct": None, "evidence": evidence})
    after = bubbles.formula(job.layout, 2 * pieces)
    if by_formula is None or after is None or 2 * pieces > job.share:
        return finding
    return _suggest(finding, job.parameter("microbatches"), 2 * pieces, share * (1 - (1 - by_formula) / (1 - after)))


def _find_uneven_stages(run: ScalingMeasurement) -> ScalingFinding:
    """Return what a pipeline loses since one process computes longer than the others."""
    wholes = [(bubbles.replay(orders), bubbles.replay(bubbles.even_out(orders))) for orders in run.orders]
    lost = mean(max(whole - even, 0.0) for whole, even in wholes)
    work = [mean(bubbles.measure_work(orders[number]) for orders in run.orders) for number in range(run.pipeline)]
    slowest = max(range(len(work)), key=work.__getitem__)
    evidence = f"The stages of process {slowest} of a pipeline compute {work[slowest] / mean(work) - 1:.0%} longer"
    fix = "Choose a depth that the stages divide evenly, or fewer of them; the first and the last block count as well."
    return _describe(run, "Stages of unequal length", lost, f"{evidence} than the mean.", fix)


def _find_contention(curve: ScalingCurve) -> ScalingFinding:
    run, first = curve.last, curve.first
    # what the slowest takes longer is a straggler's
    longer = max(run.computing - run.waiting - first.computing, 0.0) if len(curve.runs) > 1 else 0.0
    if run.gradients or len(run.processes) == 1:
        evidence = "A process computes longer than one does alone: they share memory, caches or power."
        fix = "Move half as many bytes, or start fewer processes with more threads."
        finding = _describe(run, "Processes that slow each other down", longer, evidence, fix)
        is_whole = curve.job.network.parameters["precision"] == Precision.FLOAT32
        return _suggest(finding, curve.job.parameter("precision"), "bf16", None) if is_whole else finding
    evidence = f"A process computes longer for its share than {len(first.processes)} for as many rows."
    fix = "Its pieces are small, and the layout has work of its own: give each process more rows, or share less."
    return _describe(run, "Work that the layout adds", longer, evidence, fix)


def _find_computing(curve: ScalingCurve) -> Iterator[ScalingFinding]:
    """Yield the settings that may make the computation itself faster, which only trying tells."""
    job, run = curve.job, curve.last
    share = run.computing / run.step
    evidence = f"A process computes for {share:.0%} of a step."
    finding = ScalingFinding(
        title="Computation", won_ms=None, won_pct=None, evidence=evidence, fix="", expected_gain_pct=None
    )
    if share < 0.5:
        return
    if job.network.parameters["precision"] == Precision.FLOAT32:
        fix = "Halve the bytes that move; matrix units of processors and GPUs are faster, too."
        yield _suggest(finding.model_copy(update={"fix": fix}), job.parameter("precision"), "bf16", None)
    if job.network.parameters["compile"] == Compile.NONE:
        fix = "Fuse small operations."
        yield _suggest(finding.model_copy(update={"fix": fix}), job.parameter("compile"), "default", None)
