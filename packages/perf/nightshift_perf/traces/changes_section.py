"""What a comparison of two trainings shows."""

from collections.abc import Sequence

from nightshift.contracts.section import Fact, Notice, Row, Section, SectionOutcome, TableBlock, TableColumn
from nightshift_perf.contracts import FindingChange, TimeChange, TraceChanges
from nightshift_perf.traces.section import WEIGHT, short

Interval = tuple[float, float] | None


def build(changes: TraceChanges) -> Section:
    """Return the section of a comparison."""
    blocks = [
        _times("What became faster", changes.parts, "Part"),
        _times("By operation", changes.operations, "Operation"),
        _findings(changes.findings),
    ]
    notices = [Notice(title="What the traces do not say", sentences=changes.caveats)] if changes.caveats else []
    return Section(
        title="Before and after",
        weight=WEIGHT,
        outcome=SectionOutcome(headline=headline(changes), reasons=[]),
        highlights=[
            Fact(label="Before, ms", value=changes.step.before_ms, format="plain", note=_names(changes.before)),
            Fact(label="After, ms", value=changes.step.after_ms, format="plain", note=_names(changes.after)),
        ],
        blocks=[block for block in blocks if block.rows] + notices,
    )


def headline(changes: TraceChanges) -> str:
    """Return a line about the whole step."""
    step = changes.step
    verdict = {"faster": "Faster", "slower": "Slower"}.get(changes.verdict, "Undecided")
    ratio = step.before_ms / max(step.after_ms, 1e-9)
    return (
        f"{verdict}: {step.before_ms:,.4g} -> {step.after_ms:,.4g} ms a step ({ratio:.3g} times as fast), "
        f"{describe_saving(step)}, {changes.pairs} pairs of steps"
    )


def describe_saving(change: TimeChange) -> str:
    """Return what is saved, and its interval."""
    interval = f" (95 %: {describe_interval(change.interval_ms)})" if change.interval_ms else ""
    return f"{change.saved_ms:,.4g} ms saved{interval}"


def describe_interval(interval: Interval) -> str:
    """Return an interval as text; empty without one."""
    return f"{interval[0]:,.4g} to {interval[1]:,.4g}" if interval else ""


def describe_finding(finding: FindingChange) -> str:
    """Return what a finding cost, costs, and was said to win."""
    stated = f"; {describe_interval(finding.stated_ms)} ms were to be won" if finding.stated_ms else ""
    return f"{finding.title}: {finding.before_ms:,.4g} -> {finding.after_ms:,.4g} ms a step{stated}"


def _names(sources: Sequence[str]) -> str:
    return ", ".join(name.rsplit("/", 1)[-1] for name in sources)


def _times(title: str, changes: Sequence[TimeChange], what: str) -> TableBlock:
    columns = [
        TableColumn(title=what),
        TableColumn(title="Before, ms", format="plain"),
        TableColumn(title="After, ms", format="plain"),
        TableColumn(title="Saved, ms", format="plain"),
        TableColumn(title="95 %"),
    ]
    rows = [
        Row(cells=[short(one.name), one.before_ms, one.after_ms, one.saved_ms, describe_interval(one.interval_ms)])
        for one in changes
    ]
    return TableBlock(title=title, columns=columns, rows=rows)


def _findings(findings: Sequence[FindingChange]) -> TableBlock:
    columns = [
        TableColumn(title="Finding"),
        TableColumn(title="Cost before, ms", format="plain"),
        TableColumn(title="Cost after, ms", format="plain"),
        TableColumn(title="Said to be won, ms"),
    ]
    rows = [Row(cells=[one.title, one.before_ms, one.after_ms, describe_interval(one.stated_ms)]) for one in findings]
    return TableBlock(title="The diagnosis before and after", columns=columns, rows=rows)
