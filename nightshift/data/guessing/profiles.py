"""What each column of a table holds, by its values."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pandas as pd

from nightshift.data.guessing import moments, numbers, words
from nightshift.data.guessing.moments import TimeSpelling
from nightshift.data.guessing.numbers import NumberSpelling
from nightshift.data.values import SPACE, format_value
from nightshift.tasks import columns, spelling

Kind = Literal["time", "whole", "number", "text", "empty"]
KEYS = words.IDENTIFIER | words.CUSTOMER | words.TERMINAL
SAMPLED_ROWS = 5000  # by which spellings are looked for; every row is ingested before a config is written
MOST_CATEGORIES = 50  # a text of more values is no category
MOST_TOTALS = 3  # rows at the end that sum the others up
EMPTY_FIELDS = 0.25  # share of the fields that is missing in a row of totals, of those that other rows have


@dataclass(frozen=True)
class ColumnProfile:
    """What a column holds.

    Attributes:
        name: the user's.
        kind: of its values; `whole` are numbers without decimals.
        typed: naive UTC, numbers as float64, or canonical text; null where there is none.
        distinct: how many different values there are.
        spelled: how times are spelled, None of other kinds.
        first: its value in the first row, as it is in the file; empty where that has none.
    """

    name: str
    kind: Kind
    typed: pd.Series
    distinct: int
    spelled: TimeSpelling | None = None
    first: str = ""

    @property
    def missing(self) -> float:
        """The share of rows without a value."""
        return float(self.typed.isna().mean())

    @property
    def is_unique(self) -> bool:
        """Whether each row has a value of its own."""
        return self.distinct == len(self.typed)


@dataclass(frozen=True)
class TableProfile:
    """What a table holds.

    Attributes:
        columns: of the rows that are events, in the order of the file.
        settings: of `source.format`, as far as values show it.
        reasons: sentences that say what was assumed, and why.
    """

    columns: dict[str, ColumnProfile]
    settings: dict[str, Any]
    reasons: list[str]


@dataclass(frozen=True)
class Reading:
    """What is known of a table beside its rows.

    Attributes:
        separator: of the file's fields.
        now: naive UTC, after which no event was.
        day_first: whether days come before months, where the values do not show it; None: nobody knows.
        timezone: of times that carry none.
    """

    separator: str
    now: datetime
    day_first: bool | None = None
    timezone: str = "UTC"


def profile(frame: pd.DataFrame, reading: Reading) -> TableProfile:
    """Return what a table holds, whose rows are as ingestion reads them."""
    skipped = find_skipped(frame)
    frame = frame[~frame.iloc[:, 0].astype("string").fillna("").str.strip().isin(skipped)].reset_index(drop=True)
    first = _write_first_row(frame)
    sample = frame.iloc[:: max(1, len(frame) // SAMPLED_ROWS)]
    texts = {str(name): _texts(column) for name, column in sample.items() if _may_be_spelled(column)}
    missing = numbers.find_missing(texts)
    known = {name: column[~column.isin(missing)] for name, column in texts.items()}
    spelled = numbers.guess(known, reading.separator)
    frame = frame.mask(frame.isin(missing)) if missing else frame
    numeric = [name for name in spelled.columns if not known[name].str.fullmatch("0[0-9]+").any()]
    plain = replace(spelled, columns=numeric)
    times = _find_times(frame, reading)
    profiles = {
        str(name): replace(times.get(str(name)) or _profile(str(name), column, plain), first=first.get(str(name), ""))
        for name, column in frame.items()
    }
    settings = {"skip_rows": skipped, "missing": missing} | spelled.spelled.model_dump(exclude_defaults=True)
    reasons = spelled.reasons if numeric else []
    if skipped:
        reasons = [
            *reasons,
            f"Rows that begin with {', '.join(map(repr, skipped))} are totals or headers, and no events.",
        ]
    if missing:
        reasons = [*reasons, f"{', '.join(map(repr, missing))} stands for no value."]
    return TableProfile(profiles, {key: value for key, value in settings.items() if value}, reasons)


def _write_first_row(frame: pd.DataFrame) -> dict[str, str]:
    """Return column -> its value in the first row as the file has it, without those that are missing.

    Values are taken column by column: a row of a frame has one type, by which integers become floats.
    """
    firsts = {str(name): column.head(1).dropna() for name, column in frame.items()}
    return {name: format_value(value.iloc[0]) for name, value in firsts.items() if len(value)}


def find_skipped(frame: pd.DataFrame) -> list[str]:
    """Return the first fields of rows that repeat the header, and of those at the end that sum the others up."""
    if frame.empty:
        return []
    first = frame.iloc[:, 0].astype("string").fillna("").str.strip()
    header = str(frame.columns[0])
    is_header = (first == header) & (frame.astype("string") == list(map(str, frame.columns))).all(axis=1)
    skipped = [header] if is_header.any() else []
    full = frame.iloc[:-MOST_TOTALS].notna().mean() > numbers.ENOUGH
    for position in range(len(frame) - 1, max(len(frame) - MOST_TOTALS - 1, 0), -1):
        if full.sum() < 2 or frame.iloc[position][full].isna().mean() < EMPTY_FIELDS:
            break
        skipped.append(first.iloc[position])
    return skipped


def _may_be_spelled(column: pd.Series) -> bool:
    """Return whether a column holds texts; true, false, numbers and times of other formats are none."""
    return column.dtype == object or isinstance(column.dtype, pd.StringDtype)


def _texts(column: pd.Series) -> pd.Series:
    return columns.texts(column).dropna().str.strip(SPACE).astype(object)


def _find_times(frame: pd.DataFrame, reading: Reading) -> dict[str, ColumnProfile]:
    """Return the columns of times; numbers since 1970 are times where nothing else is, since ids may be as large.

    A number of an order that begins with its date is none either, unless nothing else is.
    """
    columns = {str(name): _profile_time(str(name), column, reading) for name, column in frame.items()}
    times = {name: column for name, column in columns.items() if column}
    unnamed = {name for name in times if words.has_any(name, words.DATE) or not words.has_any(name, KEYS)}
    written = {
        name: column
        for name, column in times.items()
        if column.spelled and not column.spelled.is_epoch and (name in unnamed or not column.spelled.is_key)
    }
    return written or {name: column for name, column in times.items() if name in unnamed} or times


def _profile_time(name: str, column: pd.Series, reading: Reading) -> ColumnProfile | None:
    known = column.dropna()
    spelled = moments.guess(known.iloc[:: max(1, len(known) // SAMPLED_ROWS)], reading.now, reading.day_first)
    if spelled is None:
        return None
    values = moments.read(column, spelled.times, reading.timezone)
    return ColumnProfile(name, "time", values, values.nunique(), spelled)


def _profile(name: str, column: pd.Series, numeric: NumberSpelling) -> ColumnProfile:
    if column.isna().all():
        return ColumnProfile(name, "empty", column, 0)
    is_numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if is_numeric or name in numeric.columns:
        values = spelling.numbers(column, numeric.spelled)
        fractions = np.modf(values.dropna())[0]
        return ColumnProfile(name, "number" if fractions.any() else "whole", values, values.nunique())
    text = columns.canonical(column)
    text = text.mask(text == "")
    return ColumnProfile(name, "text", text, text.nunique())
