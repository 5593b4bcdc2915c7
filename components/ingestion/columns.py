"""Columns as users have them, turned into canonical types; a value that cannot be read becomes null."""

import math
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from components.common.config.source import Columns
from components.common.errors import UserError, nearest

# what a column should hold, and how to write it
TIME = "time; write timestamps or ISO 8601 text such as 2018-08-14T09:30:00Z"
LABEL = "label; write 0, 1, true or false"
CLASS = "class; write those that task.classes lists"
NUMBER = "number; write 12.5 with a point, and name text or true and false under columns.categorical"

WHOLE_NUMBER = r"-?(?:0|[1-9]\d{0,17})"
WITH_ZONE = r".*:\d\d.*(?:Z|[+-]\d\d:?(?:\d\d)?)"


def require(frame: pd.DataFrame, columns: Columns) -> None:
    """Check that a file has rows, and every column that the config names once.

    Raises:
        UserError: naming what is missing, what is there and the keys of the config to change.
    """
    if frame.empty:
        raise UserError("has no rows; write the file again")
    present = [str(name) for name in frame.columns]
    keys = {name: f"columns.{role}" for role, name in columns.roles.items()}
    keys |= dict.fromkeys(columns.numeric, "columns.numeric")
    keys |= dict.fromkeys(columns.categorical, "columns.categorical")
    missing = [f"{name!r} ({key}{nearest(name, present)})" for name, key in keys.items() if name not in present]
    if missing:
        raise UserError(
            f"has no column {', '.join(missing)}; it has {', '.join(present)[:500]}; "
            "name the right columns in the config, under the keys in brackets"
        )
    twice = [name for name in keys if present.count(name) > 1]
    if twice:
        raise UserError(f"has column {twice[0]!r} more than once; keep one")


def require_some(column: pd.Series, read: pd.Series, kind: str) -> None:
    """Check that of the values in a column at least one could be read.

    Args:
        column: the user's column.
        read: the same as read, null where a value could not be.
        kind: what the column should hold.

    Raises:
        UserError: naming the column, its dtype and its first value.
    """
    if not read.isna().all():
        return
    values = texts(column[given(column)])
    if len(values):
        raise UserError(
            f"column {column.name!r} ({column.dtype}) holds no {kind}; "
            f"its first value is {values.iloc[0][:40]!r}; fix the file, or name another column in the config"
        )


def given(column: pd.Series) -> pd.Series:
    """Return which values are there at all: neither null nor empty text."""
    return column.notna() if pd.api.types.is_numeric_dtype(column) else texts(column).notna()


def texts(column: pd.Series) -> pd.Series:
    """Return values as text, dtype string; null where there is none. Bytes are read as UTF-8, others escaped."""
    # each object by itself, since a column of Python objects may mix what it holds, and integers beside a null would
    # be written as floats
    text = column if isinstance(column.dtype, pd.StringDtype) else column.astype(object).map(_text, na_action="ignore")
    text = text.astype("string")
    return text.mask(text == "")


def ids(column: pd.Series, as_text: bool = False) -> pd.Series:
    """Return identifiers: Int64 when all are whole numbers as they are written, text (dtype string) otherwise.

    Args:
        column: any dtype; floats that are whole numbers are integers that a null turned into floats.
        as_text: keep text in any case.
    """
    column = _unfloated(column)
    if pd.api.types.is_signed_integer_dtype(column):
        return texts(column) if as_text else column.astype("Int64")
    return texts(column).astype("Int64") if not as_text and whole(column).all() else texts(column)


def whole(column: pd.Series) -> pd.Series:
    """Return which values are whole numbers as they are written, bool; missing values count as such."""
    if pd.api.types.is_signed_integer_dtype(column):
        return pd.Series(True, column.index)
    if pd.api.types.is_float_dtype(column):
        value = numbers(column)
        exact: pd.Series = np.isfinite(value) & (value % 1 == 0) & (value.abs() < 2**53)
        return column.isna() | exact
    # '007' is not 7: what would not come back as it was written stays text
    return texts(column).str.fullmatch(WHOLE_NUMBER).fillna(True).astype(bool)


def numbers(column: pd.Series) -> pd.Series:
    """Return numbers as float64; NaN where a value is missing or is no number."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        # not pd.to_numeric: it may miss the nearest float64 by the last bit
        column = texts(column).map(_number, na_action="ignore")
    return pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), column.index)


def labels(column: pd.Series) -> pd.Series:
    """Return labels as Int8, null where a value is neither 0, 1, true nor false."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        column = texts(column).str.lower().replace({"true": "1", "false": "0"})
    value = numbers(column)
    return value.where(value.isin((0, 1))).astype("Int8")


def classes(column: pd.Series, known: list[str]) -> pd.Series:
    """Return the names of classes, dtype string; null where a value is none of those known."""
    text = texts(_unfloated(column))
    return text.where(text.isin(known))


def times(column: pd.Series, timezone: str) -> pd.Series:
    """Return times as naive UTC, datetime64[us]; NaT where a value is no timestamp and no ISO 8601 text.

    Args:
        column: timestamps or text.
        timezone: zone of times that carry none. Of an hour that a clock change repeats the second one is
            meant; a time that a clock change leaves out is moved to the end of the gap.
    """
    local = ZoneInfo(timezone)
    if pd.api.types.is_datetime64_any_dtype(column):
        utc = _to_utc(column, local) if column.dt.tz is None else _naive(column)
    elif pd.api.types.is_numeric_dtype(column):
        utc = pd.Series(pd.NaT, column.index)
    else:
        utc = _parsed(texts(column), local)
    return utc.astype("datetime64[us]")


def _unfloated(column: pd.Series) -> pd.Series:
    """Return integers that a null turned into floats as Int64, other columns as they are."""
    floats = pd.api.types.is_float_dtype(column)
    return column.astype("Int64") if floats and whole(column).all() else column


def _parsed(text: pd.Series, local: ZoneInfo) -> pd.Series:
    # with utc=True a text without a zone is read as if it were UTC
    wall = _naive(pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True))
    zoned = text.str.fullmatch(WITH_ZONE).fillna(False).astype(bool)
    return wall.where(zoned, _to_utc(wall, local))


def _to_utc(wall: pd.Series, local: ZoneInfo) -> pd.Series:
    if local.key == "UTC":
        return wall
    second = np.zeros(len(wall), dtype=bool)
    return _naive(wall.dt.tz_localize(local, ambiguous=second, nonexistent="shift_forward"))


def _naive(zoned: pd.Series) -> pd.Series:
    naive: pd.Series = zoned.dt.tz_convert("UTC").dt.tz_localize(None)
    return naive


def _text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
