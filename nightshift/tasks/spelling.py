"""Times and numbers as a config's `source.format` spells them, turned into canonical types."""

import re
from datetime import date
from decimal import Decimal
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from nightshift.config.source import FileFormat, Source
from nightshift.data import values
from nightshift.data.times import FIRST, LAST
from nightshift.tasks import columns

# microseconds of an epoch's unit
UNITS = {
    "epoch_seconds": Decimal(1_000_000),
    "epoch_milliseconds": Decimal(1000),
    "epoch_microseconds": Decimal(1),
    "epoch_nanoseconds": Decimal("0.001"),
}
# programs write several spaces and apostrophes
MARKS = {"": "", ".": r"\.", ",": ",", " ": "[ \u00a0\u202f]", "'": "['\u2019]"}
MINUS = "\u2212"  # the minus of typesetters
# around a number; accountants write (5.00) or 5.00- where others write -5.00
SIGNS = {"": "", "+": "", "-": "-", "()": "-"}
LONGEST = 40  # characters of a number that may be a time
FIELDS = {
    **dict.fromkeys("aAbB", "[A-Za-z]{3,9}"),
    "Y": "[0-9]{4}",
    "m": "(?:0[1-9]|1[0-2])",
    "d": "(?:0[1-9]|[12][0-9]|3[01])",
    "y": "[0-9]{2}",
    "H": "(?:[01][0-9]|2[0-3])",
    "I": "(?:0[1-9]|1[0-2])",
    "M": "[0-5][0-9]",
    "S": "[0-5][0-9]",
    "f": "[0-9]{1,9}",
    "p": "[AaPp][Mm]",
    "z": "(?:Z|[+-][0-9]{2}:?[0-9]{2})",
    "Z": "(?:[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+|UTC|GMT)",  # others, such as CST, are several zones each
}
ONE_DIGIT = {field: f"(?:{FIELDS[field]}|[0-9])" for field in "dmHIMS"}
DIGITS = frozenset("dmHIMSYyf")


def times(column: pd.Series, source: Source) -> pd.Series:
    """Return times as naive UTC, datetime64[us]; NaT where a value is no time, or is spelled otherwise.

    Args:
        column: timestamps and dates, which need no spelling, numbers or text.
        source: says how times are spelled, and the zone of those that carry none; a spelling with `UTC` has that one,
            and one with %Z names an IANA zone.
    """
    spellings = source.format.times
    if not spellings or pd.api.types.is_datetime64_any_dtype(column):
        return columns.times(column, source.timezone)
    texts = columns.texts(column).str.strip(values.SPACE)
    moments = pd.Series(pd.NaT, column.index, dtype="datetime64[us]")
    if column.dtype == object:  # cells of a sheet, or of files with different types
        stamps = column[[isinstance(value, date) for value in column]]
        moments[stamps.index] = columns.times(stamps, source.timezone)
    for spelling in spellings:
        unread = texts[moments.isna() & texts.notna()]
        moments[unread.index] = _times(unread, spelling, source.timezone)
    return moments


def _times(texts: pd.Series, spelling: str, timezone: str) -> pd.Series:
    if unit := UNITS.get(spelling):
        micros = [_micros(text, unit) for text in texts]
        return pd.Series(np.array(micros, "datetime64[us]"), texts.index)
    if not re.sub("%.", "", spelling):  # a missing value makes floats of a column of integers
        texts = texts.str.removesuffix(".0")
    texts = texts.where(texts.str.fullmatch(shape(spelling)))
    if "%Z" in spelling:
        return _times_of_zones(texts, spelling)
    moments = pd.to_datetime(texts, format=spelling, errors="coerce", utc="%z" in spelling or "UTC" in spelling)
    return columns.times(moments, timezone)


def _times_of_zones(texts: pd.Series, spelling: str) -> pd.Series:
    """Return times whose texts name their zones, each in its own."""
    zones = texts.str.extract(shape(spelling).replace(FIELDS["Z"], f"(?P<zone>{FIELDS['Z']})"))["zone"]
    moments = pd.Series(pd.NaT, texts.index, dtype="datetime64[us]")
    for zone in filter(_is_zone, zones.dropna().unique()):
        own = texts[zones == zone].str.replace(zone, "", regex=False)
        moments[own.index] = _times(own.str.strip(), spelling.replace("%Z", "").strip(), zone)
    return moments


def _is_zone(name: str) -> bool:
    try:
        return ZoneInfo(name).key == name
    except (KeyError, ValueError, OSError):
        return False


@cache
def shape(spelling: str) -> str:
    """Return the regular expression of what a spelling of times writes.

    A field may lack its leading zero where something separates it from the numbers beside it, and nowhere else:
    202501011430 is no %Y%m%d%H%M%S.
    """
    first, *rest = re.split("%(.)", spelling)
    fields, literals = rest[::2], rest[1::2]
    joined = [not text and {*pair} <= DIGITS for text, pair in zip(literals, pairwise(fields), strict=False)]
    patterns = map(_field, fields, [False, *joined], [*joined, False])
    pairs = zip(patterns, literals, strict=True)
    return _literal(first) + "".join(field + _literal(text) for field, text in pairs)


def _field(directive: str, joins_left: bool, joins_right: bool) -> str:
    if directive == "f":
        return "[0-9]{6}" if joins_right else FIELDS["f"]
    return FIELDS[directive] if joins_left or joins_right else ONE_DIGIT.get(directive, FIELDS[directive])


def _literal(text: str) -> str:
    """Return the pattern of the text between fields, of which databases align some by several spaces."""
    return re.sub(r"(\\ )+", " +", re.escape(text))


def _micros(text: str, unit: Decimal) -> int | None:
    """Return an epoch's number in microseconds; None where it is no number of the years 1 to 9999."""
    if len(text) > LONGEST or not FIRST <= values.parse_number(text) * float(unit) <= LAST:
        return None
    return int(Decimal(text) * unit // 1)


def numbers(column: pd.Series, spelled: FileFormat) -> pd.Series:
    """Return numbers as float64; NaN where a value is missing, is no number, or is spelled otherwise.

    Args:
        column: numbers, which need no spelling, or text, in which a minus may stand as accountants write it.
        spelled: the marks and units of numbers that are text.
    """
    if pd.api.types.is_numeric_dtype(column):
        return columns.numbers(column)
    is_plain = spelled.decimal == "." and not spelled.thousands and not spelled.units
    read = columns.numbers(column) if is_plain else pd.Series(np.nan, column.index)
    pattern = _number(spelled)
    unread = column[read.isna() & column.notna()].astype(object)
    read[unread.index] = columns.numbers(unread.map(lambda value: _plain(value, pattern)))
    return read


def _number(spelled: FileFormat) -> re.Pattern[str]:
    """Return the pattern of a number; groups: two signs before it, whole, fraction, exponent, two signs after it."""
    mark = MARKS[spelled.thousands]
    # 12,34,567 is written in India, and 0,567 nowhere
    groups = f"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}|" if mark else ""
    # nobody writes 1.234e5 with a mark between thousands
    plain = f"(?!.*{mark}.*[0-9][eE][+-]?[0-9])" if mark else ""
    unit = "|".join(map(re.escape, spelled.units))
    unit = f"(?:{unit})?" if unit else ""
    number = f"{plain}({groups}[0-9]*)(?:{MARKS[spelled.decimal]}([0-9]*))?([eE][+-]?[0-9]+)?"
    return re.compile(rf"\s*([+(-]?)\s*{unit}\s*([+(-]?)\s*{number}\s*([)-]?)\s*{unit}\s*([)-]?)\s*")


def _plain(value: object, pattern: re.Pattern[str]) -> object:
    """Return a number's text with a point for its decimals and no other mark; None where it is none."""
    if not isinstance(value, str):
        return value
    match = pattern.fullmatch(value.strip(values.SPACE).replace(MINUS, "-"))
    sign = SIGNS.get("".join(match.group(1, 2, 6, 7))) if match else None
    if match is None or sign is None:
        return None
    digits = re.sub("[^0-9]", "", match[3])
    return f"{sign}{digits}.{match[4] or ''}{match[5] or ''}"
