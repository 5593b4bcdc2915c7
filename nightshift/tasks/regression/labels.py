"""Labels that are numbers."""

from typing import TYPE_CHECKING

import pandas as pd
import pandera.pandas as pa

from nightshift.tasks import spelling
from nightshift.tasks.base import ingestion as base

if TYPE_CHECKING:
    from nightshift.config.regression import RegressionConfig


class LabelsTask(base.LabelsTask):
    """Any number."""

    kind = "number to predict; write 12.5 with a point, or set source.format.decimal and thousands"

    def schema(self, config: "RegressionConfig", nullable: bool) -> pa.Column:
        return pa.Column("Float64", nullable=nullable)

    def read(self, column: pd.Series, config: "RegressionConfig") -> pd.Series:
        return spelling.numbers(column, config.source.format).astype("Float64")

    def names(self, labels: pd.Series) -> pd.Series:
        return labels.map(lambda _: "numbers", na_action="ignore")
