"""What profiling shows on the page of its run: how fast the selected model trains and scores, and what limits it."""

from components.profiling import traces
from nightshift.contracts.profile import Operation, Phase, Profile
from nightshift.contracts.section import Fact, Facts, Row, Section, TableBlock, TableColumn, Text

WEIGHT = 70


def build(profile: Profile) -> Section:
    """Return the section of a profile."""
    trained = f"rows per second of the fit, {profile.model} ({profile.kind}) on {profile.device}"
    one, many = profile.scoring
    scored = f"rows per second with ONNX Runtime, {many.batch:,} per call; {one.rows_per_second:,.0f} one by one"
    facts = [
        Fact(label="Training", value=profile.rows_per_second, format="count", note=trained),
        Fact(label="Scoring", value=many.rows_per_second, format="count", note=scored),
        Fact(label="Waiting for data", value=profile.data_wait_share, format="percent", note="before the fit"),
        Fact(label="Peak memory", value=profile.peak_memory_bytes, format="size", note="while training"),
    ]
    if used := profile.activity:
        note = "of the multiprocessors, sampled during the fit"
        facts.append(Fact(label="GPU activity", value=used.sm_pct / 100, format="percent", note=note))
    tables = [*traces.describe(profile.findings), _phases(profile.phases), _operations(profile.top_operations)]
    return Section(
        title="Training profile",
        weight=WEIGHT,
        blocks=[Text(sentences=[profile.diagnosis]), Facts(facts=facts), *tables],
    )


def _phases(phases: list[Phase]) -> TableBlock:
    columns = [TableColumn(title="Phase"), TableColumn(title="Time", format="seconds", has_bars=True)]
    return TableBlock(
        title="Phases", columns=columns, rows=[Row(cells=[phase.name, phase.seconds]) for phase in phases]
    )


def _operations(operations: list[Operation]) -> TableBlock:
    columns = [
        TableColumn(title="Operation", format="code"),
        TableColumn(title="Calls", format="count"),
        TableColumn(title="CPU ms", format="plain"),
        TableColumn(title="Device ms", format="plain"),
        TableColumn(title="Share of time", format="percent", has_bars=True),
    ]
    rows = [
        Row(
            cells=[
                traces.shorten(operation.name),
                operation.calls,
                operation.self_cpu_ms,
                operation.self_device_ms,
                operation.share,
            ]
        )
        for operation in operations
    ]
    return TableBlock(title="Top operations of the fit", columns=columns, rows=rows, shown=5)
