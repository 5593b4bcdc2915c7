"""Prediction intervals: they cover what they promise of rows drawn alike, and are as wide as errors are."""

import numpy as np
import pytest

from nightshift.stats import conformal


def draw(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores whose errors grow with the score."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(1, 100, rows)
    return scores + rng.normal(0, scores / 5), scores


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_an_interval_covers_what_it_promises_of_rows_drawn_alike(coverage: float) -> None:
    interval = conformal.calibrate(*draw(4000, 1), coverage)
    labels, scores = draw(20_000, 2)

    low, high = conformal.bound(scores, interval)

    assert ((low <= labels) & (labels <= high)).mean() == pytest.approx(coverage, abs=0.02)


def test_an_interval_is_as_wide_as_errors_are_at_its_score() -> None:
    interval = conformal.calibrate(*draw(4000, 1), 0.9)

    low, high = conformal.bound(np.array([10.0, 90.0]), interval)

    assert (high - low)[1] > 4 * (high - low)[0]


def test_errors_to_one_side_make_an_interval_to_that_side() -> None:
    scores = np.linspace(0, 1, 400)
    interval = conformal.calibrate(scores + np.random.default_rng(0).exponential(5, 400), scores, 0.9)

    assert min(interval.above) > 3 * -min(interval.below)


@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows_make_the_interval_of_all_their_errors(rows: int) -> None:
    labels, scores = draw(rows, 3)
    interval = conformal.calibrate(labels, scores, 0.9)

    assert (interval.below, interval.above) == ([(labels - scores).min()], [(labels - scores).max()])


def test_scores_that_are_all_alike_have_one_interval() -> None:
    interval = conformal.calibrate(np.arange(1000.0), np.full(1000, 7.0), 0.9)

    assert interval.edges == []
