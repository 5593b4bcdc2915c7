"""Labels that are counts."""

import pandera.pandas as pa

from nightshift.tasks import columns

KIND = "count; write a whole number from 0"


def schema(_, nullable):
    return pa.Column("Int64", pa.Check.ge(0), nullable=nullable)


def read(column, _):
    numbers = columns.numbers(column)
    return numbers.where((numbers >= 0) & (numbers % 1 == 0)).astype("Int64")


def names(labels):
    return labels.map(lambda _: "counted", na_action="ignore")
