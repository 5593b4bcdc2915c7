"""Labels that are counts."""

import pandera.pandas as pa

from nightshift.tasks import columns
from nightshift.tasks.base import ingestion as base


class LabelsTask(base.LabelsTask):
    kind = "count; write a whole number from 0"

    def schema(self, _, nullable):
        return pa.Column("Int64", pa.Check.ge(0), nullable=nullable)

    def read(self, column, _):
        numbers = columns.numbers(column)
        return numbers.where((numbers >= 0) & (numbers % 1 == 0)).astype("Int64")

    def names(self, labels):
        return labels.map(lambda _: "counted", na_action="ignore")
