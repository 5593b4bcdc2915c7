"""The items that drift compares with: of days before the training, that no network was fitted on."""

import numpy as np
import pandas as pd

from nightshift.data.splits import Plan, apart, rows_of
from nightshift.runtime.errors import UserError

SAMPLE = 256  # rows by which scales are chosen
KEYS = ["event_id", "event_time"]  # of a row; an id may come again on another day
EMBEDDED = 500  # rows of a day whose embedding is kept
REFERENCE = 2000  # rows, all with their embedding


def draw_holdout(rows: pd.DataFrame, plan: Plan, seen: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return at most `REFERENCE` rows of `plan.before` that a network was not fitted on, drawn by a seed.

    Args:
        rows: of the plan's training days, and of the days before: who they are.
        plan: the windows of the logical date.
        seen: the rows that it was fitted on.
        seed: draws.

    Raises:
        UserError: when there are none.
    """
    holdout = apart(rows_of(rows, plan.before), seen)
    if holdout.empty:
        raise UserError(
            f"{plan.before}: no rows are left for drift to compare with, that share neither group nor content with "
            "the training days; check columns.group, or choose another --date"
        )
    return holdout.iloc[np.sort(np.random.default_rng(seed).permutation(len(holdout))[:REFERENCE])]
