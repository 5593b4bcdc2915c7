"""The intervals."""

from itertools import islice

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score

from nightshift.stats import bootstrap
from nightshift.stats import ranking as metrics
from nightshift.stats.bootstrap import BootstrapInterval


def world(seed: int, rows: int = 1500, positives: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and scores that tell positives apart only so well."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([1, 0], [positives, rows - positives]).astype(np.int8)
    return labels, rng.normal(labels * 1.5, 1)


def purchases(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Two days of purchases of 30 customers, and scores with ties."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "event_time": pd.Timestamp("2024-03-18") + pd.to_timedelta(rng.integers(0, 2 * 86400, 200), unit="s"),
            "customer": rng.integers(0, 30, 200),
            "label": pd.array((rng.random(200) < 0.1).astype(int), dtype="Int8"),
        }
    )
    return frame, rng.random(200).round(1)


@given(
    labels=arrays(np.int8, 40, elements=st.integers(0, 1)).filter(lambda labels: 0 < labels.sum() < 40),
    scores=arrays(np.float32, 40, elements=st.sampled_from([0, 0.125, 0.25, 0.5, 1])),
)
@settings(deadline=None, max_examples=20)
def test_a_resamples_average_precision_is_scikit_learns_of_the_drawn_rows(
    labels: np.ndarray, scores: np.ndarray
) -> None:
    some = islice(bootstrap.draws(labels == 1), 10)
    expected = [average_precision_score(labels[drawn], scores[drawn]) for drawn in some]

    assert bootstrap.average_precision(labels, scores)[:10] == pytest.approx(np.array(expected))


def test_a_resamples_precision_at_k_is_that_of_the_drawn_customers_with_all_their_days() -> None:
    rows, scores = purchases(0)
    positive = rows.groupby("customer")["label"].max().to_numpy() == 1
    customers = rows["customer"].drop_duplicates().sort_values().to_numpy()

    def precision(drawn: np.ndarray) -> float:
        copies = [rows[rows["customer"] == customers[card]].assign(customer=f"{card:02}-{i}") for i, card in drawn]
        together = pd.concat(copies)
        return metrics.precision_at_k(together, scores[together.index], 5)

    expected = [precision(list(enumerate(drawn))) for drawn in islice(bootstrap.draws(positive), 20)]

    assert bootstrap.precision_at_k(rows, scores, 5)[:20] == pytest.approx(np.array(expected))


@pytest.mark.parametrize("positives", [0, 7, 50])
def test_every_resample_holds_as_many_frauds_and_rows_as_there_are(positives: int) -> None:
    positive = np.random.default_rng(0).permutation(50) < positives
    resamples = list(bootstrap.draws(positive))

    assert len(resamples) == bootstrap.RESAMPLES
    assert {len(drawn) for drawn in resamples} == {50}
    assert {int(positive[drawn].sum()) for drawn in resamples} == {positives}
    assert all(positive[drawn[:positives]].all() for drawn in resamples)
    assert len({tuple(drawn) for drawn in resamples}) == bootstrap.RESAMPLES


def test_a_mean_is_taken_over_the_drawn_rows() -> None:
    labels, values = world(0)

    expected = [values[drawn].mean() for drawn in bootstrap.draws(labels == 1)]

    assert bootstrap.mean(labels, values).tolist() == expected


def test_two_scorers_of_the_same_rows_see_the_same_resamples() -> None:
    labels, scores = world(0)

    gain = bootstrap.average_precision(labels, scores) - bootstrap.average_precision(labels, scores * 2)

    assert (gain == 0).all()


def test_the_interval_is_as_likely_to_hold_the_truth_as_it_says() -> None:
    truth = average_precision_score(*world(0, rows=1_500_000, positives=120_000))

    intervals = [BootstrapInterval.from_resamples(bootstrap.average_precision(*world(seed))) for seed in range(1, 101)]

    held = sum(interval.low <= truth <= interval.high for interval in intervals)
    # binomial (100, 0.95) lies in here with a probability of 99.9 %
    assert 88 <= held <= 100
    assert np.mean([interval.high - interval.low for interval in intervals]) < 0.2


def test_an_interval_leaves_a_fortieth_out_at_each_end() -> None:
    assert BootstrapInterval.from_resamples(np.arange(1001.0)) == BootstrapInterval(25, 975)


@given(
    labels=arrays(np.int8, 40, elements=st.integers(0, 1)).filter(lambda labels: 0 < labels.sum() < 40),
    scores=arrays(np.float32, 40, elements=st.sampled_from([0, 0.125, 0.25, 0.5, 1])),
)
@settings(deadline=None, max_examples=20)
def test_a_resample_of_groups_has_each_group_as_often_as_it_is_drawn(labels: np.ndarray, scores: np.ndarray) -> None:
    groups = np.arange(40) // 4
    for resampled, counts in zip(
        bootstrap.average_precision_of_groups(labels, scores, groups)[:10], bootstrap.draw_counts(10), strict=False
    ):
        rows = np.repeat(np.arange(40), counts[groups].astype(int))
        expected = average_precision_score(labels[rows], scores[rows]) if labels[rows].any() else 0
        assert resampled == pytest.approx(expected)
