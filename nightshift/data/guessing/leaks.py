"""Columns that tell the outcome nearly alone, as those do that are filled in after it: a person says which they are."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.data.guessing.profiles import MOST_CATEGORIES, ColumnProfile

MIN_ROWS = 20  # rows of each outcome; fewer are told apart by chance
RECALL = 0.9  # share of an outcome's rows that show a sign of it
LIFT = 20  # how often they show it, as a multiple of how often the others do
LEAST_LIFT = 15  # lift in a sample whose table may have LIFT
NOISE = 1.645  # standard deviations that a count exceeds its mean by in 5 % of samples
PRECISE, KNOWN = 0.99, 0.5  # precision and recall where not every fraud has been refunded yet
ROWS_PER_VALUE = 20  # rows of a value by which outcomes are looked up: with fewer, any column knows them
SHOWN_VALUES = 3
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Order:
    """An order of a column's rows, of which the first may be those of an outcome.

    Attributes:
        ranks: float64, highest first.
        is_decimal: whether any threshold of a number cuts it, which finds a precise one by chance.
        describe: says of the values before a cut what they have in common.
    """

    ranks: Floats
    is_decimal: bool
    describe: Callable[[pd.Series], str]


def find_leak(column: ColumnProfile, label: pd.Series, event_time: pd.Series) -> str:
    """Return why a column may be known only after the outcome; empty where nothing says so.

    A sign is that a value is missing, one or some of few values, or a number beyond a threshold. The rows of the rarer
    outcome, or the positive ones, show it in RECALL of the cases and LIFT times as often as the others.

    Args:
        column: no id, and neither the event's time nor its label.
        label: 0 and 1 as float64, NaN where it is not known.
        event_time: naive UTC.
    """
    if column.kind == "time":
        later = (column.typed > event_time)[column.typed.notna()]
        return f"on {later.mean():.0%} of its rows it is later than the event" if later.mean() > 1 / 2 else ""
    known = label.notna()
    values, positive = column.typed[known], (label[known] == 1).to_numpy()
    if min(positive.sum(), (~positive).sum()) < MIN_ROWS:
        return ""
    outcomes = {"positive": positive} | ({"negative": ~positive} if positive.mean() > 1 / 2 else {})
    signs = (_find_sign(column, values, name, outcome) for name, outcome in outcomes.items())
    return next(filter(None, signs), "")


def count_days(times: pd.Series, event_time: pd.Series) -> pd.Series:
    """Return the calendar days from events to later times, without those that have none.

    Args:
        times: naive UTC, NaT where there is none.
        event_time: naive UTC.
    """
    days: pd.Series = (times.dt.floor("D") - event_time.dt.floor("D")).dt.days
    return days.dropna()


def _find_sign(column: ColumnProfile, values: pd.Series, name: str, outcome: Mask) -> str:
    for order in _orders(column, values, outcome):
        cut = _find_cut(order, outcome)
        if cut is not None:
            return (
                f"it is {order.describe(values[cut])} on {cut[outcome].mean():.1%} of the {name} rows and on "
                f"{cut[~outcome].mean():.1%} of the others"
            )
    return ""


def _orders(column: ColumnProfile, values: pd.Series, outcome: Mask) -> Iterator[Order]:
    """Return the orders in which a column may show an outcome."""
    is_empty: Floats = values.isna().to_numpy().astype(float)
    yield Order(is_empty, False, lambda _: "empty")
    yield Order(-is_empty, False, lambda _: "filled in")
    yield Order(_rank_values(column, values, outcome), False, _list_values)
    if column.kind in ("whole", "number"):
        numbers = values.to_numpy(float)
        for empty in (-np.inf, np.inf) if is_empty.any() else (0.0,):
            ranks = np.nan_to_num(numbers, nan=empty, posinf=np.inf, neginf=-np.inf)
            yield Order(ranks, True, lambda cut: f"{cut.min():g} or more{_or_empty(cut)}")
            yield Order(-ranks, True, lambda cut: f"{cut.max():g} or less{_or_empty(cut)}")


def _rank_values(column: ColumnProfile, values: pd.Series, outcome: Mask) -> Floats:
    """Return the outcome's share in the rows of each row's value; of many values 1 for the outcome's usual one."""
    if column.distinct > MOST_CATEGORIES or column.distinct * ROWS_PER_VALUE > len(values):
        return (values == values[outcome].mode().get(0)).fillna(False).to_numpy().astype(float)
    shares = pd.Series(outcome).groupby(values.to_numpy()).transform("mean")
    return shares.fillna(0).to_numpy(float)


def _list_values(cut: pd.Series) -> str:
    listed = [f"{value:g}" if isinstance(value, float) else repr(value) for value in sorted(cut.dropna().unique())]
    return " or ".join(listed[:SHOWN_VALUES]) + (
        f" or {len(listed) - SHOWN_VALUES} more" * (len(listed) > SHOWN_VALUES)
    )


def _or_empty(cut: pd.Series) -> str:
    return " or empty" if cut.isna().any() else ""


def _find_cut(order: Order, outcome: Mask) -> Mask | None:
    """Return which rows are above the threshold that tells an outcome best; None where none tells it well."""
    by_rank = np.argsort(-order.ranks, kind="stable")
    ranked = order.ranks[by_rank]
    ends = np.flatnonzero(ranked[1:] != ranked[:-1])
    hits: Floats = np.cumsum(outcome[by_rank], dtype=float)[ends]
    others: Floats = ends + 1.0 - hits
    recall, false = hits / outcome.sum(), others / (~outcome).sum()
    tells = _tell(recall, others, int((~outcome).sum()))
    if not order.is_decimal:
        tells |= _tell_precisely(recall, hits, others, int((~outcome).sum()))
    if not tells.any():
        return None
    best = ends[np.argmax(np.where(tells, recall - false, -1))]
    cut: Mask = order.ranks >= ranked[best]
    return cut


def _tell(recall: Floats, others: Floats, all_others: int) -> Mask:
    """Return which cuts have RECALL and, but for noise, LIFT."""
    expected = recall * all_others / LIFT
    allowed = np.minimum(expected + NOISE * np.sqrt(expected), recall * all_others / LEAST_LIFT)
    tells: Mask = (recall >= RECALL) & (others <= allowed)
    return tells


def _tell_precisely(recall: Floats, hits: Floats, others: Floats, all_others: int) -> Mask:
    """Return which cuts are PRECISE and KNOWN, and have more than half of LIFT in spite of noise."""
    expected = recall * all_others / (LIFT / 2)
    is_precise = hits >= PRECISE * (hits + others)
    return (recall >= KNOWN) & is_precise & (others + NOISE * np.sqrt(expected) <= expected)
