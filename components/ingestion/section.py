"""What ingestion shows on the page of its run: rows read, and what was quarantined for which reason."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from components.ingestion.sources.coverage import spans
from components.ingestion.sources.files import NO_FILES
from components.ingestion.tally import Totals, rows_of
from nightshift.contracts.section import (
    Block,
    Fact,
    FoldedBlocks,
    Link,
    Links,
    Row,
    Section,
    SectionOutcome,
    TableBlock,
    TableColumn,
    Text,
)
from nightshift.contracts.tables import Partition

WEIGHT = 60
SHOWN = 12


def build(source: str, partitions: Sequence[Partition], totals: Totals, alerts: Sequence[str] = ()) -> Section:
    """Return the section of an ingestion.

    Args:
        source: where the raw events came from.
        partitions: the events by day.
        totals: their rows, and the quarantined ones.
        alerts: what a person has to know, sentences.
    """
    read, bad, days = totals.read, totals.bad, f"{partitions[0].date} to {partitions[-1].date}"
    outcome = SectionOutcome(
        headline=f"Events of {days} ingested",
        label="look at them first" if alerts else "rows left out" if bad else "",
        tone="bad" if alerts else "neutral",
        reasons=[*alerts, f"{read:,} rows read, {bad:,} quarantined.", *_by_label(totals)],
    )
    sentences = [f"{read:,} rows of {days} read from {source}, {bad:,} of them quarantined.", *alerts]
    text = Text(sentences=[*sentences, *empty_days(partitions)])
    blocks: list[Block] = [text, *_quarantine(totals), *_source_counts(partitions), *_files(partitions)]
    highlight = Fact(label="Rows read", value=read, format="count", note=f"{bad:,} quarantined")
    return Section(title="Data", weight=WEIGHT, outcome=outcome, highlights=[highlight], blocks=blocks)


def empty_days(partitions: Sequence[Partition]) -> list[str]:
    """Return a sentence about days without rows, if there are any."""
    empty = [part for part in partitions if not part.details["labels"]]
    unsent = sum(part.details["source_sha256"] == NO_FILES for part in empty)
    days = spans([date.fromisoformat(part.date) for part in empty])
    files = f", {unsent} of them no file" if unsent else ""
    return [f"{len(empty)} days (UTC) have no rows{files}: {days}."] if empty else []


def late_labels(unlabeled: Mapping[str, int]) -> list[str]:
    """Return a sentence about days whose labels are late, if there are any.

    Args:
        unlabeled: day -> rows without a label that is due.
    """
    days = spans([date.fromisoformat(day) for day in unlabeled])
    return (
        [
            f"The labels of {days} are late: {sum(unlabeled.values()):,} rows have none. These rows are scored and "
            "monitored and count as negative in features, and no model is trained on their days; deliver the labels, "
            "or raise label_delay_days if labels take longer."
        ]
        if unlabeled
        else []
    )


def _by_label(totals: Totals) -> Iterator[str]:
    """Yield a sentence for each label of which rows are left out, the largest share first."""
    shares = {label: rows / totals.labels[label] for label, rows in totals.left_out.items()}
    for label in sorted(shares, key=lambda label: -shares[label]):
        rule, name = totals.worst_rule(label), rows_of(label) if totals.has_labels else "rows"
        yield (
            f"{totals.left_out[label]:,} of {totals.labels[label]:,} {name} ({shares[label]:.2%}) are left "
            f"out, {totals.quarantined[rule][label]:,} of them by {rule}."
        )


def _quarantine(totals: Totals) -> Iterator[TableBlock]:
    """Yield the quarantined rows by reason and, where rows have labels, by label."""
    if not totals.bad:
        return
    labels = ["all"] if totals.has_labels else []
    columns = [
        TableColumn(title="Reason"),
        *(TableColumn(title="Label") for _ in labels),
        TableColumn(title="Rows", format="count"),
        TableColumn(title="Share of such rows read", format="percent"),
    ]
    rows = []
    for rule, count in totals.by_rule.items():
        rows.append(Row(cells=[rule, *labels, count, count / totals.read]))
        rows += [
            Row(cells=[rule, label or "no label", bad, bad / totals.labels[label]])
            for label, bad in totals.quarantined[rule].most_common()
            if labels
        ]
    title = f"Quarantined rows by reason{' and label' if labels else ''}"
    yield TableBlock(title=title, columns=columns, rows=rows, shown=SHOWN, is_key=len(rows) <= SHOWN)


def _source_counts(partitions: Sequence[Partition]) -> Iterator[TableBlock]:
    """Yield what the source has counted on all days, such as what was masked in them."""
    counts = sum((Counter(part.details.get("source_counts", {})) for part in partitions), Counter[str]())
    if counts:
        columns = [TableColumn(title="Counted by the source"), TableColumn(title="Number", format="count")]
        rows = [Row(cells=[name, count]) for name, count in sorted(counts.items())]
        yield TableBlock(title="What the source says of its rows", columns=columns, rows=rows, shown=SHOWN)


def _files(partitions: Sequence[Partition]) -> list[Block]:
    bad = {part.date: part.details.get("quarantine_uri") for part in partitions}
    links = [Link(name=day, uri=uri) for day, uri in bad.items() if uri]
    return (
        [FoldedBlocks(title="Files of quarantined rows, by day", blocks=[Links(title="", links=links)])]
        if links
        else []
    )
