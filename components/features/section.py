"""What the features step shows on the page of its run: which inputs were made for which days."""

from collections.abc import Sequence

from components.common.contracts.online import Replay
from components.common.contracts.section import Column, Row, Section, Table, Text
from components.common.contracts.tables import Table as Features

WEIGHT = 65
SHOWN = 5


def build(table: Features, computed_days: int, device: str) -> Section:
    """Return the section of a features table.

    Args:
        table: the features by day.
        computed_days: days that were not in the lake yet.
        device: where they were computed.
    """
    days = f"{table.partitions[0].date} to {table.partitions[-1].date}"
    text = (
        f"{table.rows:,} rows of {days}: {computed_days} of {len(table.partitions)} days computed on {device}, the "
        "others were in the lake."
    )
    numeric, categorical = table.details["numeric"], table.details["categorical"]
    sentences = [text, _replayed(Replay.model_validate(table.details["replay"]))]
    return Section(title="Features", weight=WEIGHT, blocks=[Text(sentences=sentences), _inputs(numeric, categorical)])


def of_shards(table: Features, computed_days: int) -> Section:
    """Return the section of a features table whose rows lie in shards, of which some days were made now."""
    days = f"{table.partitions[0].date} to {table.partitions[-1].date}"
    text = (
        f"{table.rows:,} rows of {days}: {computed_days} of {len(table.partitions)} days made, the others were there."
    )
    return Section(title="Features", weight=WEIGHT, blocks=[Text(sentences=[text])])


def _replayed(replay: Replay) -> str:
    said = f"Replayed online, {replay.differing:,} of {replay.rows:,} events of {replay.day} differ"
    return f"{said} by up to {replay.largest:.3g}, in {replay.worst}." if replay.differing else f"{said}."


def _inputs(numeric: Sequence[str], categorical: Sequence[str]) -> Table:
    rows = [Row(cells=[name, kind]) for kind, names in _kinds(numeric, categorical) for name in names]
    columns = [Column(title="Input"), Column(title="Type")]
    return Table(title=f"{len(rows)} model inputs", columns=columns, rows=rows, shown=SHOWN)


def _kinds(numeric: Sequence[str], categorical: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    return [("numeric", numeric), ("categorical", categorical)]
