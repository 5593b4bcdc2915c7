from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nightshift.config import parse
from nightshift.data import splits
from nightshift.data.dates import parse_date
from nightshift.data.splits import Days, Fold
from nightshift.runtime.errors import UserError

ROOT = Path(__file__).parents[3]
DATE = date(2018, 8, 14)


def config(name, **protocol):
    value = yaml.safe_load((ROOT / "pipelines" / "configs" / f"{name}.yaml").read_text())
    return parse(value | {"protocol": value.get("protocol", {}) | protocol})


def days(first: str, last: str) -> Days:
    return Days(date.fromisoformat(first), date.fromisoformat(last))


def fold(train: Days, test: Days) -> Fold:
    return Fold(train, test, 7)


@given(
    st.datetimes(min_value=datetime(2000, 1, 2), max_value=datetime(2100, 1, 1)),
    st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_the_last_complete_day_is_over_in_utc_and_the_next_one_is_not(moment, zone):
    day = splits.last_complete_day(moment.replace(tzinfo=UTC).astimezone(zone))
    over = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    assert over <= moment.replace(tzinfo=UTC) < over + timedelta(days=1)


def test_the_handbooks_week_trains_tests_and_validates_as_the_book_does():
    plan = splits.plan(config("handbook"), DATE)
    assert plan.test == fold(days("2018-07-25", "2018-07-31"), days("2018-08-08", "2018-08-14"))
    assert plan.validation == fold(days("2018-07-11", "2018-07-17"), days("2018-07-25", "2018-07-31"))
    assert plan.features == days("2018-07-11", "2018-08-14")
    # 30 days of windows and 7 of delay before the first feature
    assert plan.events == days("2018-06-04", "2018-08-14")
    assert plan.labels_due == DATE


def test_a_daily_run_tests_on_the_newest_days_whose_labels_are_known():
    plan = splits.plan(config("fraud"), DATE)
    assert plan.test == fold(days("2018-07-18", "2018-07-24"), days("2018-08-01", "2018-08-07"))
    assert plan.validation == fold(days("2018-07-04", "2018-07-10"), days("2018-07-18", "2018-07-24"))
    # features go on to the logical date, for drift
    assert plan.features == days("2018-07-04", "2018-08-14")
    assert plan.events == days("2018-05-28", "2018-08-14")
    assert plan.labels_due == date(2018, 8, 7)


@given(st.sampled_from(["fraud", "handbook"]), st.integers(1, 9), st.integers(1, 9), st.dates(date(2000, 1, 1)))
def test_every_window_keeps_the_label_delay_from_the_one_it_learns_from(name, train, test, day):
    day = max(day, date(2000, 6, 1))
    plan = splits.plan(config(name, train_days=train, test_days=test), day)
    for fold in (plan.validation, plan.test):
        assert len(list(fold.train)) == train
        assert len(list(fold.test)) == test
        assert fold.test.first - fold.train.last == timedelta(days=8)
    assert plan.validation.test.last == plan.test.train.last
    assert plan.features.first == min(plan.validation.train.first, day - timedelta(days=6))
    assert plan.labels_due == plan.test.test.last <= plan.features.last == day


@given(
    st.sampled_from(["fraud", "handbook", "topics"]),
    st.integers(1, 60),
    st.dates(date(2000, 6, 1), date(2100, 1, 1)),
    st.integers(-9, 90),
)
def test_a_model_is_watched_on_the_newest_days_and_on_labeled_ones_it_has_not_seen(name, window, day, ago):
    value = config(name, train_days=3, test_days=2).model_dump(exclude_none=True)
    parsed = parse(value | {"drift": {"window_days": window}})
    plan, trained = splits.plan(parsed, day), day - timedelta(days=ago)
    watched = splits.monitoring_window(parsed, day, trained)
    assert (len(list(watched.newest)), watched.newest.last) == (window, day)
    assert all(trained < day <= plan.labels_due and day in plan.features for day in watched.labeled)
    if trained < plan.features.first:
        known = Days(plan.features.first, plan.labels_due)
        assert len(list(watched.labeled)) == min(window, len(list(known)))
    assert list(watched) == sorted(set(watched))
    assert set(watched) == {*watched.newest, *watched.labeled}
    assert set(watched.newest) <= set(plan.features)


def test_rows_of_a_day_are_those_from_midnight_to_midnight():
    times = ("2018-08-07 23:59:59.999999", "2018-08-08", "2018-08-08 23:59:59.999999", "2018-08-09")
    rows = pd.DataFrame({"event_time": pd.Series([pd.Timestamp(time) for time in times], dtype="datetime64[us]")})
    assert splits.rows_of(rows, days("2018-08-08", "2018-08-08")).index.tolist() == [1, 2]


def test_days_are_a_closed_range():
    span = days("2018-02-27", "2018-03-01")
    assert [str(day) for day in span] == ["2018-02-27", "2018-02-28", "2018-03-01"]
    assert date(2018, 3, 1) in span
    assert date(2018, 3, 2) not in span
    assert "2018-03-01" not in span
    assert str(span) == "2018-02-27 .. 2018-03-01"


@pytest.mark.parametrize("text", ["14.08.2018", "2018-02-30", "yesterday", ""])
def test_a_date_written_otherwise_is_refused_with_an_example(text):
    with pytest.raises(UserError, match=r"write a day as YYYY-MM-DD, for example 2018-08-14") as refused:
        parse_date(text)
    assert repr(text) in str(refused.value)


def test_without_windows_no_events_are_needed_before_the_first_feature():
    plan = splits.plan(config("leads"), DATE)
    assert plan.events == plan.features
