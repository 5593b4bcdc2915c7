"""Labels that are names of classes, one of each row or any number."""

import pandas as pd
import pandera.pandas as pa

from nightshift.config.classes import ClassConfig, ItemTaskConfig
from nightshift.tasks import columns
from nightshift.tasks.base import ingestion as base


class LabelsTask(base.LabelsTask):
    """Names of classes."""

    kind = columns.CLASS

    def schema(self, config: ClassConfig, nullable: bool) -> pa.Column:
        known = [] if config.task.is_multilabel else [pa.Check.isin(config.task.classes)]
        return pa.Column("string", known, nullable=nullable)

    def read(self, column: pd.Series, config: ClassConfig) -> pd.Series:
        task = config.task
        if isinstance(task, ItemTaskConfig) and task.label_separator is not None:
            return columns.label_sets(column, task.classes, task.label_separator)
        return columns.classes(column, task.classes)
