"""Labels of rows of a table: 0 and 1."""

import pandas as pd
import pandera.pandas as pa

from nightshift.config.tabular import TabularConfig
from nightshift.tasks import columns

KIND = columns.LABEL
NAMES = {0: "negative", 1: "positive"}


def schema(_: TabularConfig, nullable: bool) -> pa.Column:
    """Return what labels of good rows have to be."""
    return pa.Column("Int8", pa.Check.isin((0, 1)), nullable=nullable)


def read(column: pd.Series, config: TabularConfig) -> pd.Series:
    """Return labels, Int8, null where one cannot be read."""
    spelled = config.source.format
    if spelled.positive:
        return columns.named_labels(column, spelled.positive, spelled.negative)
    return columns.labels(column)


def names(labels: pd.Series) -> pd.Series:
    """Return what rows are counted as."""
    return labels.map(NAMES)
