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
    Column,
    Fact,
    Fold,
    Notice,
    Outcome,
    Row,
    Section,
    Series,
    Table,
    Text,
)
from nightshift.profiler.traces import compute, names

WEIGHT = 71
ROWS = 8  # of a table, before the rest is folded
LENGTH = 60  # of a kernel's name


def build(found: TraceProfile) -> Section:
    """Return the section of a profile of traces."""
    first = found.diagnosis[0]
    return Section(
        title="Where the time of a step goes",
        weight=WEIGHT,
        outcome=Outcome(headline=headline(first), reasons=[first.evidence, first.fix]),
        highlights=[_time(found), *_shares(found)],
        blocks=list(_blocks(found)),
    )


def headline(first: Finding) -> str:
    """Return a line about the first finding."""
    return first.title if first.won_pct is None else f"{first.title}: {first.won_pct:.1f} % of the step can be won"


def _time(found: TraceProfile) -> Fact:
    source = ", ".join(name.rsplit("/", 1)[-1] for name in found.sources)
    return Fact(label="Step, ms", value=found.step_ms, format="plain", note=source)


def _shares(found: TraceProfile) -> Iterator[Fact]:
    yield _share("GPU busy", found.gpu_busy_pct, "of the step, with any work")
    yield _share("Data wait", found.data_wait_pct, "the host waits for its loader")
    exposed = f"exposed: {found.exposed_communication_pct:.1f} %"
    yield _share("Communication", found.communication_pct, exposed)
    yield _share("Tensor cores", found.tensor_core_pct, "of the time of matrix products, where known")
    yield _share("MFU", found.mfu_pct, "model FLOPs utilization")


def _share(label: str, percent: float | None, note: str) -> Fact:
    return Fact(label=label, value=_part(percent), format="percent", note=note)


def _part(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _blocks(found: TraceProfile) -> Iterator[Block]:
    yield diagnosis(found.diagnosis)
    yield advice(found.diagnosis)
    if found.breakdown:
        yield _breakdown(found)
    yield from _pictures(found)
    if len(found.step_times_ms) > 1:
        labels = [str(number + 1) for number in range(len(found.step_times_ms))]
        yield Bars(title="Milliseconds of each step", labels=labels, heights=found.step_times_ms, format="plain")
    yield from _tables(found)
    if found.caveats:
        yield Notice(title="What the traces do not say", sentences=found.caveats)
    yield Fold(title="Look closer", blocks=[Code(title="", text="\n".join(commands(found)))])


def diagnosis(findings: Sequence[Finding]) -> Table:
    """Return what to change as a table."""
    columns = [
        Column(title="What costs time, most first"),
        Column(title="To be won, ms", format="plain"),
        Column(title="Of the time", format="percent", has_bars=True),
    ]
    rows = [Row(cells=[each.title, each.won_ms, _part(each.won_pct)]) for each in findings]
    return Table(title="Diagnosis", columns=columns, rows=rows, is_key=True)


def advice(findings: Sequence[Finding]) -> Text:
    """Return what shows it, and what helps."""
    return Text(sentences=[f"{each.title}: {each.evidence} {each.fix}" for each in findings])


def _breakdown(found: TraceProfile) -> Table:
    columns = [
        Column(title="Part"),
        Column(title="ms per step", format="plain"),
        Column(title="Of the time", format="percent", has_bars=True),
    ]
    rows = [
        Row(cells=[each.name, each.ms, each.pct / 100], tone="neutral" if each.is_idle else "good")
        for each in found.breakdown
        if each.ms
    ]
    return Table(title="Where the step of the slowest GPU goes", columns=columns, rows=rows)


def _pictures(found: TraceProfile) -> Iterator[Block]:
    if found.gpu_busy_over_time:
        bins = len(found.gpu_busy_over_time)
        points = [(100 * (i + 0.5) / bins, share) for i, share in enumerate(found.gpu_busy_over_time)]
        yield Chart(
            title="GPU busy over the steps",
            x=Axis(label="% of the traced time", ticks=[0, 25, 50, 75, 100]),
            y=Axis(label="busy, %", ticks=[0, 25, 50, 75, 100]),
            series=[Series(name="busy", points=points)],
        )
    if found.memory:
        yield _memory(found)
    if found.roofline:
        yield _roofline(found.roofline)
    if found.scaling:
        yield _scaling(found.scaling)


def _memory(found: TraceProfile) -> Chart:
    allocated = [(point.at_ms, point.allocated_bytes / 1e9) for point in found.memory]
    reserved = [(point.at_ms, point.reserved_bytes / 1e9) for point in found.memory if point.reserved_bytes]
    return Chart(
        title="Memory of the GPU (dashed: reserved)",
        x=Axis.from_zero("ms", [at for at, _ in allocated]),
        y=Axis.from_zero("GB", [size for _, size in [*allocated, *reserved]]),
        series=[
            Series(name="allocated", points=allocated),
            Series(name="reserved", style="reference", points=reserved),
        ],
    )


def _roofline(found: Roofline) -> Chart:
    ridge = 1000 * found.peak_tflops / found.bandwidth_gb_per_s
    x = _decades("FLOPs per byte", [ridge, *(point.flops_per_byte for point in found.points)])
    y = _decades("10^12 FLOP/s", [found.peak_tflops, *(point.tflops for point in found.points)])
    low, high = x.ticks[0], x.ticks[-1]
    roof = [(low, low * found.bandwidth_gb_per_s / 1000), (ridge, found.peak_tflops), (high, found.peak_tflops)]
    notes = [
        f"{short(point.name)}: {point.flops_per_byte:.3g} FLOPs/byte, {point.tflops:.3g} TFLOP/s, {point.ms:.3g} ms"
        for point in found.points
    ]
    places = [(point.flops_per_byte, point.tflops) for point in found.points]
    return Chart(
        title=f"Roofline of the {found.device}, {found.precision}",
        x=x,
        y=y,
        series=[
            Series(name="what the GPU can do", style="reference", points=roof),
            Series(name="kernels", style="points", points=places, notes=notes),
        ],
    )


def _scaling(found: Scaling) -> Chart:
    measured = [(float(point.world_size), point.step_ms) for point in found.points]
    fitted = [(float(point.world_size), point.fitted_ms) for point in found.points]
    sizes = [float(point.world_size) for point in found.points]
    return Chart(
        title="Step time by number of GPUs (dashed: fitted)",
        x=Axis(label="GPUs", ticks=sizes, scale="log"),
        y=Axis.from_zero("ms", [0.0, *(time for _, time in [*measured, *fitted])]),
        series=[
            Series(name="fitted", style="reference", points=fitted),
            Series(name="measured", style="points", points=measured),
        ],
    )


def _tables(found: TraceProfile) -> Iterator[Block]:
    if found.roofline:
        yield Text(sentences=[_basis(found.roofline)], is_fine_print=True)
    if found.scaling:
        yield Text(sentences=[_amdahl(found.scaling)], is_fine_print=True)
    if found.top_kernels:
        yield _kernels(found)
    if found.collectives:
        yield _collectives(found)
    if len(found.ranks) > 1:
        yield _ranks(found)
    if found.top_operations:
        yield _operations(found)


def _basis(found: Roofline) -> str:
    return f"Roofline: {found.basis}; peak and bandwidth by {found.source}."


def _amdahl(found: Scaling) -> str:
    most = "without a limit" if found.largest_speedup is None else f"at most {found.largest_speedup:.3g} times"
    return (
        f"Fitted: {found.compute_ms:.4g} ms of computation, {found.residual_ms:.4g} ms of host and data, "
        f"{found.alpha_ms:.3g} ms per hop and {found.ring_ms:.3g} ms per ring of communication. Amdahl's serial "
        f"share is {found.serial_share:.2%}, so more GPUs are {most} as fast as the fewest here."
    )


def _kernels(found: TraceProfile) -> Table:
    columns = [
        Column(title="Kernel", format="code"),
        Column(title="Calls", format="count"),
        Column(title="Total ms", format="plain"),
        Column(title="Mean us", format="plain"),
        Column(title="Tensor cores"),
        Column(title="Of all kernels", format="percent", has_bars=True),
    ]
    rows = [
        Row(cells=[short(each.name), each.calls, each.total_ms, each.mean_us, _cores(each), each.pct / 100])
        for each in found.top_kernels
    ]
    return Table(title="Top kernels", columns=columns, rows=rows, shown=ROWS)


def _cores(kernel: Kernel) -> str:
    """Return whether a kernel runs on tensor cores and what says so; empty where they could not help."""
    if kernel.operation not in ("matrix product", "unknown"):
        return ""
    if kernel.tensor_cores is None:
        return "unknown"
    verdict = ["yes" if kernel.tensor_cores else "no", kernel.precision, f"by {kernel.basis}"]
    return ", ".join(filter(None, verdict))


def _collectives(found: TraceProfile) -> Table:
    columns = [
        Column(title="Collective", format="code"),
        Column(title="Calls", format="count"),
        Column(title="Total ms", format="plain", has_bars=True),
        Column(title="Data", format="size"),
        Column(title="Bus GB/s", format="plain"),
    ]
    rows = [
        Row(cells=[each.name, each.calls, each.total_ms, each.bytes, each.bus_gb_per_s]) for each in found.collectives
    ]
    return Table(title="Communication", columns=columns, rows=rows)


def _ranks(found: TraceProfile) -> Table:
    columns = [
        Column(title="Rank"),
        Column(title="Device"),
        Column(title="Step ms", format="plain"),
        Column(title="Busy", format="percent"),
        Column(title="Computing, ms", format="plain", has_bars=True),
        Column(title="Data wait", format="percent"),
        Column(title="Exposed communication", format="percent"),
    ]
    rows = [
        Row(
            cells=[
                each.source.rsplit("/", 1)[-1] if each.rank is None else str(each.rank),
                str(each.device),
                each.step_ms,
                each.gpu_busy_pct / 100,
                each.compute_ms,
                each.data_wait_pct / 100,
                each.exposed_communication_pct / 100,
            ]
        )
        for each in found.ranks
    ]
    return Table(title="Ranks", columns=columns, rows=rows, shown=ROWS)


def _operations(found: TraceProfile) -> Table:
    columns = [
        Column(title="Operation", format="code"),
        Column(title="Calls", format="count"),
        Column(title="Own CPU ms", format="plain"),
        Column(title="Of all operations", format="percent", has_bars=True),
    ]
    rows = [Row(cells=[short(each.name), each.calls, each.self_cpu_ms, each.share]) for each in found.top_operations]
    return Table(title="Top operations of the host", columns=columns, rows=rows, shown=ROWS)


def commands(found: TraceProfile) -> list[str]:
    """Return command lines for a closer look, of the kernel that takes most where one is known."""
    computing = [each for each in found.top_kernels if each.kind == "computation"]
    name = short(computing[0].name).rsplit("::", 1)[-1] if computing else ""
    return [
        "nsys profile --trace=cuda,nvtx,cudnn,cublas,osrt --output=train python train.py",
        "nsys export --type sqlite train.nsys-rep",
        compute.command(name),
        "nightshift profile --trace train.sqlite kernels.csv --output profile",
    ]


def short(name: str) -> str:
    """Return a kernel's name, as long as a table has room for."""
    plain = names.short(name)
    return plain if len(plain) <= LENGTH else f"{plain[: LENGTH - 3]}..."


def _decades(label: str, values: Sequence[float]) -> Axis:
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return Axis(label=label, ticks=[10.0**power for power in range(low, max(high, low + 1) + 1)], scale="log")
