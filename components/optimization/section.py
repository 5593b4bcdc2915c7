"""What optimization shows on the page of its run: the forms of the graph, what they lose and how fast they are."""

from nightshift.contracts.optimization import Attempt, Optimization
from nightshift.contracts.section import Cell, Column, Outcome, Row, Section, Table, Text
from nightshift.contracts.verdict import Verdict

WEIGHT = 45


def build(found: Optimization, verdict: Verdict) -> Section:
    """Return the section of an optimization.

    Args:
        found: `optimization.json`.
        verdict: what it says.
    """
    is_changed = found.sha256 != found.original_sha256
    outcome = Outcome(
        headline=f"The graph of {found.candidate}: {found.chosen}",
        label="optimized" if is_changed else "unchanged",
        tone="good" if is_changed else "neutral",
        reasons=verdict.reasons,
    )
    legend = (
        f"Loss of {found.metric} on {found.rows:,} validation rows, with its paired 95 % interval, and median times "
        "of a call; the forms took turns."
    )
    blocks = [_forms(found), Text(sentences=[legend], is_fine_print=True)]
    return Section(title="Optimization", weight=WEIGHT, outcome=outcome, blocks=blocks)


def _forms(found: Optimization) -> Table:
    many = found.attempts[0].latencies[-1].rows
    columns = [
        Column(title="Form"),
        Column(title="Loss", format="plain"),
        Column(title="Otherwise decided", format="percent"),
        Column(title="One row, ms", format="plain"),
        Column(title=f"{many:,} rows, ms", format="plain"),
        Column(title="Size, bytes", format="count"),
        Column(title="Why"),
    ]
    rows = [_row(each, each.name == found.chosen) for each in found.attempts]
    return Table(title="Forms of the selected graph", columns=columns, rows=rows)


def _row(attempt: Attempt, is_chosen: bool) -> Row:
    times: list[Cell] = [each.median_ms for each in attempt.latencies] or [None, None]
    cells: list[Cell] = [attempt.name, attempt.loss, attempt.flipped, *times, attempt.size, attempt.reason]
    return Row(cells=cells, tag="chosen" if is_chosen else "", tone="good" if is_chosen else "neutral")
