"""The replay of a day: silent where online and offline are equal, loud where they are not."""

from datetime import timedelta

import pytest

from components.features import core
from components.tabular.online import skew
from components.tabular.windows import DAY
from tests.components.tabular.online.streams import CPU, FIRST, START, base, config, event, frame

CHOSEN = config(numeric=["km"])
ROWS = [(number * DAY // 9, number % 3, number % 2, 100 * number, number % 2) for number in range(45)]
EVENTS = [event(row, number, CHOSEN) for number, row in enumerate(ROWS)]


def replayed(change=lambda offline: offline, events=EVENTS):
    day = frame([each for each in events if each.time >= (START + 4) * DAY], CHOSEN)
    offline = core.features(frame(events, CHOSEN), CHOSEN, CPU).tail(len(day)).reset_index(drop=True)
    return skew.replay(base(events, CHOSEN, 4), day, change(offline), CHOSEN)


def test_a_day_whose_online_features_equal_the_offline_ones():
    found = replayed()
    assert (found.rows, found.differing, found.largest, found.worst) == (9, 0, 0.0, None)
    assert found.day == FIRST + timedelta(days=4)


@pytest.mark.parametrize(("step", "differing"), [(1e-10, 0), (1e-8, 1)])
def test_a_difference_is_counted_beyond_the_tolerance_and_named(step, differing):
    def moved(offline):
        offline.loc[3, "terminal_risk_2d"] += step
        return offline

    found = replayed(moved)
    assert (found.differing, found.worst) == (differing, "terminal_risk_2d")
    assert found.largest == pytest.approx(step, rel=1e-3)


def test_a_day_without_events():
    assert replayed(events=EVENTS[:20]).rows == 0
