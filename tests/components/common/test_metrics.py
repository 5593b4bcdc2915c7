import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.common import metrics


def rows(*events: tuple[int, str, int]) -> pd.DataFrame:
    """Events from (day of March, customer, label)."""
    return pd.DataFrame(
        {
            "event_time": pd.to_datetime([f"2024-03-{day:02} 12:00" for day, _, _ in events]).astype("datetime64[us]"),
            "customer": [customer for _, customer, _ in events],
            "label": pd.array([label for _, _, label in events], dtype="Int8"),
        }
    )


def test_card_precision_is_the_share_of_defrauded_cards_among_the_most_suspicious():
    day = rows((1, "ann", 1), (1, "bob", 0), (1, "eve", 1), (1, "zoe", 0))
    # the two highest scores are ann's, a hit, and bob's, a miss
    assert metrics.card_precision(day, np.array([0.9, 0.8, 0.7, 0.1]), 2) == 0.5


def test_a_card_counts_once_with_its_highest_score_and_is_defrauded_if_any_of_its_rows_is():
    day = rows((1, "ann", 1), (1, "ann", 0), (1, "ann", 0), (1, "bob", 0), (1, "eve", 0))
    # ann's fraud scores low, but another row of hers leads
    assert metrics.card_precision(day, np.array([0.1, 0.9, 0.8, 0.7, 0.6]), 2) == 0.5


def test_a_card_detected_on_one_day_is_out_of_the_game_on_the_next():
    days = rows((1, "ann", 1), (1, "bob", 0), (2, "ann", 1), (2, "eve", 0))
    # day 1: ann found, 1 of 1; day 2: ann is out, eve is a miss, 0 of 1
    assert metrics.card_precision(days, np.array([0.9, 0.1, 0.9, 0.2]), 1) == 0.5


def test_a_defrauded_card_that_was_missed_can_be_found_the_next_day():
    days = rows((1, "ann", 1), (1, "bob", 0), (2, "ann", 1), (2, "eve", 0))
    assert metrics.card_precision(days, np.array([0.1, 0.9, 0.9, 0.2]), 1) == 0.5


def test_the_mean_is_over_days_and_fewer_cards_than_can_be_checked_lower_it():
    days = rows((1, "ann", 1), (2, "bob", 1), (2, "eve", 1), (3, "zoe", 0))
    # 1, 2 and 0 of 4
    assert metrics.card_precision(days, np.ones(4), 4) == pytest.approx((1 / 4 + 2 / 4 + 0) / 3)


def test_equal_scores_are_taken_in_order_of_customers():
    day = rows((1, "bob", 0), (1, "ann", 1))
    assert metrics.card_precision(day, np.array([0.5, 0.5]), 1) == 1.0


def test_no_rows_give_a_card_precision_of_zero():
    assert metrics.card_precision(rows(), np.array([]), 100) == 0.0


def test_the_ceiling_is_what_a_perfect_scorer_reaches():
    # day 1 has one defrauded card for two checks; on day 2 ann has been found and nobody else is defrauded
    days = rows((1, "ann", 1), (1, "bob", 0), (2, "ann", 1), (2, "bob", 0))
    found = metrics.evaluate(days, np.array([0.1, 0.9, 0.2, 0.8]), 2)
    assert found["card_precision_ceiling"] == pytest.approx((1 / 2 + 0) / 2)


def test_ranking_metrics_are_those_of_a_hand_ranked_list():
    found = metrics.evaluate(
        rows((1, "a", 1), (1, "b", 0), (1, "c", 1), (1, "d", 0)), np.array([0.9, 0.8, 0.7, 0.1]), 1
    )
    # three of the four pairs of a fraud and another row are in order; precision is 1/1 and 2/3 at the two frauds
    assert found["auc_roc"] == pytest.approx(3 / 4)
    assert found["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert tuple(found) == metrics.NAMES


@pytest.mark.parametrize("label", [0, 1])
def test_where_a_class_is_missing_the_ranking_metrics_have_no_value(label):
    found = metrics.evaluate(rows((1, "a", label), (1, "b", label)), np.array([0.9, 0.1]), 1)
    assert found["auc_roc"] is None
    assert found["average_precision"] is None
    assert found["card_precision"] == label


events = st.tuples(st.integers(1, 3), st.sampled_from("abcdef"), st.integers(0, 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=1, max_size=20), st.integers(1, 4), st.data())
def test_a_precision_lies_between_nothing_and_everything(drawn, top_k, data):
    scores = data.draw(st.lists(st.floats(0, 1), min_size=len(drawn), max_size=len(drawn)))
    assert 0 <= metrics.card_precision(rows(*drawn), np.array(scores), top_k) <= 1


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=1, max_size=20), st.data())
def test_on_one_day_nobody_beats_the_ceiling(drawn, data):
    day = rows(*[(1, customer, label) for _, customer, label in drawn])
    scores = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(drawn), max_size=len(drawn))))
    found = metrics.evaluate(day, scores, 2)
    assert found["card_precision"] <= found["card_precision_ceiling"]
