"""Which day is the newest complete one, which days lack rows, and which windows hold enough positives."""

from collections.abc import Callable
from datetime import date

import numpy as np
import pandas as pd
import pytest

from nightshift.data.guessing import lengths
from nightshift.data.guessing.daily_counts import DailyCounts, EmptyDays
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError

FIRST = pd.Timestamp("2025-01-06")  # a Monday
CONFIG = {
    "name": "orders",
    "label_delay_days": 7,
    "source": {"table": "x.csv"},
    "columns": {"event_id": "id", "event_time": "at", "label": "fraud", "customer": "card"},
    "task": {"kind": "tabular", "candidates": {"a": {"kind": "logistic_regression"}}},
}


def count(rows: object, share: float = 0.2) -> DailyCounts:
    days = pd.Series(rows, dtype=float)
    days.index = pd.date_range(FIRST, periods=len(days))
    return DailyCounts(days, days * share, days * 0)


def draw(mean: float, days: int = 120) -> np.ndarray:
    return np.random.default_rng(5).poisson(mean, days)


@pytest.mark.parametrize(
    ("days", "share", "train_and_test", "decisive", "sentence"),
    [
        (200, 0.5, (14, 7), None, "14 days of training and 7 of test are the shortest windows with 50 positives"),
        (200, 0.2, (14, 14), 42, "14 days of training and 14 of test are the shortest windows with 50 positives"),
        (1100, 0.02, (126, 126), 37, "126 days of training and 126 of test are the shortest windows"),
        (1100, 0.005, (210, 420), 31, "The file has room for"),
        (200, 0.005, (28, 63), 20, "No windows that the file has room for hold the 20 positives that a decision takes"),
    ],
)
def test_windows_are_the_shortest_whose_test_holds_enough_positives(
    days: int, share: float, train_and_test: tuple[int, int], decisive: int | None, sentence: str
) -> None:
    config, notes = lengths.fit_first([CONFIG], count([20] * days, share))

    assert config["evaluation"].get("min_positives") == decisive
    assert notes[0].startswith(sentence)
    assert (config["protocol"]["train_days"], config["protocol"]["test_days"]) == train_and_test


@pytest.mark.parametrize("mean", [20, 400])
@pytest.mark.parametrize(("share", "is_complete"), [(0.1, False), (0.4, False), (1.0, True)])
def test_the_newest_day_is_complete_that_has_as_many_rows_as_such_days(
    mean: int, share: float, is_complete: bool
) -> None:
    rows = draw(mean)
    rows[-1] = share * mean

    counts, notes = count(rows).without_partial()

    assert len(counts.rows) == len(rows) - (not is_complete)
    assert [" is taken to be incomplete" in note for note in notes] == [True] * (not is_complete)


def test_stray_rows_long_after_the_others_are_no_complete_days() -> None:
    rows = [*draw(50), *[0] * 20, 1]

    counts, (note,) = count(rows).without_partial()

    assert len(counts.rows) == 120
    assert "2025-05-26 has 1 rows, where such days have" in note


def test_a_quiet_weekday_is_complete() -> None:
    rows = np.tile([100, 100, 100, 100, 100, 20, 5], 15)

    assert [len(count(rows[:end]).without_partial()[0].rows) for end in (99, 103, 104, 105)] == [99, 103, 104, 105]


@pytest.mark.parametrize(("length", "mean"), [(1, 20), (2, 20), (12, 20), (1, 500), (6, 3)])
def test_missing_rows_are_asked_about_and_stop_a_first_run_that_needs_them(length: int, mean: int) -> None:
    rows = draw(mean)
    rows[60 : 60 + length] = 0
    counts = count(rows)
    empty = EmptyDays.find(counts)

    with pytest.raises(UserError, match=r"(?s)have no rows, .* are rows lost there.* or give --allow-empty-days if"):
        empty.describe(counts.span, are_right=False)

    setting, (question,) = empty.describe(Days(date(2025, 4, 1), date(2025, 5, 1)), are_right=False)
    assert (setting, "are rows lost there" in question) == ({}, True)
    assert empty.describe(counts.span, are_right=True)[0] == {"empty_days": "allowed"}


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda rows, days: rows * (days.weekday < 5), ["saturday", "sunday"]),
        (
            lambda rows, days: rows * (days.weekday == 0),
            ["tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
        ),
        (lambda rows, days: rows * (days.day == 1), "allowed"),
        (lambda rows, days: rows // 10, "allowed"),
        (lambda rows, days: rows + 1, None),
    ],
)
def test_days_that_are_empty_by_habit_or_by_chance_are_the_config_s(
    make: Callable[[np.ndarray, pd.DatetimeIndex], np.ndarray], setting: object
) -> None:
    counts = count(make(draw(20), pd.date_range(FIRST, periods=120)))

    assert EmptyDays.find(counts).describe(counts.span, are_right=False)[0].get("empty_days") == setting


def test_a_missing_week_is_no_habit_of_its_weekdays() -> None:
    rows = draw(20, 28) * (np.arange(28) % 7 < 6)
    rows[7:21] = 0

    assert EmptyDays.find(count(rows)).closed == [6]
    assert len(EmptyDays.find(count(rows)).unlikely) == 12
