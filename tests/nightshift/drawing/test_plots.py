import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.contracts.section import Axis, Bars, Chart, Series
from nightshift.drawing.plots import HEIGHT, SIDE, WIDTH, bars, chart


def drawn(points, scale="linear", style="line", notes=()):
    axis = Axis(label="share", ticks=[0, 0.25, 1], scale=scale)
    series = Series(name="one", style=style, points=points, notes=list(notes))
    return chart(Chart(title="a chart", x=axis, y=axis, series=[series]))


def corners(path: str) -> list[tuple[float, float]]:
    numbers = [float(number) for number in re.findall(r"[\d.]+", path)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def test_x_runs_to_the_right_and_y_up():
    (line,) = drawn([(0, 1), (0.5, 0.75), (1, 0.25)]).series
    assert corners(line.path) == [(0, 0), (SIDE / 2, SIDE / 4), (SIDE, 0.75 * SIDE)]


def test_square_roots_keep_small_shares_apart():
    (line,) = drawn([(0.01, 0.0), (0.25, 0.25)], "sqrt").series
    assert corners(line.path) == [(SIDE / 10, SIDE), (SIDE / 2, SIDE / 2)]


def test_markers_lie_where_ticks_of_their_values_are_and_carry_their_notes():
    plot = drawn([(0.25, 1)], "sqrt", "points", ["9 rows"])
    (marker,) = plot.series[0].markers
    assert (marker.x, marker.y, marker.text) == (plot.x_ticks[1].x, plot.y_ticks[2].y, "9 rows")
    assert plot.series[0].path == ""


def test_without_points_there_is_no_line():
    assert drawn([]).series[0].path == ""


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), max_size=20), st.sampled_from(["linear", "sqrt"]))
def test_no_point_leaves_the_square(points, scale):
    for marker in drawn(points, scale, "points").series[0].markers:
        assert 0 <= marker.x <= SIDE
        assert 0 <= marker.y <= SIDE


@given(st.lists(st.floats(0, 1e9), max_size=40))
def test_bars_fit_and_are_as_high_as_their_values(values):
    drawn = bars(Bars(title="days", labels=[str(i) for i in range(len(values))], heights=values))
    assert all(bar.x + bar.width <= WIDTH + 0.2 and 0 <= bar.y <= HEIGHT for bar in drawn)
    assert all(bar.y + bar.height == pytest.approx(HEIGHT, abs=0.11) for bar in drawn)
    assert sum(bool(bar.label) for bar in drawn) <= 8
