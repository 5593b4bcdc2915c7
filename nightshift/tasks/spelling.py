"""Times and numbers as a config's `source.format` spells them, turned into canonical types."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd

from nightshift import values
from nightshift.config.source import FileFormat, Source
from nightshift.tasks import columns
from nightshift.times import FIRST, LAST

# microseconds of an epoch's unit
UNITS = {
    "epoch_seconds": Decimal(1_000_000),
    "epoch_milliseconds": Decimal(1000),
    "epoch_microseconds": Decimal(1),
    "epoch_nanoseconds": Decimal("0.001"),
}
# programs write several spaces and apostrophes
MARKS = {"": "", ".": r"\.", ",": ",", " ": "[ \u00a0\u202f]", "'": "['\u2019]"}
LONGEST = 40  # characters of a number that may be a time


def times(column: pd.Series, source: Source) -> pd.Series:
    """Return times as naive UTC, datetime64[us]; NaT where a value is no time, or is spelled otherwise.

    Args:
        column: timestamps, which need no spelling, dates, numbers or text.
        source: says how times are spelled, and the zone of those that carry none; a spelling with `UTC` has that one.
    """
    spellings = source.format.times
    if not spellings or pd.api.types.is_datetime64_any_dtype(column):
        return columns.times(column, source.timezone)
    texts = columns.texts(column).str.strip()
    moments = pd.Series(pd.NaT, column.index, dtype="datetime64[us]")
    for spelling in spellings:
        unread = texts[moments.isna() & texts.notna()]
        moments[unread.index] = _times(unread, spelling, source.timezone)
    return moments


def _times(texts: pd.Series, spelling: str, timezone: str) -> pd.Series:
    if unit := UNITS.get(spelling):
        micros = [_micros(text, unit) for text in texts]
        return pd.Series(np.array(micros, "datetime64[us]"), texts.index)
    moments = pd.to_datetime(texts, format=spelling, errors="coerce", utc="%z" in spelling or "UTC" in spelling)
    return columns.times(moments, timezone)


def _micros(text: str, unit: Decimal) -> int | None:
    """Return an epoch's number in microseconds; None where it is no number of the years 1 to 9999."""
    if len(text) > LONGEST or not FIRST <= values.parse_number(text) * float(unit) <= LAST:
        return None
    return int(Decimal(text) * unit // 1)


def numbers(column: pd.Series, spelled: FileFormat) -> pd.Series:
    """Return numbers as float64; NaN where a value is missing, is no number, or is spelled otherwise.

    Args:
        column: numbers, which need no spelling, or text.
        spelled: the marks and units of numbers that are text.
    """
    is_plain = spelled.decimal == "." and not spelled.thousands and not spelled.units
    if is_plain or pd.api.types.is_numeric_dtype(column):
        return columns.numbers(column)
    pattern = _number(spelled)
    return columns.numbers(column.astype(object).map(lambda value: _plain(value, pattern), na_action="ignore"))


def _number(spelled: FileFormat) -> re.Pattern[str]:
    """Return the pattern of a number; groups: a sign before or after the unit, whole, fraction, exponent."""
    mark = MARKS[spelled.thousands]
    # 12,34,567 is written in India, and 0,567 nowhere
    groups = f"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}|" if mark else ""
    # nobody writes 1.234e5 with a mark between thousands
    plain = f"(?!.*{mark}.*[0-9][eE][+-]?[0-9])" if mark else ""
    unit = "|".join(map(re.escape, spelled.units))
    unit = f"(?:{unit})?" if unit else ""
    number = f"{plain}({groups}[0-9]*)(?:{MARKS[spelled.decimal]}([0-9]*))?([eE][+-]?[0-9]+)?"
    return re.compile(rf"\s*([+-]?)\s*{unit}\s*([+-]?){number}\s*{unit}\s*")


def _plain(value: object, pattern: re.Pattern[str]) -> object:
    """Return a number's text with a point for its decimals and no other mark; None where it is none."""
    if not isinstance(value, str):
        return value
    match = pattern.fullmatch(value)
    if not match or (match[1] and match[2]):
        return None
    digits = re.sub("[^0-9]", "", match[3])
    return f"{match[1]}{match[2]}{digits}.{match[4] or ''}{match[5] or ''}"
