"""What the columns of a table are for whose label is a number."""

from collections.abc import Iterator, Mapping

import pandas as pd

from nightshift.data.guessing import leaks, words
from nightshift.data.guessing.profiles import ColumnProfile

FEWEST_ROWS = 2  # a series has on average, or it has no past
SAME = 0.99  # correlation of ranks with the label, from which on a column is taken for the label itself
SERIES = words.KEY | words.CUSTOMER | words.TERMINAL | words.PRODUCT


def find_leak(column: ColumnProfile, label: pd.Series, event_time: pd.Series) -> str:
    """Return why a column may be known only after the label, a number; empty where nothing says so."""
    if column.kind == "time":
        return leaks.find_leak(column, label, event_time)
    if column.kind not in ("whole", "number") or column.distinct < FEWEST_ROWS:
        return ""
    known = column.typed.notna() & label.notna()
    shared = abs(column.typed[known].rank().corr(label[known].rank()))
    same = f"it rises or falls with the label on nearly every row (rank correlation {shared:.3f})"
    return same if shared >= SAME else ""


def find_series(columns: Mapping[str, ColumnProfile]) -> list[str]:
    """Return the columns that together name a series: those that are named like keys and whose values repeat."""
    series: list[str] = []
    for name in _list_keys(columns):
        together = pd.DataFrame({key: columns[key].typed for key in [*series, name]})
        if len(together.drop_duplicates()) * FEWEST_ROWS <= len(together):
            series.append(name)
    return series


def _list_keys(columns: Mapping[str, ColumnProfile]) -> Iterator[str]:
    for name, column in columns.items():
        if column.kind in ("whole", "text") and words.has_any(name, SERIES) and not column.missing:
            yield name
