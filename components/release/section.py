"""What a release shows on the page of its run: how far it is, on what evidence, and how it came there."""

from collections.abc import Sequence

from nightshift.contracts.deployment import DeploymentOutcome
from nightshift.contracts.release_record import Release, Stage
from nightshift.contracts.section import Block, Fact, Row, Section, SectionOutcome, TableBlock, TableColumn
from nightshift.contracts.verdict import Measure, Verdict

WEIGHT = 5


def build(record: Release, verdicts: Sequence[Verdict], changed: bool, waits: Sequence[str] = ()) -> Section:
    """Return the section of a step of a release.

    Args:
        record: as it is now.
        verdicts: that were judged by; none where nothing is being released.
        changed: whether this run has changed the record.
        waits: why the challenger waits for a person; none where it does not.
    """
    reasons = record.reasons if changed else [reason for verdict in verdicts for reason in verdict.reasons]
    label = DeploymentOutcome.WAITING if waits else record.stage
    outcome = SectionOutcome(headline=headline(record), label=label, tone="neutral", reasons=list(waits) or reasons)
    blocks: list[Block] = [_states(record)]
    if verdicts:
        blocks.insert(0, _measures(verdicts))
    since = f"since {record.entries[-1].since:%Y-%m-%d %H:%M} UTC"
    fact = Fact(label="Release", value=outcome.label, note=since)
    return Section(title="Release", weight=WEIGHT, outcome=outcome, highlights=[fact], blocks=blocks)


def headline(record: Release) -> str:
    """Return how far a release is, in one line."""
    champion, challenger = record.live.version, record.challenger
    if challenger is None:
        return f"Version {champion} answers all requests"
    paused = ", paused" if record.paused else ""
    if record.stage is Stage.SHADOW:
        return f"Version {challenger.version} is compared with version {champion}, which answers all requests{paused}"
    return (
        f"Version {challenger.version} answers {challenger.traffic:.0%} of the requests, {champion} the others{paused}"
    )


def _states(record: Release) -> TableBlock:
    columns = [TableColumn(title=title) for title in ("Since (UTC)", "What", "Stage", "Versions", "By")]
    rows = [
        Row(
            cells=[
                f"{entry.since:%Y-%m-%d %H:%M}",
                entry.action.replace("_", " "),
                entry.stage,
                ", ".join(f"{served.version} ({served.traffic:.0%})" for served in entry.versions),
                entry.by,
            ]
        )
        for entry in reversed(record.entries)
    ]
    return TableBlock(title="Release record, newest first", columns=columns, rows=rows, shown=10)


def _measures(verdicts: Sequence[Verdict]) -> TableBlock:
    columns = [
        TableColumn(title="Gate"),
        TableColumn(title="Measure"),
        TableColumn(title="Value", format="plain"),
        TableColumn(title="Good", format="plain"),
    ]
    rows = [
        Row(cells=[verdict.gate, measure.name.replace("_", " "), measure.value, _describe_limit(measure)])
        for verdict in verdicts
        for measure in verdict.measures
    ]
    return TableBlock(title="Evidence", columns=columns, rows=rows, is_key=True)


def _describe_limit(measure: Measure) -> str | None:
    if measure.limit is None:
        return None
    return f"{'at least' if measure.higher_is_better else 'at most'} {measure.limit:g}"
