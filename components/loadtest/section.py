"""What the load test shows on the page of its run: throughput and latency, the best settings, costs."""

from collections.abc import Iterator
from typing import Any

from nightshift.contracts.loadtest import LatencyShare, LoadTest, LoadTrial, Point, PredictionCost
from nightshift.contracts.section import (
    Axis,
    Block,
    Chart,
    Fact,
    Link,
    Links,
    Row,
    Section,
    SectionOutcome,
    Series,
    TableBlock,
    TableColumn,
    Text,
)
from nightshift.contracts.verdict import Verdict

WEIGHT = 60
ROWS = 7  # rows of the table before the rest is folded
BUSY = 0.9  # share of a core from which on the client is the limit


def build(loadtest: LoadTest, verdict: Verdict, kept: str | None) -> Section:
    """Return the section of a load test.

    Args:
        loadtest: `loadtest.json`.
        verdict: verdict on the load test.
        kept: file with the best settings for the local endpoint; None without one.
    """
    return Section(
        title="Load test",
        weight=WEIGHT,
        outcome=SectionOutcome.from_verdict(verdict, f"Load test of version {loadtest.version}: {verdict.decision}"),
        highlights=[_capacity(loadtest)],
        blocks=list(_blocks(loadtest, kept)),
    )


def _capacity(loadtest: LoadTest) -> Fact:
    note = f"{loadtest.chosen}; 99th percentile below {loadtest.limit_ms:g} ms"
    return Fact(
        label="Requests per second", value=loadtest.capacity, format="count", note=note if loadtest.chosen else ""
    )


def _blocks(loadtest: LoadTest, kept: str | None) -> Iterator[Block]:
    yield _best(loadtest)
    yield _curve(loadtest)
    yield Text(sentences=list(_legend(loadtest)), is_fine_print=True)
    yield _points(loadtest)
    yield _breakdown(loadtest.breakdown)
    if loadtest.chosen:
        yield Text(sentences=[_scaling(loadtest)])
    if kept:
        yield Text(sentences=["The endpoint has the best settings with one worker from its next start on."])
        yield Links(title="", links=[Link(name="settings of the endpoint", uri=kept)])
    if loadtest.costs:
        yield _costs(loadtest.costs)


def _curve(loadtest: LoadTest) -> Chart:
    """Chart the 99th percentile over the throughput of the open loop; the line is the chosen settings'."""
    chosen = next((trial for trial in loadtest.trials if trial.settings == loadtest.chosen), loadtest.trials[0])
    points = [point for trial in loadtest.trials for point in trial.open if point.p99_ms is not None]
    x = Axis.from_zero("requests answered per second", [point.per_second for point in points])
    y = Axis.from_zero("99th percentile, ms", [loadtest.limit_ms, *(point.p99_ms or 0 for point in points)], "sqrt")
    limit = [(x.ticks[0], loadtest.limit_ms), (x.ticks[-1], loadtest.limit_ms)]
    notes = [f"{trial.settings}: {point.per_second:,.0f} requests/s, {point.p99_ms:.3g} ms"
             for trial in loadtest.trials for point in trial.open if point.p99_ms is not None]  # fmt: skip
    return Chart(
        title="Throughput and latency",
        x=x,
        y=y,
        series=[
            Series(name="limit", style="reference", points=limit),
            Series(name=str(chosen.settings), points=_coordinates(chosen)),
            Series(
                name="all settings", style="points", notes=notes, points=[(p.per_second, p.p99_ms or 0) for p in points]
            ),
        ],
    )


def _coordinates(trial: LoadTrial) -> list[tuple[float, float]]:
    return sorted((point.per_second, point.p99_ms) for point in trial.open if point.p99_ms is not None)


def _legend(loadtest: LoadTest) -> Iterator[str]:
    yield (
        "Open loop: requests are due at random times, and a latency counts from then, so waiting is part of it. "
        "Less is better, and the mark on a bar is the limit."
    )
    yield f"Client and server shared {loadtest.cores} cores, so a machine of its own takes more."
    points = [point for trial in loadtest.trials for point in [*trial.closed, *trial.open]]
    if any(point.client_cpu > BUSY for point in points):
        yield "In some measurements the client took a whole core: there the throughput may be the client's limit."


def _best(loadtest: LoadTest) -> TableBlock:
    columns = [
        TableColumn(title="Settings"),
        TableColumn(title="Within the limit (open loop)", format="count"),
        TableColumn(title="At most (closed loop)", format="count"),
    ]
    rows = [
        Row(
            cells=[str(trial.settings), trial.capacity or None, max(point.per_second for point in trial.closed)],
            **_mark(trial, loadtest),
        )
        for trial in loadtest.trials
    ]
    return TableBlock(title="Requests per second", columns=columns, rows=rows, is_key=True)


def _mark(trial: LoadTrial, loadtest: LoadTest) -> dict[str, Any]:
    return {"tag": "chosen", "tone": "good"} if trial.settings == loadtest.chosen else {}


def _points(loadtest: LoadTest) -> TableBlock:
    columns = [
        TableColumn(title="Settings"),
        TableColumn(title="Load"),
        TableColumn(title="Requests/s", format="count"),
        TableColumn(title="p50, ms", format="plain"),
        TableColumn(title="p99, ms", format="plain", limit=loadtest.limit_ms, has_bars=True),
        TableColumn(title="Errors", format="count"),
        TableColumn(title="CPU, us a request", format="plain"),
    ]
    rows = [_row(trial, point, loadtest) for trial in loadtest.trials for point in [*trial.closed, *trial.open]]
    return TableBlock(title="Measurements", columns=columns, rows=rows, shown=ROWS)


def _row(trial: LoadTrial, point: Point, loadtest: LoadTest) -> Row:
    load = f"closed, {point.connections}" if point.offered is None else f"open, {point.offered:,.0f}/s"
    cells = [
        str(trial.settings),
        load,
        point.per_second,
        point.p50_ms,
        point.p99_ms,
        point.failures,
        point.server_cpu_us,
    ]
    return Row(cells=cells, **_mark(trial, loadtest))


def _breakdown(shares: list[LatencyShare]) -> TableBlock:
    columns = [TableColumn(title="Part"), TableColumn(title="Microseconds", format="plain", has_bars=True)]
    rows = [Row(cells=[share.name, share.microseconds]) for share in shares]
    return TableBlock(title="Where the latency of a lone request comes from", columns=columns, rows=rows)


def _costs(costs: list[PredictionCost]) -> TableBlock:
    columns = [
        TableColumn(title="Machine"),
        TableColumn(title="USD per million predictions", format="plain"),
        TableColumn(title="USD per hour", format="plain"),
        TableColumn(title="vCPUs", format="count"),
        TableColumn(title="Price of"),
    ]
    rows = [Row(cells=[cost.machine, cost.usd_per_million, cost.usd_per_hour, cost.vcpus, cost.date]) for cost in costs]
    return TableBlock(title="Cost, if a vCPU there is a core here", columns=columns, rows=rows)


def _scaling(loadtest: LoadTest) -> str:
    return (
        f"An autoscaler may aim at {loadtest.requests_per_second:,.0f} requests per second of one replica, "
        f"{loadtest.utilization:.0%} of its capacity, with {loadtest.concurrency:,} in flight "
        "(state.serving.requests_per_second and concurrency)."
    )
