"""The rules for rows of a table: what an endpoint could not be asked is left out."""

from typing import TYPE_CHECKING

from nightshift.config.columns import Holds
from nightshift.config.tabular import TabularConfig

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd


def faults(typed: "pd.DataFrame", config: TabularConfig) -> "pd.Series":
    """Return for each row why an endpoint would refuse it, see `config.limits`, or null."""
    import pandas as pd

    over = pd.Series(False, typed.index)
    if "amount" in typed:
        over |= typed["amount"].abs() > config.largest_amount
    for role in config.columns.holding(Holds.IDENTIFIER):
        if typed[role].dtype != "Int64":
            over |= (typed[role].str.len() > config.limits.longest_id).fillna(False).astype(bool)
    return pd.Series(None, typed.index, dtype=object).mask(over, "over_limit")


def near_duplicates(contents: "pd.Series", _: TabularConfig) -> "npt.NDArray[np.bool_]":
    """Return which contents are nearly an earlier one: none, since rows have no content."""
    import numpy as np

    return np.zeros(len(contents), bool)


def rules(config: TabularConfig) -> dict[str, object]:
    """Return what decides which rows are good, beside columns and zone."""
    rules: dict[str, object] = {"longest_id": config.limits.longest_id}
    rules |= {"largest_amount": config.largest_amount} if config.columns.holding(Holds.AMOUNT) else {}
    return rules | config.limits.exceptions
