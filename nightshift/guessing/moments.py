"""How times are spelled, and which columns hold some."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import pandas as pd

from nightshift.config.source import FileFormat, Source
from nightshift.guessing.numbers import ENOUGH
from nightshift.tasks import spelling

DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d", "%Y%m%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d", "%y/%m/%d", "%y.%m.%d"),
    *("%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%b %d %Y", "%d %B %Y", "%B %d, %Y", "%d. %B %Y"),
)
HOURS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%H.%M", "%H%M%S")
GAPS = (" ", "T", ", ", ",", " - ", "")
ZONES = ("", "%z", " %z", " UTC")
MONTH_FIRST = {"%d/%m/%Y": "%m/%d/%Y", "%d-%m-%Y": "%m-%d-%Y", "%d/%m/%y": "%m/%d/%y", "%d-%m-%y": "%m-%d-%y"}
# an epoch's numbers from 1990 to 2100, by their unit
FIRST_SECOND, LAST_SECOND = 631_152_000, 4_102_444_800
PER_SECOND = {
    "epoch_seconds": 1,
    "epoch_milliseconds": 10**3,
    "epoch_microseconds": 10**6,
    "epoch_nanoseconds": 10**9,
}
SHAPES = dict.fromkeys("dmHIMS", "[0-9]{1,2}") | dict.fromkeys("bB", "[^0-9 .,-]{3,9}")
SHAPES |= {"Y": "[0-9]{4}", "y": "[0-9]{2}", "f": "[0-9]{1,6}", "p": "[AaPp][Mm]", "z": "(?:Z|[+-][0-9]{2}:?[0-9]{2})"}
PROBED = 50  # values by which a spelling is looked for


@dataclass(frozen=True)
class TimeSpelling:
    """How a column spells times.

    Attributes:
        times: as in `source.format.times`; [] is ISO 8601.
        swapped: the same with months first, where days may as well be months; else [].
        reason: a sentence that says what was assumed, and why; empty for ISO 8601.
    """

    times: list[str]
    swapped: list[str]
    reason: str

    @property
    def is_epoch(self) -> bool:
        """Whether times are numbers."""
        return bool(self.times) and self.times[0] in PER_SECOND


def guess(column: pd.Series, now: datetime, day_first: bool | None = None) -> TimeSpelling | None:
    """Return how a column spells times; None where it holds none.

    Args:
        column: its values that are there, as they are in the file.
        now: naive UTC, after which no event was.
        day_first: whether days come before months, where the column does not show it; None: nobody knows.
    """
    if column.empty or pd.api.types.is_bool_dtype(column):
        return None
    if _share(column, []) >= ENOUGH:
        return TimeSpelling([], [], "")
    if unit := _find_epoch(column):
        return TimeSpelling([unit], [], f"Times are numbers: {unit.replace('_', ' ')}.")
    return _guess_pattern(column, now, day_first)


def _find_epoch(column: pd.Series) -> str | None:
    numbers = spelling.numbers(column, FileFormat())
    if numbers.notna().mean() < ENOUGH:
        return None
    for unit, scale in PER_SECOND.items():
        if numbers.dropna().between(FIRST_SECOND * scale, LAST_SECOND * scale).mean() >= ENOUGH:
            return unit
    return None


def _guess_pattern(column: pd.Series, now: datetime, day_first: bool | None) -> TimeSpelling | None:
    texts = column[column.map(lambda value: isinstance(value, str))].astype(object)
    if len(texts) < ENOUGH * len(column) or not texts.str.contains(r"[0-9]").all():
        return None
    probed = texts.iloc[:: max(1, len(texts) // PROBED)]
    readings = [times for date in DATES if (times := _find_times(texts, probed, date))]
    if not readings:
        return None
    first, *others = _place_year(texts, readings)
    swapped = next((times for times in others if _date_of(times[0]) == MONTH_FIRST.get(_date_of(first[0]))), None)
    if swapped is None:
        return TimeSpelling(first, [], _describe(first, "the only spelling that fits"))
    if day_first is not None:
        times = first if day_first else swapped
        return TimeSpelling(times, [], _describe(times, f"--{'day' if day_first else 'month'}-first says so"))
    return _compare(texts, first, swapped, now)


def _place_year(texts: pd.Series, readings: list[list[str]]) -> list[list[str]]:
    """Return the readings with the year where times lie closest: days that are taken for years are decades apart."""
    moments = [read(texts, times) for times in readings]
    closest, _ = min(zip(readings, moments, strict=True), key=lambda pair: pair[1].max() - pair[1].min())
    return [times for times in readings if times[0].startswith("%y") == closest[0].startswith("%y")]


def _compare(texts: pd.Series, first: list[str], swapped: list[str], now: datetime) -> TimeSpelling:
    """Return the reading by which rows are in order of time, or none is of the future, where the other is not so."""
    moments, rivals = read(texts, first), read(texts, swapped)
    for times, own, other in ((first, moments, rivals), (swapped, rivals, moments)):
        if _is_sorted(own) and not _is_sorted(other):
            return TimeSpelling(times, [], _describe(times, "read so, the rows are in order of time"))
        if own.max() <= now < other.max():
            return TimeSpelling(times, [], _describe(times, "the other way, some are of the future"))
    return TimeSpelling(first, swapped, "")


def _describe(times: list[str], why: str) -> str:
    order = ", the month before the day" if times[0].startswith("%m") else ""
    return f"Times are spelled {' or '.join(map(repr, times))}{order}: {why}."


def _find_times(texts: pd.Series, probed: pd.Series, date: str) -> list[str]:
    """Return the spellings with a form of dates that together read all of a column, most first; [] when none do."""
    if not any(_shape(date).match(text) for text in probed):
        return []
    spellings = [*(f"{date}{gap}{hour}{zone}" for gap in GAPS for hour in HOURS for zone in ZONES), date]
    fitting = [spelled for spelled in spellings if any(_shape(spelled).fullmatch(text) for text in probed)]
    shares = {spelled: share for spelled in fitting if (share := _share(texts, [spelled]))}
    used = sorted(shares, key=lambda spelled: -shares[spelled])
    return used if used and _share(texts, used) >= ENOUGH else []


@cache
def _shape(spelled: str) -> re.Pattern[str]:
    """Return what texts of a spelling look like, which is found faster than what time they are."""
    parts = re.split("%(.)", spelled)
    return re.compile("".join(SHAPES[part] if number % 2 else re.escape(part) for number, part in enumerate(parts)))


def _date_of(spelled: str) -> str:
    return max((date for date in DATES if spelled.startswith(date)), key=len)


def _share(column: pd.Series, times: list[str]) -> float:
    return float(read(column, times).notna().mean())


def read(column: pd.Series, times: list[str], timezone: str = "UTC") -> pd.Series:
    """Return times in a spelling, naive UTC, datetime64[us]; NaT where a value is spelled otherwise."""
    return spelling.times(column, Source(table="guessed", format=FileFormat(times=times), timezone=timezone))


def _is_sorted(moments: pd.Series) -> bool:
    known = moments.dropna()
    return known.is_monotonic_increasing or known.is_monotonic_decreasing
