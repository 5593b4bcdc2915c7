"""The test that may be looked at whenever labels arrive."""

import numpy as np
import pytest

from nightshift.stats import sequential
from nightshift.stats.sequential import BETS, Tally

ALPHA = 0.05


def test_the_bound_by_two_sums_never_exceeds_what_the_bets_win():
    x = np.linspace(-1, 1, 2001)[:, None]
    assert np.all(BETS * x + (np.log1p(-BETS) + BETS) * x**2 <= np.log1p(BETS * x) + 1e-15)


@pytest.mark.parametrize(
    ("values", "chances"), [((-1, 1), (1 / 2, 1 / 2)), ((-1, 0.1), (1 / 11, 10 / 11)), ((-0.1, 1), (10 / 11, 1 / 11))]
)
def test_looked_at_after_every_observation_it_is_wrong_less_often_than_stated(values, chances):
    """Between two versions that are equally good, the hardest case: with even wins, rare losses and rare wins."""
    x = np.random.default_rng(1).choice(values, size=(1000, 1000), p=chances)
    evidence = sequential.evidence(x.cumsum(axis=1), np.square(x).cumsum(axis=1), ALPHA)
    wrong = np.mean(evidence[:, -1] >= 1)
    print(f"{values}: {wrong:.1%} of 1,000 wrong, stated {ALPHA:.0%}")  # the figures
    assert wrong <= ALPHA


def test_a_difference_is_found_and_the_opposite_never():
    random = np.random.default_rng(2)
    days = [sequential.compare_losses(random.uniform(0, 1, 500), 0.9 * random.uniform(0, 1, 500)) for _ in range(30)]
    better, worse = sequential.path(days, ALPHA)
    assert better[-1] >= 1 and worse[-1] < 0.5
    assert np.all(np.diff(better) >= 0)
    swapped = [Tally(day.count, -day.total, day.squares) for day in days]
    assert np.array_equal(sequential.path(swapped, ALPHA), (worse, better))


def test_a_loss_above_the_worst_counts_as_the_worst_and_an_observation_is_a_share_of_it():
    tally = sequential.compare_losses(np.array([3.0, 90.0]), np.array([1.0, 5.0]), worst=10.0)
    assert (tally.count, tally.total) == (2, pytest.approx(0.2 + 0.5))


def test_no_labels_are_no_evidence():
    assert [len(path) for path in sequential.path([], ALPHA)] == [0, 0]
    assert [list(path) for path in sequential.path([Tally.from_observations(np.array([]))], ALPHA)] == [[0], [0]]
