"""What the profile of traces shows: the diagnosis, then the pictures that it is read from."""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from nightshift.contracts.profile import Finding, Kernel, Roofline, Scaling, TraceProfile
from nightshift.contracts.section import (
    Axis,
    Bars,
    Block,
    Chart,
    Code,
    Fact,
    FoldedBlocks,
    Notice,
    Row,
    Section,
    SectionOutcome,
    Series,
    TableBlock,
    TableColumn,
    Text,
)
from nightshift_perf.traces import compute, names

WEIGHT = 71
ROWS = 8  # rows of a table before the rest is folded
LENGTH = 60  # characters of a kernel's name


def build(profile: TraceProfile) -> Section:
    """Return the section of a profile of traces."""
    first = profile.diagnosis[0]
    return Section(
        title="Where the time of a step goes",
        weight=WEIGHT,
        outcome=SectionOutcome(headline=headline(first), reasons=[first.evidence, first.fix]),
        highlights=[_time(profile), *_shares(profile)],
        blocks=list(_blocks(profile)),
    )


def headline(first: Finding) -> str:
    """Return a line about the first finding."""
    return first.title if first.won_pct is None else f"{first.title}: {first.won_pct:.1f} % of the step can be won"


def _time(profile: TraceProfile) -> Fact:
    source = ", ".join(name.rsplit("/", 1)[-1] for name in profile.sources)
    return Fact(label="Step, ms", value=profile.step_ms, format="plain", note=source)


def _shares(profile: TraceProfile) -> Iterator[Fact]:
    yield _share("GPU busy", profile.gpu_busy_pct, "of the step, with any work")
    yield _share("Data wait", profile.data_wait_pct, "the host waits for its loader")
    exposed = f"exposed: {profile.exposed_communication_pct:.1f} %"
    yield _share("Communication", profile.communication_pct, exposed)
    yield _share("Tensor cores", profile.tensor_core_pct, "of the time of matrix products, where known")
    yield _share("MFU", profile.mfu_pct, "model FLOPs utilization")


def _share(label: str, percent: float | None, note: str) -> Fact:
    return Fact(label=label, value=_part(percent), format="percent", note=note)


def _part(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _blocks(profile: TraceProfile) -> Iterator[Block]:
    yield diagnosis(profile.diagnosis)
    yield advice(profile.diagnosis)
    if profile.breakdown:
        yield _breakdown(profile)
    yield from _pictures(profile)
    if len(profile.step_times_ms) > 1:
        labels = [str(number + 1) for number in range(len(profile.step_times_ms))]
        yield Bars(title="Milliseconds of each step", labels=labels, heights=profile.step_times_ms, format="plain")
    yield from _tables(profile)
    if profile.caveats:
        yield Notice(title="What the traces do not say", sentences=profile.caveats)
    yield FoldedBlocks(title="Look closer", blocks=[Code(title="", text="\n".join(commands(profile)))])


def diagnosis(findings: Sequence[Finding]) -> TableBlock:
    """Return what to change as a table."""
    columns = [
        TableColumn(title="What costs time, most first"),
        TableColumn(title="To be won, ms", format="plain"),
        TableColumn(title="Of the time", format="percent", has_bars=True),
    ]
    rows = [Row(cells=[finding.title, finding.won_ms, _part(finding.won_pct)]) for finding in findings]
    return TableBlock(title="Diagnosis", columns=columns, rows=rows, is_key=True)


def advice(findings: Sequence[Finding]) -> Text:
    """Return what shows it, and what helps."""
    return Text(sentences=[f"{finding.title}: {explain(finding)}" for finding in findings])


def explain(finding: Finding) -> str:
    """Return what shows a finding, what helps, which settings of the config do, and what these win."""
    sentences = [finding.evidence, finding.fix]
    if finding.settings:
        sentences.append(f"Set {', '.join(finding.settings)}.")
    if finding.gain_ms:
        low, high = finding.gain_ms
        sentences.append(f"To be won, where cores are free: {low:,.3g} to {high:,.3g} ms a step.")
    return " ".join(sentences)


def _breakdown(profile: TraceProfile) -> TableBlock:
    columns = [
        TableColumn(title="Part"),
        TableColumn(title="ms per step", format="plain"),
        TableColumn(title="Of the time", format="percent", has_bars=True),
    ]
    rows = [
        Row(cells=[share.name, share.ms, share.pct / 100], tone="neutral" if share.is_idle else "good")
        for share in profile.breakdown
        if share.ms
    ]
    title = "Where the step goes" if profile.gpu_busy_pct is None else "Where the step of the slowest GPU goes"
    return TableBlock(title=title, columns=columns, rows=rows)


def _pictures(profile: TraceProfile) -> Iterator[Block]:
    if profile.gpu_busy_over_time:
        bins = len(profile.gpu_busy_over_time)
        points = [(100 * (i + 0.5) / bins, share) for i, share in enumerate(profile.gpu_busy_over_time)]
        yield Chart(
            title="GPU busy over the steps",
            x=Axis(label="% of the traced time", ticks=[0, 25, 50, 75, 100]),
            y=Axis(label="busy, %", ticks=[0, 25, 50, 75, 100]),
            series=[Series(name="busy", points=points)],
        )
    if profile.memory:
        yield _memory(profile)
    if profile.roofline:
        yield _roofline(profile.roofline)
    if profile.scaling:
        yield _scaling(profile.scaling)


def _memory(profile: TraceProfile) -> Chart:
    allocated = [(point.at_ms, point.allocated_bytes / 1e9) for point in profile.memory]
    reserved = [(point.at_ms, point.reserved_bytes / 1e9) for point in profile.memory if point.reserved_bytes]
    return Chart(
        title="Memory of the GPU (dashed: reserved)",
        x=Axis.from_zero("ms", [at for at, _ in allocated]),
        y=Axis.from_zero("GB", [size for _, size in [*allocated, *reserved]]),
        series=[
            Series(name="allocated", points=allocated),
            Series(name="reserved", style="reference", points=reserved),
        ],
    )


def _roofline(roofline: Roofline) -> Chart:
    ridge = 1000 * roofline.peak_tflops / roofline.bandwidth_gb_per_s
    x = _decades("FLOPs per byte", [ridge, *(point.flops_per_byte for point in roofline.points)])
    y = _decades("10^12 FLOP/s", [roofline.peak_tflops, *(point.tflops for point in roofline.points)])
    low, high = x.ticks[0], x.ticks[-1]
    roof = [
        (low, low * roofline.bandwidth_gb_per_s / 1000),
        (ridge, roofline.peak_tflops),
        (high, roofline.peak_tflops),
    ]
    notes = [
        f"{short(point.name)}: {point.flops_per_byte:.3g} FLOPs/byte, {point.tflops:.3g} TFLOP/s, {point.ms:.3g} ms"
        for point in roofline.points
    ]
    points = [(point.flops_per_byte, point.tflops) for point in roofline.points]
    return Chart(
        title=f"Roofline of the {roofline.device}, {roofline.precision}",
        x=x,
        y=y,
        series=[
            Series(name="what the GPU can do", style="reference", points=roof),
            Series(name="kernels", style="points", points=points, notes=notes),
        ],
    )


def _scaling(scaling: Scaling) -> Chart:
    measured = [(float(point.world_size), point.step_ms) for point in scaling.points]
    fitted = [(float(point.world_size), point.fitted_ms) for point in scaling.points]
    sizes = [float(point.world_size) for point in scaling.points]
    return Chart(
        title="Step time by number of GPUs (dashed: fitted)",
        x=Axis(label="GPUs", ticks=sizes, scale="log"),
        y=Axis.from_zero("ms", [0.0, *(time for _, time in [*measured, *fitted])]),
        series=[
            Series(name="fitted", style="reference", points=fitted),
            Series(name="measured", style="points", points=measured),
        ],
    )


def _tables(profile: TraceProfile) -> Iterator[Block]:
    if profile.roofline:
        yield Text(sentences=[_basis(profile.roofline)], is_fine_print=True)
    if profile.scaling:
        yield Text(sentences=[_amdahl(profile.scaling)], is_fine_print=True)
    if profile.top_kernels:
        yield _kernels(profile)
    if profile.collectives:
        yield _collectives(profile)
    if len(profile.ranks) > 1:
        yield _ranks(profile)
    if profile.top_operations:
        yield _operations(profile)


def _basis(roofline: Roofline) -> str:
    return f"Roofline: {roofline.basis}; peak and bandwidth by {roofline.source}."


def _amdahl(scaling: Scaling) -> str:
    most = "without a limit" if scaling.largest_speedup is None else f"at most {scaling.largest_speedup:.3g} times"
    return (
        f"Fitted: {scaling.compute_ms:.4g} ms of computation, {scaling.residual_ms:.4g} ms of host and data, "
        f"{scaling.alpha_ms:.3g} ms per hop and {scaling.ring_ms:.3g} ms per ring of communication. Amdahl's serial "
        f"share is {scaling.serial_share:.2%}, so more GPUs are {most} as fast as the fewest here."
    )


def _kernels(profile: TraceProfile) -> TableBlock:
    columns = [
        TableColumn(title="Kernel", format="code"),
        TableColumn(title="Calls", format="count"),
        TableColumn(title="Total ms", format="plain"),
        TableColumn(title="Mean us", format="plain"),
        TableColumn(title="Tensor cores"),
        TableColumn(title="Of all kernels", format="percent", has_bars=True),
    ]
    rows = [
        Row(cells=[short(kernel.name), kernel.calls, kernel.total_ms, kernel.mean_us, _cores(kernel), kernel.pct / 100])
        for kernel in profile.top_kernels
    ]
    return TableBlock(title="Top kernels", columns=columns, rows=rows, shown=ROWS)


def _cores(kernel: Kernel) -> str:
    """Return whether a kernel runs on tensor cores and what says so; empty where they could not help."""
    if kernel.operation not in ("matrix product", "unknown"):
        return ""
    if kernel.tensor_cores is None:
        return "unknown"
    verdict = ["yes" if kernel.tensor_cores else "no", kernel.precision, f"by {kernel.basis}"]
    return ", ".join(filter(None, verdict))


def _collectives(profile: TraceProfile) -> TableBlock:
    columns = [
        TableColumn(title="Collective", format="code"),
        TableColumn(title="Calls", format="count"),
        TableColumn(title="Total ms", format="plain", has_bars=True),
        TableColumn(title="Data", format="size"),
        TableColumn(title="Bus GB/s", format="plain"),
    ]
    rows = [
        Row(cells=[collective.name, collective.calls, collective.total_ms, collective.bytes, collective.bus_gb_per_s])
        for collective in profile.collectives
    ]
    return TableBlock(title="Communication", columns=columns, rows=rows)


def _ranks(profile: TraceProfile) -> TableBlock:
    columns = [
        TableColumn(title="Rank"),
        TableColumn(title="Device"),
        TableColumn(title="Step ms", format="plain"),
        TableColumn(title="Busy", format="percent"),
        TableColumn(title="Computing, ms", format="plain", has_bars=True),
        TableColumn(title="Data wait", format="percent"),
        TableColumn(title="Exposed communication", format="percent"),
    ]
    rows = [
        Row(
            cells=[
                rank.source.rsplit("/", 1)[-1] if rank.rank is None else str(rank.rank),
                str(rank.device),
                rank.step_ms,
                rank.gpu_busy_pct / 100,
                rank.compute_ms,
                rank.data_wait_pct / 100,
                rank.exposed_communication_pct / 100,
            ]
        )
        for rank in profile.ranks
    ]
    return TableBlock(title="Ranks", columns=columns, rows=rows, shown=ROWS)


def _operations(profile: TraceProfile) -> TableBlock:
    columns = [
        TableColumn(title="Operation", format="code"),
        TableColumn(title="Calls", format="count"),
        TableColumn(title="Own CPU ms", format="plain"),
        TableColumn(title="Of all operations", format="percent", has_bars=True),
    ]
    rows = [
        Row(cells=[short(operation.name), operation.calls, operation.self_cpu_ms, operation.share])
        for operation in profile.top_operations
    ]
    return TableBlock(title="Top operations of the host", columns=columns, rows=rows, shown=ROWS)


def commands(profile: TraceProfile) -> list[str]:
    """Return command lines for a closer look, of the kernel that takes most where one is known."""
    computing = [kernel for kernel in profile.top_kernels if kernel.kind == "computation"]
    name = short(computing[0].name).rsplit("::", 1)[-1] if computing else ""
    return [
        "nsys profile --trace=cuda,nvtx,cudnn,cublas,osrt --output=train python train.py",
        "nsys export --type sqlite train.nsys-rep",
        compute.command(name),
        "nightshift perf profile --trace train.sqlite kernels.csv --output profile",
    ]


def short(name: str) -> str:
    """Return a kernel's name, as long as a table has room for."""
    plain = names.short(name)
    return plain if len(plain) <= LENGTH else f"{plain[: LENGTH - 3]}..."


def _decades(label: str, values: Sequence[float]) -> Axis:
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return Axis(label=label, ticks=[10.0**power for power in range(low, max(high, low + 1) + 1)], scale="log")
