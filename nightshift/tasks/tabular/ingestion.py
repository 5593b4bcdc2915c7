"""The rules for rows of a table: what an endpoint could not be asked is left out."""

from typing import TYPE_CHECKING

from nightshift.config.columns import Holds
from nightshift.config.tabular import TableConfig
from nightshift.tasks.base import ingestion as base

if TYPE_CHECKING:
    import pandas as pd


class IngestionTask(base.IngestionTask):
    """The limits within which an endpoint can be asked."""

    def faults(self, typed: "pd.DataFrame", config: TableConfig) -> "pd.Series":
        import pandas as pd

        over = pd.Series(False, typed.index)
        if "amount" in typed:
            over |= typed["amount"].abs() > config.largest_amount
        for role in config.columns.holding(Holds.IDENTIFIER):
            if typed[role].dtype != "Int64":
                over |= (typed[role].str.len() > config.limits.longest_id).fillna(False).astype(bool)
        return pd.Series(None, typed.index, dtype=object).mask(over, "over_limit")

    def rules(self, config: TableConfig) -> dict[str, object]:
        rules: dict[str, object] = {"longest_id": config.limits.longest_id}
        rules |= {"largest_amount": config.largest_amount} if config.columns.holding(Holds.AMOUNT) else {}
        return rules | config.limits.exceptions
