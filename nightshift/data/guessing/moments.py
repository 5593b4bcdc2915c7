"""How times are spelled, and which columns hold some."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd

from nightshift.config.source import FileFormat, Source
from nightshift.data.dates import FIRST, LAST
from nightshift.data.guessing.numbers import ENOUGH
from nightshift.data.times import EPOCH
from nightshift.data.values import SPACE
from nightshift.tasks import columns, spelling
from nightshift.tasks.spelling import shape

DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d", "%y/%m/%d", "%y.%m.%d"),
    *("%d %b %Y", "%d-%b-%Y", "%d/%b/%Y", "%d-%b-%y", "%d %b %y", "%b %d, %Y", "%b %d %Y", "%Y-%b-%d"),
    *("%d %B %Y", "%B %d, %Y", "%d. %B %Y", "%a, %d %b %Y", "%a %d %b %Y", "%A, %d %B %Y", "%A, %B %d, %Y"),
)
HOURS = (
    *("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H:%M:%S,%f", "%H.%M", "%H.%M.%S", "%H.%M.%S.%f"),
    *(
        f"{clock}{gap}%p"
        for clock in ("%I:%M", "%I:%M:%S", "%I:%M:%S.%f", "%I.%M.%S", "%I.%M.%S.%f")
        for gap in (" ", "")
    ),
)
GAPS = (" ", "T", ", ", ",", " - ", "-", ":", " at ")
ZONES = ("", "%z", " %z", " UTC", " %Z")
# formats of dates in one number, which a time may follow
KEYS = ("%Y%m%d", "%y%m%d", "%d%m%Y", "%m%d%Y")
KEY_HOURS = ("%H%M%S%f", "%H%M%S", "%H%M", "%H")
UNUSUAL = frozenset(["%y%m%d", "%y%m%d%H", "%y%m%d%H%M%S%f"])  # other numbers look like them
WHOLE = ("%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %Z %Y")  # as C and `date` write them
MONTH_FIRST = {
    "%d/%m/%Y": "%m/%d/%Y",
    "%d-%m-%Y": "%m-%d-%Y",
    "%d/%m/%y": "%m/%d/%y",
    "%d-%m-%y": "%m-%d-%y",
    "%d%m%Y": "%m%d%Y",
}
FIRST_SECOND = 631_152_000  # the first number of an epoch: 1990
AHEAD = timedelta(days=366)  # planned times may lie this far ahead of now
PER_SECOND = {
    "epoch_seconds": 1,
    "epoch_milliseconds": 10**3,
    "epoch_microseconds": 10**6,
    "epoch_nanoseconds": 10**9,
}
OPEN_ENDS = (1, 9999)  # years that stand for none
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
        """Whether times are numbers since 1970."""
        return bool(self.times) and self.times[0] in PER_SECOND

    @property
    def is_key(self) -> bool:
        """Whether times are the digits of a date, without marks."""
        return bool(self.times) and self.times[0].startswith(KEYS)


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
    # before an epoch's numbers, which 2025010114 may be too
    return _guess_pattern(columns.texts(column), now, day_first) or _guess_epoch(column, now)


def _guess_epoch(column: pd.Series, now: datetime) -> TimeSpelling | None:
    numbers = spelling.numbers(column, FileFormat())
    if numbers.notna().mean() < ENOUGH:
        return None
    last = (now + AHEAD - EPOCH).total_seconds()
    for unit, scale in PER_SECOND.items():
        if numbers.dropna().between(FIRST_SECOND * scale, last * scale).mean() >= ENOUGH:
            return TimeSpelling([unit], [], f"Times are numbers: {unit.replace('_', ' ')}.")
    return None


def _guess_pattern(texts: pd.Series, now: datetime, day_first: bool | None) -> TimeSpelling | None:
    texts = texts.str.strip(SPACE).str.removesuffix(".0")
    if not texts.str.contains(r"[0-9]").all():
        return None
    probed = texts.iloc[:: max(1, len(texts) // PROBED)].tolist()
    readings = [times for date in (*KEYS, *DATES, *WHOLE) if (times := _find_times(texts, probed, date))]
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
    """Return the readings with the year where days of the month differ most: years, read as days, hardly do."""
    best = max(readings, key=lambda times: read(texts, times).dt.day.nunique())
    return [times for times in readings if _leading_year(times[0]) == _leading_year(best[0])]


def _leading_year(spelled: str) -> str:
    return spelled[:2] if spelled.lower().startswith("%y") else ""


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


def _find_times(texts: pd.Series, probed: list[str], date: str) -> list[str]:
    """Return the spellings with a form of dates that together read all of a column, most first; [] when none do."""
    shares = {spelled: share for spelled in _list_fitting(probed, date) if (share := _share(texts, [spelled]))}
    used = list[str]()
    for spelled in sorted(shares, key=lambda spelled: -shares[spelled]):
        if not used or _share(texts, [*used, spelled]) > _share(texts, used):
            used.append(spelled)
    return used if used and _share(texts, used) >= ENOUGH else []


def _list_fitting(probed: list[str], date: str) -> list[str]:
    """Return the spellings with a form of dates, and maybe hours and a zone, that some texts look like."""
    is_key = date in KEYS
    spellings = [date]
    for ends in () if date in WHOLE else ((*GAPS, *([""] if is_key else [])), (*HOURS, *KEY_HOURS), ZONES):
        started = [f"{spelled}{end}" for spelled in spellings for end in ends]
        spellings = [spelled for spelled in started if any(re.match(shape(spelled), text) for text in probed)]
    fitting = [spelled for spelled in [*spellings, date] if any(re.fullmatch(shape(spelled), text) for text in probed)]
    return [spelled for spelled in fitting if spelled not in UNUSUAL]


def _date_of(spelled: str) -> str:
    return max((date for date in (*KEYS, *DATES, *WHOLE) if spelled.startswith(date)), key=len)


def _share(column: pd.Series, times: list[str]) -> float:
    """Return the share of values that are times in a spelling, of these centuries or open ends."""
    years = read(column, times).dt.year
    return float((years.between(FIRST.year, LAST.year) | years.isin(OPEN_ENDS)).mean())


def read(column: pd.Series, times: list[str], timezone: str = "UTC") -> pd.Series:
    """Return times in a spelling, naive UTC, datetime64[us]; NaT where a value is spelled otherwise."""
    return spelling.times(column, Source(table="guessed", format=FileFormat(times=times), timezone=timezone))


def _is_sorted(moments: pd.Series) -> bool:
    known = moments.dropna()
    return known.is_monotonic_increasing or known.is_monotonic_decreasing
