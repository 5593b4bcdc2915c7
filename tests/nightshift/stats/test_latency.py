import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.stats import latency


@given(rate=st.floats(0.5, 5000), seconds=st.floats(0.1, 5), seed=st.integers(0, 10))
def test_requests_are_due_in_order_within_the_time_and_as_often_as_the_rate_says(rate, seconds, seed) -> None:
    due = np.array(latency.poisson_schedule(rate, seconds, seed))
    assert (np.diff(due, prepend=0.0) >= 0).all()
    assert (due < seconds).all()
    # eight standard deviations of a Poisson count: a wrong rate or a schedule that ends early is far outside
    assert abs(len(due) - rate * seconds) <= 8 * np.sqrt(rate * seconds) + 8
    twice = np.array(latency.poisson_schedule(2 * rate, seconds / 2, seed))
    assert twice == pytest.approx(due / 2)


def test_the_gaps_between_requests_are_those_of_a_poisson_process() -> None:
    gaps = np.diff(latency.poisson_schedule(1000, 20))
    assert gaps.mean() == pytest.approx(gaps.std(), rel=0.05) == pytest.approx(1e-3, rel=0.05)


@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=300), share=st.floats(0.01, 1))
def test_at_least_this_share_of_the_values_does_not_exceed_their_quantile(values, share) -> None:
    quantile = latency.quantile(np.sort(values), share)
    assert np.mean(np.array(values) <= quantile) >= share - 1e-9
    assert np.mean(np.array(values) < quantile) < share


def test_the_interval_of_a_percentile_holds_it_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    held = [
        low <= 0.99 <= high for low, high in (latency.interval(np.sort(random.random(2000)), 0.99) for _ in range(500))
    ]
    assert 0.92 <= np.mean(held) <= 0.99
    assert latency.interval(np.sort(random.random(100)), 0.99)[1] is None  # too few lie above to say
    assert latency.interval(np.array([]), 0.99) is None
