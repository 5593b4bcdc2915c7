"""Labels of rows of a table: 0 and 1."""

import pandas as pd
import pandera.pandas as pa

from nightshift.config.tabular import TabularConfig
from nightshift.tasks import columns
from nightshift.tasks.base import ingestion as base

NAMES = {0: "negative", 1: "positive"}


class LabelsTask(base.LabelsTask):
    """0 and 1."""

    kind = columns.LABEL

    def schema(self, config: TabularConfig, nullable: bool) -> pa.Column:
        return pa.Column("Int8", pa.Check.isin((0, 1)), nullable=nullable)

    def read(self, column: pd.Series, config: TabularConfig) -> pd.Series:
        spelled = config.source.format
        if spelled.positive:
            return columns.named_labels(column, spelled.positive, spelled.negative)
        return columns.labels(column)

    def names(self, labels: pd.Series) -> pd.Series:
        return labels.map(NAMES)
