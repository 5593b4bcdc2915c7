"""The replay of a day: silent where online and offline are equal, loud where they are not."""

import math
from datetime import timedelta

import pytest

from nightshift.tabular.online import skew
from nightshift.tabular.windows import DAY
from nightshift.tasks.tabular.features import core
from tests.nightshift.tabular.online.streams import CPU, FIRST, START, base, config, event, frame

CHOSEN = config(numeric=["km"])
ROWS = [(number * DAY // 9, number % 3, number % 2, 100 * number, number % 2) for number in range(45)]
EVENTS = [event(row, number, CHOSEN) for number, row in enumerate(ROWS)]


def replayed(change=lambda offline: offline, events=EVENTS, chosen=CHOSEN):
    day = frame([event for event in events if event.time >= (START + 4) * DAY], chosen)
    offline = core.features(frame(events, chosen), chosen, CPU).tail(len(day)).reset_index(drop=True)
    return skew.replay(base(events, chosen, 4), day, change(offline), chosen)


def test_a_day_whose_online_features_equal_the_offline_ones():
    report = replayed()
    assert (report.rows, report.differing, report.largest, report.worst) == (9, 0, 0.0, None)
    assert report.day == FIRST + timedelta(days=4)


@pytest.mark.parametrize(("step", "differing"), [(1e-10, 0), (1e-8, 1)])
def test_a_difference_is_counted_beyond_the_tolerance_and_named(step, differing):
    def moved(offline):
        offline.loc[3, "terminal_positive_rate_2d"] += step
        return offline

    report = replayed(moved)
    assert (report.differing, report.worst) == (differing, "terminal_positive_rate_2d")
    assert report.largest == pytest.approx(step, rel=1e-3)


def test_a_number_that_is_missing_on_both_sides_is_equal_and_on_one_side_is_not():
    holed = [event._replace(numeric=(math.nan,)) if event.event_id == 40 else event for event in EVENTS]
    report = replayed(events=holed)
    assert (report.differing, report.largest) == (0, 0.0)

    report = replayed(lambda offline: offline.assign(km=0.0), holed)
    assert (report.differing, report.largest, report.worst) == (9, skew.LARGEST, "km")


def test_without_a_label_delay_an_event_counts_the_labels_of_the_day():
    report = replayed(chosen=config(delay=0, numeric=["km"]))
    assert (report.rows, report.differing) == (9, 0)


def test_a_day_without_events():
    assert replayed(events=EVENTS[:20]).rows == 0
