"""What profiling shows on the page of its run: how fast training is, and what limits it."""

from components.common.contracts.section import Column, Fact, Facts, Row, Section, Table, Text
from components.profiling.core import Operation, Profile

WEIGHT = 70


def build(profile: Profile) -> Section:
    """Return the section of a profile."""
    facts = [
        Fact(
            label="Throughput",
            value=profile.rows_per_second,
            format="count",
            note=f"rows per second, {profile.model} on {profile.device}",
        ),
        Fact(label="Waiting for data", value=profile.data_wait_share, format="percent", note="of the time"),
        Fact(label="Arithmetic", value=profile.flops_per_second, format="flops"),
        Fact(label="Peak memory", value=profile.peak_memory_bytes, format="size", note="while training"),
    ]
    blocks = [Text(sentences=[profile.diagnosis]), Facts(facts=facts), _operations(profile.top_operations)]
    return Section(title="Training profile", weight=WEIGHT, blocks=blocks)


def _operations(operations: list[Operation]) -> Table:
    columns = [
        Column(title="Operation", format="code"),
        Column(title="Calls", format="count"),
        Column(title="CPU ms", format="plain"),
        Column(title="Device ms", format="plain"),
        Column(title="Share of time", format="percent", has_bars=True),
    ]
    rows = [
        Row(cells=[each.name, each.calls, each.self_cpu_ms, each.self_device_ms, each.share]) for each in operations
    ]
    return Table(title="Top operations", columns=columns, rows=rows, shown=5)
