"""What the features step shows on the page of its run: which days were made, and what the task says of them."""

from nightshift.contracts.section import Section, Text
from nightshift.contracts.tables import Table as Features
from nightshift.tasks.base.features import FeatureDetails

WEIGHT = 65


def build(table: Features, computed_days: int, device: str, described: FeatureDetails) -> Section:
    """Return the section of a features table.

    Args:
        table: the features by day.
        computed_days: days that were not in the lake yet.
        device: where they were computed.
        described: by the task.
    """
    days = f"{table.partitions[0].date} to {table.partitions[-1].date}"
    rest = len(table.partitions) - computed_days
    text = f"{table.rows:,} rows of {days}: {computed_days} days computed on {device}, {rest} were in the lake."
    text_block = Text(sentences=[text, *described.sentences])
    return Section(title="Features", weight=WEIGHT, blocks=[text_block, *described.blocks])
