"""The test that may be looked at whenever labels arrive."""

import numpy as np
import pytest

from nightshift.stats import sequential
from nightshift.stats.sequential import BETS, LossSums, Tally

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


def test_of_requests_that_one_version_answered_it_is_wrong_less_often_than_stated():
    """Where the challenger's answers cost exactly as many times the champion's as they may, at 5 % of the requests."""
    random, share, ratio = np.random.default_rng(3), 0.05, 1.1
    costs = random.uniform(0, 0.2, (500, 1000))
    ours = random.random(costs.shape) < share
    x = np.where(ours, -ratio * costs, ratio * share / (1 - share) * costs)
    for side in (x, -x):
        evidence = sequential.evidence(side.cumsum(axis=1), np.square(side).cumsum(axis=1), ALPHA)
        assert np.mean(evidence[:, -1] >= 1) <= ALPHA
    sums = LossSums.from_requests(_tally(costs[0][~ours[0]]), _tally(ratio * costs[0][ours[0]]), share)
    expected, tally = _tally(x[0] / ratio), sums.tally(ratio)
    assert (tally.count, tally.total, tally.squares) == pytest.approx((1000, expected.total, expected.squares))


def test_whatever_share_the_challenger_has_equal_costs_have_equal_sums():
    for share in (0.05, 0.5, 0.9):
        sums = LossSums.from_requests(Tally(100, 40 * (1 - share), 20), Tally(100, 40 * share, 20), share)
        assert sums.champion == pytest.approx(sums.challenger) and sums.products == 0


def _tally(values) -> Tally:
    return Tally(len(values), values.sum(), np.square(values).sum())


def test_sums_of_losses_hold_every_multiple_of_the_champions():
    champion, challenger = np.random.default_rng(4).random((2, 500))
    for ratio in (0.9, 1.0, 1.1, 3.0):
        tally = LossSums.from_losses(champion, challenger).tally(ratio)
        expected = _tally((ratio * champion - challenger) / max(ratio, 1))
        assert (tally.count, tally.total, tally.squares) == pytest.approx((500, expected.total, expected.squares))


def test_a_difference_is_found_and_the_opposite_never():
    random = np.random.default_rng(2)
    losses = [(random.uniform(0, 1, 500), 0.9 * random.uniform(0, 1, 500)) for _ in range(30)]
    days = [LossSums.from_losses(*pair).tally(1) for pair in losses]
    better, worse = sequential.path(days, ALPHA), sequential.path([day.opposite for day in days], ALPHA)
    assert better[-1] >= 1 and worse[-1] < 0.5
    assert np.all(np.diff(better) >= 0)
    swapped = [LossSums.from_losses(*reversed(pair)).tally(1) for pair in losses]
    assert sequential.path(swapped, ALPHA) == pytest.approx(worse)


def test_a_loss_above_the_worst_counts_as_the_worst():
    tally = LossSums.from_losses(np.array([0.3, 9.0]), np.array([0.1, 0.5])).tally(1)
    assert (tally.count, tally.total) == (2, pytest.approx(0.2 + 0.5))


def test_a_request_counts_as_the_upper_edge_of_its_bucket_and_at_most_as_the_worst():
    tally = Tally.from_histogram([0.1, 0.5, 2.0, np.inf], [10, 4, 2, 1], worst=1.0)
    assert (tally.count, tally.total, tally.squares) == (17, pytest.approx(1 + 2 + 3), pytest.approx(0.1 + 1 + 3))


def test_no_labels_are_no_evidence():
    assert list(sequential.path([], ALPHA)) == []
    assert list(sequential.path([LossSums.from_losses(np.array([]), np.array([])).tally(1)], ALPHA)) == [0]
