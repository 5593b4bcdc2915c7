"""Labels that are counts."""

import pandas as pd
import pandera.pandas as pa

from nightshift.config import Config
from nightshift.tasks import columns

KIND = "count; write a whole number from 0"


def schema(_: Config, nullable: bool) -> pa.Column:
    return pa.Column("Int64", pa.Check.ge(0), nullable=nullable)


def read(column: pd.Series, _: Config) -> pd.Series:
    numbers = columns.numbers(column)
    return numbers.where((numbers >= 0) & (numbers % 1 == 0)).astype("Int64")


def names(labels: pd.Series) -> pd.Series:
    return labels.map(lambda _: "counted", na_action="ignore")
