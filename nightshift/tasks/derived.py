"""Columns that files lack, made of others as `source.columns` says."""

import numpy as np
import pandas as pd

from nightshift.config.source import DerivedColumn, Source
from nightshift.data import values
from nightshift.runtime.errors import UserError, nearest
from nightshift.runtime.printable import printable
from nightshift.tasks import columns, spelling

DAY = "2000-01-01"  # any, on which a time of day is read
CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%H%M%S", "%H%M")
UNITS = {"hour": (23, 3600), "minute": (59, 60), "second": (59, 1)}  # the most of each, and its seconds


def derive(frame: pd.DataFrame, source: Source, file: str = "") -> pd.DataFrame:
    """Return rows with the columns that the config derives.

    Args:
        frame: n rows of one file, any dtypes.
        source: what is derived, and how values are spelled.
        file: name of the file, which no other of the source has; empty where there is one file alone.

    Returns:
        n rows, with a row's number as int64, or text behind the file's name; a time as datetime64[us], by the wall
        clock of `source.timezone`, NaT where its parts are no time; an outcome as Int64, 1, 0 or null; a column that
        gets another name as it is.

    Raises:
        UserError: when a column that something is made of is missing, or the file has one of the new name.
    """
    for name, derived in source.columns.items():
        _require(frame, name, derived)
        frame = frame.assign(**{name: _derive(frame, derived, source, file)})
    return frame


def _require(frame: pd.DataFrame, name: str, derived: DerivedColumn) -> None:
    present = [str(column) for column in frame.columns]
    if name in present:
        raise UserError(f"has a column {name!r}, which source.columns derives too; give one of them another name")
    for part, column in derived.parts.items():
        if column not in present:
            raise UserError(
                f"has no column {column!r} (source.columns.{name}.{part}{nearest(column, present)}); it has "
                f"{printable(', '.join(present))[:500]}"
            )


def _derive(frame: pd.DataFrame, derived: DerivedColumn, source: Source, file: str) -> pd.Series:
    if derived.row_number:
        numbers = pd.Series(np.arange(1, len(frame) + 1), frame.index)
        return f"{file}#" + numbers.astype("str") if file else numbers
    if derived.parts.keys() != {"column"}:
        return _moments(frame, derived, source)
    column = frame[derived.column]
    return column if derived.is_renamed else _outcome(column, derived, source)


def _outcome(column: pd.Series, derived: DerivedColumn, source: Source) -> pd.Series:
    if derived.is_null is not None:
        return (columns.has_value(column) != derived.is_null).astype("Int64")
    if derived.above is not None:
        numbers = spelling.numbers(column, source.format)
        return (numbers > derived.above).astype("Int64").mask(numbers.isna())
    texts = columns.canonical(column)
    return (texts == values.canonical(derived.equals)).astype("Int64").mask(texts.fillna("") == "")


def _moments(frame: pd.DataFrame, derived: DerivedColumn, source: Source) -> pd.Series:
    """Return times by the wall clock."""
    wall = source.model_copy(update={"timezone": "UTC"})
    parts = {part: frame[column] for part, column in derived.parts.items()}
    if "date" in parts:
        moments = spelling.times(parts["date"], wall)
    else:
        numbers = pd.DataFrame({part: _whole(parts[part], source) for part in ("year", "month", "day")})
        moments = pd.to_datetime(numbers, errors="coerce").astype("datetime64[us]")
    if "time" in parts:
        clock = wall.format.model_copy(update={"times": [f"%Y-%m-%d {pattern}" for pattern in CLOCKS]})
        texts = f"{DAY} " + columns.texts(parts["time"]).str.strip(values.SPACE)
        moments += spelling.times(texts, wall.model_copy(update={"format": clock})) - pd.Timestamp(DAY)
    for unit, (most, seconds) in UNITS.items():
        if unit in parts:
            count = _whole(parts[unit], source)
            moments += pd.to_timedelta(count.where(count.between(0, most)) * seconds, unit="s")
    return moments.astype("datetime64[us]")


def _whole(column: pd.Series, source: Source) -> pd.Series:
    """Return numbers as float64, NaN where one has decimals."""
    numbers = spelling.numbers(column, source.format)
    return numbers.where(numbers == numbers.round())
