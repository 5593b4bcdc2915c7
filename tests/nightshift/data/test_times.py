"""What is a time, and which one."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.data.times import EPOCH, parse_time

BERLIN = ZoneInfo("Europe/Berlin")
HALF_PAST_TWO = ["2025-07-10T14:30:00", "2025-07-10 14:30", "20250710T143000", "20250710 1430", "2025-07-10T14:30:00.0"]


def utc(value: object, zone: ZoneInfo = BERLIN) -> datetime | None:
    micros = parse_time(value, zone)
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


@pytest.mark.parametrize("text", HALF_PAST_TWO)
@pytest.mark.parametrize(
    ("offset", "hour"), [("", 12), ("Z", 14), ("z", 14), ("+01", 13), ("-0200", 16), (" +03:00", 11)]
)
def test_an_offset_counts_in_every_format_and_without_one_the_zone_does(text, offset, hour):
    assert utc(text + offset) == utc(f" {text}{offset}\n".encode()) == datetime(2025, 7, 10, hour, 30)


@pytest.mark.parametrize(
    "value",
    [
        *("now", "today", "", " ", "NaT", "nan", "2025", "2025-07", "2025-W28-4", "2025-191", "1752157800"),
        *("10/07/2025", "2025-02-29", "2025-07-10T24:00", "2025-07-10T14:60", "2025-07-10T14:30:60"),
        *("2025-07-10T14:30+25:00", "2025-07-10T14:30 UTC", "2025-07-10Z", "2025-07-10T14.5", "\uff12025-07-10"),
        *("0000-01-01", "+12025-07-10", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", b"\xff"),
        *(1752157800, 1.5, True, None, [1]),
    ],
)
def test_what_is_no_time_of_the_years_1_to_9999_is_none(value):
    assert utc(value) is None


@pytest.mark.parametrize(("zone", "text"), [("America/New_York", "9999-12-31 23:59:59"), ("Asia/Tokyo", "0001-01-01")])
def test_a_time_that_a_zone_moves_out_of_the_calendar_is_none(zone, text):
    assert utc(text, ZoneInfo(zone)) is None
    assert utc(text, ZoneInfo("UTC")) == datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        ("Europe/Berlin", "2024-03-31T02:30", "2024-03-31 01:00"),  # skipped
        ("Europe/Berlin", "2024-10-27T02:30", "2024-10-27 01:30"),  # twice
        ("Australia/Lord_Howe", "2024-10-06T02:15", "2024-10-05 15:30"),  # half an hour is skipped
        ("Australia/Lord_Howe", "2024-04-07T01:45", "2024-04-06 15:15"),  # and comes twice
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30 10:00"),  # a day is skipped
    ],
)
def test_of_an_hour_that_repeats_the_second_is_meant_and_one_that_is_skipped_is_the_end_of_the_gap(
    zone, text, expected
):
    assert utc(text, ZoneInfo(zone)) == datetime.fromisoformat(expected)


@given(st.datetimes(), st.sampled_from(["UTC", "Europe/Berlin", "Africa/Casablanca", "Asia/Kolkata"]).map(ZoneInfo))
def test_a_wall_clocks_time_is_one_that_this_clock_shows_or_would_have_shown(time, zone):
    moment = utc(time, zone)
    if moment is None:
        assert time.year in (1, 9999)
        return
    shown = moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
    assert shown == time or (shown > time and utc(shown, zone) == moment)


def test_a_date_is_its_midnight():
    assert utc(date(2025, 1, 10)) == utc("2025-01-10") == utc("20250110") == datetime(2025, 1, 9, 23)
