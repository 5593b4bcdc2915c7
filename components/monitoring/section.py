"""What monitoring shows on the page of its run: whether to retrain, and why."""

from collections.abc import Sequence

from components.monitoring.core import AuditEntry
from nightshift.contracts.section import Fact, Link, Links, Row, Section, SectionOutcome, TableBlock, TableColumn

WEIGHT = 5
DAYS = 14


def build(entry: AuditEntry, log: Sequence[AuditEntry], audit: str) -> Section:
    """Return the section of a decision.

    Args:
        entry: of the day.
        log: the audit log's entries, oldest first.
        audit: URI of the day's entry.
    """
    outcome = SectionOutcome(
        headline=_headline(entry),
        label="requested" if entry.retrain else "not requested",
        tone="bad" if entry.retrain or entry.raised else "good",
        reasons=[entry.reason],
        next="training" if entry.retrain else None,
    )
    days = {row.day: row for row in [*log, entry]}
    columns = [TableColumn(title="Day"), TableColumn(title="Drifted signals"), TableColumn(title="Decision")]
    rows = [
        Row(cells=[day, ", ".join(row.raised) or "none", "retrain" if row.retrain else "keep"])
        for day, row in sorted(days.items(), reverse=True)
    ]
    blocks = [
        TableBlock(title="Audit log, newest day first", columns=columns, rows=rows, shown=DAYS),
        Links(title="Audit entry", links=[Link(name="audit", uri=audit)], is_key=True),
    ]
    drifted = Fact(label="Retraining", value=outcome.label, note=f"{len(entry.raised)} signals drifted")
    return Section(title="Monitoring", weight=WEIGHT, outcome=outcome, highlights=[drifted], blocks=blocks)


def _headline(entry: AuditEntry) -> str:
    """Return the first thing to know of a day: whether to train, look at the delivery, or nothing."""
    if entry.retrain:
        return "Retraining requested"
    if entry.faults:
        return f"Check the newest data: {', '.join(entry.faults)}"
    return f"Drift of {', '.join(entry.raised)}; no retraining yet" if entry.raised else "No retraining needed"
