"""Labels that are names of classes."""

import pandas as pd
import pandera.pandas as pa

from nightshift.config.classes import ClassConfig
from nightshift.tasks import columns

KIND = columns.CLASS


def schema(config: ClassConfig, nullable: bool) -> pa.Column:
    """Return what labels of good rows have to be."""
    return pa.Column("string", pa.Check.isin(config.task.classes), nullable=nullable)


def read(column: pd.Series, config: ClassConfig) -> pd.Series:
    """Return labels as the config spells them, null where one is none of its classes."""
    return columns.classes(column, config.task.classes)


def names(labels: pd.Series) -> pd.Series:
    """Return what rows are counted as: their classes."""
    return labels
