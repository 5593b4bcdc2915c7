"""Columns that hold the answer: they were filled in after the outcome was known."""

import numpy as np
import pandas as pd

from nightshift.guessing.profiles import ColumnProfile

MIN_POSITIVES = 20  # fewer are told apart by chance
SURE = 0.99  # share of those called positive that are so, at which a column is taken to know the outcome
KNOWN = 0.5  # share of the positives that it knows at least, since not every fraud has been refunded yet
ROWS_PER_VALUE = 20  # of a column by whose values labels are looked up: with fewer rows each, any column knows them


def find_leak(column: ColumnProfile, label: pd.Series, event_time: pd.Series) -> str:
    """Return why a column is taken for one that was filled in afterwards; empty where it is not.

    Args:
        column: no id, and neither the event's time nor its label.
        label: 0 and 1 as float64, NaN where it is not known.
        event_time: naive UTC.
    """
    is_given = column.typed.notna()
    if column.kind == "time":
        later = (column.typed > event_time)[is_given]
        return f"on {later.mean():.0%} of its rows it is later than the event" if later.mean() > 1 / 2 else ""
    known = label.notna()
    positive = label[known] == 1
    if positive.sum() < MIN_POSITIVES or (~positive).sum() < MIN_POSITIVES:
        return ""
    values, is_given = column.typed[known], is_given[known]
    if _tells(is_given, positive):
        return "it is filled in on positive rows alone"
    if _tells(~is_given, positive):
        return "it is empty on positive rows alone"
    if column.distinct * ROWS_PER_VALUE <= len(values):
        shares = positive.groupby(values.to_numpy()).transform("mean").reindex(positive.index)
        if _tells(shares > 1 / 2, positive):
            return "its values tell the label"
    if column.kind in ("whole", "number") and _separates(values, positive):
        return "its numbers tell the label"
    return ""


def count_days(times: pd.Series, event_time: pd.Series) -> pd.Series:
    """Return the calendar days from events to later times, without those that have none.

    Args:
        times: naive UTC, NaT where there is none.
        event_time: naive UTC.
    """
    days: pd.Series = (times.dt.floor("D") - event_time.dt.floor("D")).dt.days
    return days.dropna()


def _tells(guess: pd.Series, positive: pd.Series) -> bool:
    """Return whether guesses are right, nearly, and find many of the positives."""
    hits = (guess & positive).sum()
    return bool(hits >= KNOWN * positive.sum() and hits >= SURE * guess.sum())


def _separates(numbers: pd.Series, positive: pd.Series) -> bool:
    """Return whether one threshold parts positives from the others, nearly."""
    order = np.argsort(numbers.fillna(numbers.median()).to_numpy(), kind="stable")
    ordered, count = positive.to_numpy()[order], int(positive.sum())
    lowest, highest = ordered[:count].sum(), ordered[-count:].sum()
    return bool(max(lowest, highest) >= SURE * count)
