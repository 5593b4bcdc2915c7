"""What ingestion shows on the page of its run: rows read, and what was quarantined for which reason."""

from collections.abc import Mapping, Sequence

from components.common.contracts.section import (
    Block,
    Column,
    Fact,
    Fold,
    Link,
    Links,
    Outcome,
    Row,
    Section,
    Table,
    Text,
)
from components.common.contracts.tables import Partition

WEIGHT = 60


def build(source: str, partitions: Sequence[Partition], read: int, quarantined: Mapping[str, int]) -> Section:
    """Return the section of an ingestion.

    Args:
        source: where the raw events came from.
        partitions: the events by day.
        read: rows read.
        quarantined: rule -> rows it rejected.
    """
    bad = sum(quarantined.values())
    days = f"{partitions[0].date} to {partitions[-1].date}"
    outcome = Outcome(headline=f"Events of {days} ingested", reasons=[f"{read:,} rows read, {bad:,} quarantined."])
    text = Text(sentences=[f"{read:,} rows of {days} read from {source}, {bad:,} of them quarantined."])
    blocks: list[Block] = [text, *_quarantine(read, quarantined), *_files(partitions)]
    highlight = Fact(label="Rows read", value=read, format="count", note=f"{bad:,} quarantined")
    return Section(title="Data", weight=WEIGHT, outcome=outcome, highlights=[highlight], blocks=blocks)


def _quarantine(read: int, quarantined: Mapping[str, int]) -> list[Block]:
    if not quarantined:
        return []
    columns = [
        Column(title="Reason"),
        Column(title="Rows", format="count"),
        Column(title="Share of rows read", format="percent"),
    ]
    worst_first = sorted(quarantined.items(), key=lambda item: -item[1])
    rows = [Row(cells=[rule, count, count / read if read else None]) for rule, count in worst_first]
    return [Table(title="Quarantined rows by reason", columns=columns, rows=rows)]


def _files(partitions: Sequence[Partition]) -> list[Block]:
    bad = {part.date: part.details.get("quarantine_uri") for part in partitions}
    links = [Link(name=day, uri=uri) for day, uri in bad.items() if uri]
    return [Fold(title="Files of quarantined rows, by day", blocks=[Links(title="", links=links)])] if links else []
