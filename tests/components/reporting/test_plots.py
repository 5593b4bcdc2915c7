import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.reporting.plots import SIDE, calibration, precision_recall

SHARES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=20)


def corners(path: str) -> list[tuple[float, float]]:
    numbers = [float(number) for number in re.findall(r"[\d.]+", path)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def test_recall_runs_to_the_right_and_precision_up():
    plot = precision_recall({"recall": [0.0, 0.5, 1.0], "precision": [1.0, 0.75, 0.25]}, 0.01)
    assert corners(plot.line) == [(0, 0), (SIDE / 2, SIDE / 4), (SIDE, 0.75 * SIDE)]


def test_the_line_to_beat_lies_at_the_share_of_frauds():
    plot = precision_recall({"recall": [0.0], "precision": [1.0]}, 0.25)
    assert corners(plot.reference) == [(0, 0.75 * SIDE), (SIDE, 0.75 * SIDE)]


def test_calibration_keeps_small_shares_apart_by_the_square_root():
    plot = calibration({"predicted": [0.01, 0.25], "observed": [0.0, 0.25], "count": [4000, 20]})
    assert corners(plot.line) == [(SIDE / 10, SIDE), (SIDE / 2, SIDE / 2)]
    assert [marker.text for marker in plot.markers] == [
        "4,000 rows: predicted 0.01, observed 0",
        "20 rows: predicted 0.25, observed 0.25",
    ]


def test_a_tick_lies_where_its_value_is_drawn():
    plot = calibration({"predicted": [0.05], "observed": [0.2], "count": [9]})
    ticks = {tick.text: tick for tick in plot.ticks}
    assert (plot.markers[0].x, plot.markers[0].y) == (ticks["0.05"].x, ticks["0.2"].y)


def test_without_points_there_is_no_line():
    assert precision_recall({"recall": [], "precision": []}, 0.0).line == ""
    assert calibration({"predicted": [], "observed": [], "count": []}).markers == []


@given(SHARES)
def test_no_point_leaves_the_square(points):
    predicted, observed = [list(values) for values in zip(*points, strict=True)] if points else ([], [])
    curve = {"predicted": predicted, "observed": observed, "count": [1] * len(points)}
    for x, y in corners(calibration(curve).line):
        assert 0 <= x <= SIDE
        assert 0 <= y <= SIDE


@pytest.mark.parametrize("make", [lambda c: precision_recall(c, 0.1), calibration])
def test_curves_of_unequal_length_are_refused(make):
    with pytest.raises(ValueError, match="zip"):
        make({"recall": [0.1], "precision": [], "predicted": [0.1], "observed": [], "count": [1]})
