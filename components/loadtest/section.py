"""What the load test shows on the page of its run: throughput and latency, the best settings, costs."""

from collections.abc import Iterator
from typing import Any

from nightshift.contracts.loadtest import Cost, LoadTest, Point, Share, Trial
from nightshift.contracts.section import (
    Axis,
    Block,
    Chart,
    Column,
    Fact,
    Outcome,
    Row,
    Section,
    Series,
    Table,
    Text,
)
from nightshift.contracts.verdict import Verdict

WEIGHT = 60
ROWS = 7  # of the table, before the rest is folded
BUSY = 0.9  # of a core: from here on the client is what limits


def build(found: LoadTest, verdict: Verdict, kept: str | None) -> Section:
    """Return the section of a load test.

    Args:
        found: `loadtest.json`.
        verdict: what it says.
        kept: where the best settings are kept for the local endpoint, None where they are not.
    """
    return Section(
        title="Load test",
        weight=WEIGHT,
        outcome=Outcome.from_verdict(verdict, f"Load test of version {found.version}: {verdict.decision}"),
        highlights=[_capacity(found)],
        blocks=list(_blocks(found, kept)),
    )


def _capacity(found: LoadTest) -> Fact:
    note = f"{found.chosen}; 99th percentile below {found.limit_ms:g} ms"
    return Fact(label="Requests per second", value=found.capacity, format="count", note=note if found.chosen else "")


def _blocks(found: LoadTest, kept: str | None) -> Iterator[Block]:
    yield _best(found)
    yield _curve(found)
    yield Text(sentences=list(_legend(found)), is_fine_print=True)
    yield _points(found)
    yield _breakdown(found.breakdown)
    if found.chosen:
        yield Text(sentences=[_scaling(found)])
    if kept:
        yield Text(sentences=[f"The endpoint has the best settings with one worker from its next start on: {kept}."])
    if found.costs:
        yield _costs(found.costs)


def _curve(found: LoadTest) -> Chart:
    """Chart the 99th percentile over the throughput of the open loop; the line is the chosen settings'."""
    drawn = next((each for each in found.trials if each.settings == found.chosen), found.trials[0])
    points = [point for each in found.trials for point in each.open if point.p99_ms is not None]
    x = Axis.from_zero("requests answered per second", [point.per_second for point in points])
    y = Axis.from_zero("99th percentile, ms", [found.limit_ms, *(point.p99_ms or 0 for point in points)], "sqrt")
    limit = [(x.ticks[0], found.limit_ms), (x.ticks[-1], found.limit_ms)]
    notes = [f"{each.settings}: {point.per_second:,.0f} requests/s, {point.p99_ms:.3g} ms"
             for each in found.trials for point in each.open if point.p99_ms is not None]  # fmt: skip
    return Chart(
        title="Throughput and latency",
        x=x,
        y=y,
        series=[
            Series(name="limit", style="reference", points=limit),
            Series(name=str(drawn.settings), points=_places(drawn)),
            Series(
                name="all settings", style="points", notes=notes, points=[(p.per_second, p.p99_ms or 0) for p in points]
            ),
        ],
    )


def _places(trial: Trial) -> list[tuple[float, float]]:
    return sorted((point.per_second, point.p99_ms) for point in trial.open if point.p99_ms is not None)


def _legend(found: LoadTest) -> Iterator[str]:
    yield (
        "Open loop: requests are due at random times, and a latency counts from then, so waiting is part of it. "
        "Line: the chosen settings; points: all that were tried; dashed: the limit."
    )
    yield f"Client and server shared {found.cores} cores, so a machine of its own takes more."
    points = [point for each in found.trials for point in [*each.closed, *each.open]]
    if any(point.client_cpu > BUSY for point in points):
        yield "In some measurements the client took a whole core: there the throughput may be the client's limit."


def _best(found: LoadTest) -> Table:
    columns = [
        Column(title="Settings"),
        *(Column(title=title, format="count") for title in ("Open loop", "Closed loop")),
    ]
    rows = [
        Row(
            cells=[str(each.settings), each.capacity, max(point.per_second for point in each.closed)],
            **_mark(each, found),
        )
        for each in found.trials
    ]
    return Table(title="Requests per second within the limit, and at most", columns=columns, rows=rows, is_key=True)


def _mark(trial: Trial, found: LoadTest) -> dict[str, Any]:
    return {"tag": "chosen", "tone": "good"} if trial.settings == found.chosen else {}


def _points(found: LoadTest) -> Table:
    columns = [
        Column(title="Settings"),
        Column(title="Load"),
        Column(title="Requests/s", format="count"),
        Column(title="p50 ms", format="plain"),
        Column(title="p99 ms", format="plain", limit=found.limit_ms, has_bars=True),
        Column(title="Errors", format="count"),
        Column(title="CPU us/request", format="plain"),
    ]
    rows = [_row(each, point, found) for each in found.trials for point in [*each.closed, *each.open]]
    return Table(title="Measurements", columns=columns, rows=rows, shown=ROWS)


def _row(trial: Trial, point: Point, found: LoadTest) -> Row:
    load = f"closed, {point.connections}" if point.offered is None else f"open, {point.offered:,.0f}/s"
    cells = [str(trial.settings), load, point.per_second, point.p50_ms, point.p99_ms, point.failed, point.server_cpu_us]
    return Row(cells=cells, **_mark(trial, found))


def _breakdown(shares: list[Share]) -> Table:
    columns = [Column(title="Part"), Column(title="Microseconds", format="plain", has_bars=True)]
    rows = [Row(cells=[each.name, each.microseconds]) for each in shares]
    return Table(title="Where the latency of a lone request comes from", columns=columns, rows=rows)


def _costs(costs: list[Cost]) -> Table:
    columns = [
        Column(title="Machine"),
        Column(title="USD per million predictions", format="plain"),
        Column(title="USD per hour", format="plain"),
        Column(title="vCPUs", format="count"),
        Column(title="Price of"),
    ]
    rows = [Row(cells=[each.machine, each.usd_per_million, each.usd_per_hour, each.vcpus, each.date]) for each in costs]
    return Table(title="Cost, if a vCPU there is a core here", columns=columns, rows=rows)


def _scaling(found: LoadTest) -> str:
    return (
        f"An autoscaler may aim at {found.requests_per_second:,.0f} requests per second of one replica, "
        f"{found.utilization:.0%} of its capacity, with {found.concurrency:,} in flight "
        "(state.serving.requests_per_second and concurrency)."
    )
