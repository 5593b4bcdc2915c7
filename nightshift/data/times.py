"""The one parser of times, of files and of online events alike."""

import re
from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from nightshift.data.values import SPACE

# datetime.fromisoformat reads more, and not the same in every version of Python
ISO_8601 = re.compile(
    r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})"
    r"(?:[Tt ](?:[01][0-9]|2[0-3])(?::[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?|[0-9]{2}(?:[0-9]{2}(?:[.,][0-9]+)?)?)?"
    r"( ?(?:[Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?))?)?"
)
EPOCH = datetime(1970, 1, 1)
EPOCH_UTC = EPOCH.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY = 86_400_000_000
FIRST = (datetime.min - EPOCH) // MICROSECOND
LAST = (datetime.max - EPOCH) // MICROSECOND


class Time(NamedTuple):
    """A time as it is written.

    Attributes:
        micros: microseconds since 1970, by UTC or by some wall's clock.
        is_utc: whether it carries an offset, which is subtracted.
    """

    micros: int
    is_utc: bool


def parse_time(value: Any, zone: ZoneInfo) -> int | None:
    """Return a time in microseconds since 1970, UTC; None where a value is no time of the years 1 to 9999.

    Args:
        value: a datetime, a date, or text or bytes in ISO 8601: the basic or the extended format, a space or `t`
            instead of `T`, an offset as `Z`, `z`, `+02`, `+0200` or `+02:00`. Microseconds are the finest.
        zone: the zone of a time without an offset; see `to_utc`.
    """
    time = read_time(value)
    if time is None or time.is_utc:
        return time and time.micros
    return to_utc(time.micros, zone)


def read_time(value: Any) -> Time | None:
    """Return a time as it is written, or None where a value is none; see `parse_time`."""
    try:
        time = _parse(value)
    except ValueError:
        return None
    if time is None:
        return None
    if time.tzinfo is None:
        return Time(_micros(time - EPOCH), is_utc=False)
    micros = _micros(time - EPOCH_UTC)
    return Time(micros, is_utc=True) if FIRST <= micros <= LAST else None


def to_utc(wall: int, zone: ZoneInfo) -> int | None:
    """Return a wall clock's time in UTC, both in microseconds since 1970; None beyond the years 1 to 9999.

    Of an hour that a clock change repeats the second one is meant; a time that a change skips is moved to the gap's
    end.
    """
    try:
        time = EPOCH + wall * MICROSECOND
        before, after = (_micros(time.replace(tzinfo=zone, fold=fold).utcoffset()) for fold in (0, 1))
        if after > before:  # skipped: the gap's end is the first moment with the new offset
            moments = range(wall - after, wall - before)
            micros = moments[0] + bisect_left(moments, True, key=lambda moment: find_offset(moment, zone) == after)
        else:
            micros = wall - after
    except OverflowError:
        return None
    return micros if FIRST <= micros <= LAST else None


def find_offset(micros: int, zone: ZoneInfo) -> int:
    """Return a zone's offset from UTC at a moment of the years 1 to 9999, both in microseconds."""
    within = min(max(micros, FIRST + DAY), LAST - DAY)  # a day from where the zone's clock would leave the calendar
    return _micros((EPOCH_UTC + within * MICROSECOND).astimezone(zone).utcoffset())


def _parse(value: Any) -> datetime | None:
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        match = ISO_8601.fullmatch(value.strip(SPACE))
        return match and datetime.fromisoformat(_plain(match))
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value if isinstance(value, datetime) else None


def _plain(match: re.Match[str]) -> str:
    """Return a time as datetime.fromisoformat reads it: a capital Z, and no space before it."""
    if not match[1]:
        return match[0]
    return match[0][: match.start(1)] + match[1].lstrip().upper()


def _micros(span: timedelta | None) -> int:
    assert span is not None
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
