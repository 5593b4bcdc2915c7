"""Labels that are names of classes."""

import pandas as pd
import pandera.pandas as pa

from nightshift.config.classes import ClassConfig
from nightshift.tasks import columns
from nightshift.tasks.base import ingestion as base


class LabelsTask(base.LabelsTask):
    """Names of classes."""

    kind = columns.CLASS

    def schema(self, config: ClassConfig, nullable: bool) -> pa.Column:
        return pa.Column("string", pa.Check.isin(config.task.classes), nullable=nullable)

    def read(self, column: pd.Series, config: ClassConfig) -> pd.Series:
        return columns.classes(column, config.task.classes)
