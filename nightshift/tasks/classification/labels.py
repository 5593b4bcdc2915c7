"""Labels that are names of classes."""

import pandas as pd
import pandera.pandas as pa

from nightshift.config import Config
from nightshift.tasks import columns

KIND = columns.CLASS


def schema(config: Config, nullable: bool) -> pa.Column:
    """Return what labels of good rows have to be."""
    return pa.Column("string", pa.Check.isin(config.classes.classes), nullable=nullable)


def read(column: pd.Series, config: Config) -> pd.Series:
    """Return labels as the config spells them, null where one is none of its classes."""
    return columns.classes(column, config.classes.classes)


def names(labels: pd.Series) -> pd.Series:
    """Return what rows are counted as: their classes."""
    return labels
