"""Rows that err together: those of a customer."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.stats import bootstrap


def name_groups(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with their customer as `group`; without customers each row is a group of its own."""
    return rows.assign(group=rows["customer"])


def number_groups(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the number of each row's customer, (n,)."""
    return bootstrap.number_groups(name_groups(rows))
