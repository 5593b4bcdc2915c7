import decimal
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nightshift.data.times import parse_time
from nightshift.tasks import columns

MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1))
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def text(*values):
    return pd.Series(list(values), dtype=str)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(MOMENTS, OFFSETS, st.sampled_from(["T", " "])), min_size=1, max_size=5))
def test_a_time_with_an_offset_is_read_as_that_moment_whatever_the_configured_zone(moments):
    written = text(*(moment.replace(tzinfo=zone).isoformat(sep) for moment, zone, sep in moments))
    expected = [moment.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None) for moment, zone, _ in moments]
    assert columns.times(written, "Asia/Tokyo").dt.to_pydatetime().tolist() == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(MOMENTS, min_size=1, max_size=5), st.sampled_from(["UTC", "Asia/Tokyo", "America/Lima"]))
def test_a_time_without_an_offset_is_in_the_configured_zone(moments, zone):
    expected = [m.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).replace(tzinfo=None) for m in moments]
    folded = [m.replace(tzinfo=ZoneInfo(zone), fold=1 - m.fold).astimezone(UTC).replace(tzinfo=None) for m in moments]
    assume(expected == folded)  # what a changed clock shows twice or never is below
    written = text(*(moment.isoformat() for moment in moments))
    assert columns.times(written, zone).dt.to_pydatetime().tolist() == expected
    stamps = pd.Series(moments, dtype="datetime64[us]")
    assert columns.times(stamps, zone).dt.to_pydatetime().tolist() == expected


def test_times_with_and_without_an_offset_may_be_mixed():
    written = text(
        "2024-03-10T12:00:00Z", "2024-03-10 12:00", "2024-03-10", "2024-03-10T12:00:00.5+0100", "20240310T120000Z"
    )
    assert columns.times(written, "Asia/Tokyo").tolist() == [
        pd.Timestamp("2024-03-10 12:00"),
        pd.Timestamp("2024-03-10 03:00"),
        pd.Timestamp("2024-03-09 15:00"),
        pd.Timestamp("2024-03-10 11:00:00.5"),
        pd.Timestamp("2024-03-10 12:00"),
    ]


def test_clock_changes_lose_no_time():
    written = text("2024-03-31T02:30:00", "2024-10-27T02:30:00")
    assert columns.times(written, "Europe/Brussels").astype(str).tolist() == [
        "2024-03-31 01:00:00",
        "2024-10-27 01:30:00",
    ]


@pytest.mark.parametrize(
    ("zone", "changes"),
    [
        ("Europe/Berlin", ["2024-03-31", "2024-10-27"]),
        ("America/New_York", ["2024-03-10", "2024-11-03"]),
        ("Australia/Lord_Howe", ["2024-04-07", "2024-10-06"]),
        ("Pacific/Apia", ["2011-12-30", "2012-04-01"]),
    ],
)
def test_a_column_is_moved_to_utc_as_each_of_its_times_is(zone, changes):
    minutes = pd.concat([pd.Series(pd.date_range(day, periods=288, freq="5min", unit="us")) for day in changes])
    expected = [parse_time(time, ZoneInfo(zone)) for time in minutes.dt.to_pydatetime()]
    for column in (minutes, minutes.astype(str), minutes.astype(object)):
        assert columns.times(column, zone).astype("int64").tolist() == expected


@pytest.mark.parametrize("value", ["yesterday", "10/03/2024", "2024-13-01", "", None, "1710028800"])
def test_what_is_no_iso_time_is_null(value):
    read = columns.times(text("2024-03-10T00:00:00", value), "UTC")
    assert read.isna().tolist() == [False, True]
    assert str(read.dtype) == "datetime64[us]"


def test_timestamps_with_a_zone_become_utc_and_numbers_are_no_times():
    zoned = pd.Series(pd.to_datetime(["2024-03-10T01:00:00+01:00"])).dt.tz_convert("Asia/Tokyo")
    assert columns.times(zoned, "America/Lima").astype(str).tolist() == ["2024-03-10"]
    assert columns.times(pd.Series([1710028800]), "UTC").isna().all()


@pytest.mark.parametrize(
    ("column", "dtype", "values"),
    [
        (pd.Series([1, 2], dtype="int32"), "Int64", [1, 2]),
        (pd.Series([1.0, None]), "Int64", [1, None]),
        (pd.Series([2**60, None], dtype="Int64"), "Int64", [2**60, None]),
        (text("12", "-7", ""), "Int64", [12, -7, None]),
        (pd.Series([decimal.Decimal(12), None], dtype=object), "Int64", [12, None]),
        (text("007", "12"), "string", ["007", "12"]),
        (text("A1", None), "string", ["A1", None]),
        (text("12345678901234567890"), "string", ["12345678901234567890"]),
        (pd.Series([1, "a"], dtype=object), "string", ["1", "a"]),
        (pd.Series([1.5]), "string", ["1.5"]),
        (pd.Series([2.0**60]), "Int64", [None]),
        (pd.Series(["x", ""], dtype="category"), "string", ["x", None]),
    ],
)
def test_ids_stay_as_they_are_written(column, dtype, values):
    read = columns.ids(column)
    assert read.dtype == dtype
    assert [None if pd.isna(value) else value for value in read] == values


def test_numeric_ids_are_text_when_text_is_asked_for():
    assert columns.ids(pd.Series([7, 8]), as_text=True).tolist() == ["7", "8"]
    assert columns.ids(text("7"), as_text=True).tolist() == ["7"]
    large = pd.Series([2**60 + 1, None], dtype="Int64")
    assert columns.ids(large, as_text=True).tolist() == [str(2**60 + 1), pd.NA], "every digit, beside a null too"


def test_numbers_are_read_to_the_last_bit():
    values = np.random.default_rng(0).random(1000) * 1000
    assert columns.numbers(text(*map(repr, values.tolist()))).tolist() == values.tolist()


def test_what_is_no_number_is_null():
    read = columns.numbers(text("1.5", "", None, "1,5", "x", "1e3"))
    assert read.astype(object).where(read.notna(), None).tolist() == [1.5, None, None, None, None, 1000.0]
    assert columns.numbers(pd.Series([True, False])).isna().all()
    assert columns.numbers(pd.Series(pd.to_datetime(["2024-03-10"]))).isna().all()
    assert columns.numbers(pd.Series([3, None], dtype="Int64"))[0] == 3.0


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([0, 1], dtype="int8"),
        pd.Series([0.0, 1.0]),
        pd.Series([False, True]),
        pd.Series([False, True], dtype="boolean"),
        text("0", "1"),
        text("false", "True"),
        text("0.0", "1.0"),
        pd.Series(["0", "1"], dtype="category"),
    ],
)
def test_labels_may_be_written_in_many_ways(column):
    read = columns.labels(column)
    assert str(read.dtype) == "Int8"
    assert read.tolist() == [0, 1]


@pytest.mark.parametrize("column", [pd.Series([2.0, None]), text("fraud", ""), pd.Series([-1, 7]), pd.Series([0.5])])
def test_other_labels_are_null(column):
    assert columns.labels(column).isna().all()


@pytest.mark.parametrize(
    "column", [pd.Series([3, None]), pd.Series([3, None], dtype="Int64"), text("3", ""), pd.Series([3, 4])]
)
def test_classes_that_are_numbers_are_known_beside_a_null_too(column):
    read = columns.classes(column, ["3", "x"])
    assert [None if pd.isna(value) else value for value in read] == ["3", None]
