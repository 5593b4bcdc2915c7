"""A time in any spelling is read as the moment that was written, or refused; never as another."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nightshift.config.source import FileFormat, Source
from nightshift.data.guessing import moments, profiles
from nightshift.data.guessing.profiles import Reading
from nightshift.tasks import spelling

NOW = datetime(2026, 1, 1)
ZONES = {"%z": "+0130", "%Z": "Asia/Tokyo"}
KEYS = [f"{date}{hour}" for date in moments.KEYS for hour in (*moments.KEY_HOURS, "")]
WRITTEN = st.tuples(
    *map(st.sampled_from, (moments.DATES, moments.GAPS, (*moments.HOURS, *moments.KEY_HOURS), moments.ZONES))
)
PATTERNS = WRITTEN.map("".join) | st.sampled_from([*moments.DATES, *moments.WHOLE, *KEYS, "%Y%m%d %H%M"])
MOMENTS = st.datetimes(datetime(2001, 1, 1), datetime(2025, 12, 1))


def write(moment: datetime, pattern: str) -> str:
    for directive, zone in ZONES.items():
        pattern = pattern.replace(directive, zone)
    return moment.strftime(pattern)


def written_moment(moment: datetime, pattern: str) -> datetime:
    """Return the moment that a text of a pattern names, naive UTC: to the precision that the pattern has."""
    plain = pattern.replace("%z", "").replace("%Z", "")
    wall = datetime.strptime(moment.strftime(plain), plain)
    return wall - timedelta(hours=1.5 * ("%z" in pattern) + 9 * ("%Z" in pattern))


@settings(max_examples=200, deadline=None)
@given(PATTERNS, st.lists(MOMENTS, min_size=1, max_size=5))
def test_a_text_is_read_as_what_its_pattern_wrote(pattern: str, times: list[datetime]) -> None:
    source = Source(table="x.csv", format=FileFormat(times=[pattern]))

    read = spelling.times(pd.Series([write(time, pattern) for time in times]), source)

    assert read.tolist() == [written_moment(time, pattern) for time in times]


@settings(max_examples=30, deadline=None)
@given(PATTERNS, MOMENTS, st.integers(0, 99))
def test_a_guessed_spelling_reads_what_was_written_or_asks_or_there_is_none(
    pattern: str, first: datetime, seed: int
) -> None:
    steps = pd.Series(range(80)).sample(40, random_state=seed).sort_values()
    times = [first + timedelta(hours=37.3 * step) for step in steps]
    assume(times[-1] < NOW)
    texts = pd.Series([write(time, pattern) for time in times])

    guessed = moments.guess(texts, NOW)

    if guessed is not None and not guessed.swapped:
        assert moments.read(texts, guessed.times).tolist() == [written_moment(time, pattern) for time in times]


@pytest.mark.parametrize(
    "pattern",
    [
        *("%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y%m%d%H%M%S%f", "%y%m%d%H%M", "%y%m%d%H%M%S"),
        *("%d-%b-%y %I.%M.%S.%f %p", "%b %d %Y %I:%M%p", "%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S %Z"),
        *("%d/%b/%Y:%H:%M:%S %z", "%a, %d %b %Y %H:%M:%S %z", "%Y-%m-%d-%H.%M.%S.%f", "%a %b %d %H:%M:%S %Z %Y"),
    ],
)
def test_how_databases_and_servers_print_times_is_found(pattern: str) -> None:
    times = [datetime(2024, 5, 1, 7, 5) + timedelta(minutes=97 * number) for number in range(400)]
    texts = pd.Series([write(time, pattern).upper() if "%d-%b" in pattern else write(time, pattern) for time in times])

    guessed = moments.guess(texts, NOW)

    assert guessed is not None
    assert moments.read(texts, guessed.times).tolist() == [written_moment(time, pattern) for time in times]


def test_digits_of_dates_are_no_seconds_since_1970_and_the_other_way_round() -> None:
    hours = pd.Series(pd.date_range("2025-01-01", periods=50, freq="h"))
    keys, seconds = hours.dt.strftime("%Y%m%d%H").astype("int64"), hours.astype("int64") // 10**6

    spellings = [moments.guess(column, NOW) for column in (keys, keys.astype(float), seconds, keys * 2)]

    assert [guessed and guessed.times for guessed in spellings] == [["%Y%m%d%H"], ["%Y%m%d%H"], ["epoch_seconds"], None]


def test_a_number_of_orders_that_begins_with_their_date_is_no_time_beside_a_date_key() -> None:
    days = pd.Series(pd.date_range("2025-01-01", periods=60)).dt.strftime("%Y%m%d").astype("int64")
    frame = pd.DataFrame({"order_id": days * 10_000 + 7, "date_key": days, "at": days.astype(str)})

    kinds = {name: column.kind for name, column in profiles.profile(frame, Reading(",", NOW)).columns.items()}

    assert kinds == {"order_id": "whole", "date_key": "time", "at": "time"}


def test_a_zone_s_name_counts_on_days_of_clock_changes() -> None:
    texts = pd.Series(["Mar 30 2025  3:30AM Europe/Berlin", "Oct 26 2025  2:30AM Europe/Berlin"])

    read = moments.read(texts, ["%b %d %Y %I:%M%p %Z"], "America/New_York")

    berlin = [datetime(2025, 3, 30, 3, 30), datetime(2025, 10, 26, 2, 30, fold=1)]
    assert read.tolist() == [
        time.replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC).replace(tzinfo=None) for time in berlin
    ]
