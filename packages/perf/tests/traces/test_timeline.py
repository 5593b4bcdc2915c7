"""Intervals, beside what a grid of moments says of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nightshift_perf.traces import timeline

END = 40
MOMENTS = np.arange(END) + 0.5
intervals = st.lists(
    st.tuples(st.integers(0, END), st.integers(0, END)).map(lambda pair: (min(pair), max(pair))), max_size=8
).map(lambda pairs: np.array(pairs, dtype=float).reshape(-1, 2))


def at(spans):
    """Return which moments of the grid are in any of the intervals."""
    return np.array([any(start <= moment < end for start, end in spans) for moment in MOMENTS])


@given(intervals)
def test_a_union_holds_every_moment_once(some):
    merged = timeline.union(some)
    assert (at(merged) == at(some)).all()
    assert timeline.length(merged) == at(some).sum()
    assert (merged[1:, 0] > merged[:-1, 1]).all()


@given(intervals, intervals)
def test_what_is_common_and_what_is_left_add_up(one, other):
    one, other = timeline.union(one), timeline.union(other)
    assert (at(timeline.common(one, other)) == (at(one) & at(other))).all()
    assert (at(timeline.without(one, other)) == (at(one) & ~at(other))).all()


@given(intervals, st.integers(0, END - 1), st.integers(1, END))
def test_gaps_are_the_rest_of_a_window(some, first, last):
    window = (min(first, last), max(first, last))
    inside = at([window])
    assert (at(timeline.gaps(timeline.union(some), window)) == (inside & ~at(some))).all()


@given(intervals, intervals)
def test_each_interval_knows_how_much_of_it_is_shared(some, others):
    others = timeline.union(others)
    assert timeline.measure_overlap(some, others).tolist() == [
        (at([interval]) & at(others)).sum() if interval[1] > interval[0] else 0 for interval in some
    ]
