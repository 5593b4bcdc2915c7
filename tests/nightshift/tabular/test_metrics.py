import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift.stats import ranking as metrics


def rows(*events: tuple[int, str, int]) -> pd.DataFrame:
    """Events from (day of March, customer, label)."""
    return pd.DataFrame(
        {
            "event_time": pd.to_datetime([f"2024-03-{day:02} 12:00" for day, _, _ in events]).astype("datetime64[us]"),
            "customer": [customer for _, customer, _ in events],
            "label": pd.array([label for _, _, label in events], dtype="Int8"),
        }
    )


@pytest.mark.parametrize(
    ("events", "scores", "top_k", "expected"),
    [
        pytest.param(
            [(1, "ann", 1), (1, "bob", 0), (1, "eve", 1), (1, "zoe", 0)],
            [0.9, 0.8, 0.7, 0.1],  # the two highest are ann's, a hit, and bob's, a miss
            2,
            0.5,
            id="is the share of defrauded cards among the most suspicious",
        ),
        pytest.param(
            [(1, "ann", 1), (1, "ann", 0), (1, "ann", 0), (1, "bob", 0), (1, "eve", 0)],
            [0.1, 0.9, 0.8, 0.7, 0.6],  # ann's fraud scores low, but another row of hers leads
            2,
            0.5,
            id="counts a card once with its highest score as defrauded if any of its rows is",
        ),
        pytest.param(
            [(1, "ann", 1), (1, "bob", 0), (2, "ann", 1), (2, "eve", 0)],
            [0.9, 0.1, 0.9, 0.2],  # day 1: ann found, 1 of 1; day 2: ann is out, eve is a miss, 0 of 1
            1,
            0.5,
            id="leaves a card that was detected on one day out of the next",
        ),
        pytest.param(
            [(1, "ann", 1), (1, "bob", 0), (2, "ann", 1), (2, "eve", 0)],
            [0.1, 0.9, 0.9, 0.2],
            1,
            0.5,
            id="counts a card that was missed and is found the next day",
        ),
        pytest.param(
            [(1, "ann", 1), (2, "bob", 1), (2, "eve", 1), (3, "zoe", 0)],
            [1.0] * 4,  # 1, 2 and 0 of 4
            4,
            (1 / 4 + 2 / 4 + 0) / 3,
            id="is a mean over days, which fewer cards than can be checked lower",
        ),
        pytest.param([(1, "bob", 0), (1, "ann", 1)], [0.5, 0.5], 1, 1.0, id="takes equal scores in order of customers"),
        pytest.param([], [], 100, 0.0, id="is zero without rows"),
    ],
)
def test_precision_at_k(events, scores, top_k, expected):
    assert metrics.precision_at_k(rows(*events), np.array(scores), top_k) == pytest.approx(expected)


def test_the_ceiling_is_what_a_perfect_scorer_reaches():
    # day 1 has one positive card for two checks; on day 2 ann has been found and nobody else is positive
    days = rows((1, "ann", 1), (1, "bob", 0), (2, "ann", 1), (2, "bob", 0))
    measured = metrics.evaluate(days, np.array([0.1, 0.9, 0.2, 0.8]), 2)
    assert measured["precision_at_k_ceiling"] == pytest.approx((1 / 2 + 0) / 2)


def test_ranking_metrics_are_those_of_a_hand_ranked_list():
    measured = metrics.evaluate(
        rows((1, "a", 1), (1, "b", 0), (1, "c", 1), (1, "d", 0)), np.array([0.9, 0.8, 0.7, 0.1]), 1
    )
    # three of the four pairs of a fraud and another row are in order; precision is 1/1 and 2/3 at the two positives
    assert measured["auc_roc"] == pytest.approx(3 / 4)
    assert measured["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert tuple(measured) == ("auc_roc", "average_precision", "precision_at_k", "precision_at_k_ceiling")


@pytest.mark.parametrize("label", [0, 1])
def test_where_a_class_is_missing_the_ranking_metrics_have_no_value(label):
    measured = metrics.evaluate(rows((1, "a", label), (1, "b", label)), np.array([0.9, 0.1]), 1)
    assert measured["auc_roc"] is None
    assert measured["average_precision"] is None
    assert measured["precision_at_k"] == label


events = st.tuples(st.integers(1, 3), st.sampled_from("abcdef"), st.integers(0, 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=1, max_size=20), st.data())
def test_on_one_day_nobody_beats_the_ceiling(drawn, data):
    day = rows(*[(1, customer, label) for _, customer, label in drawn])
    scores = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(drawn), max_size=len(drawn))))
    measured = metrics.evaluate(day, scores, 2)
    assert measured["precision_at_k"] <= measured["precision_at_k_ceiling"]


def by_the_book(rows, scores, top_k):
    """Card precision as its definition reads, a card at a time."""
    caught, precisions = set(), []
    for day in sorted(set(rows["event_time"].dt.date)):
        cards = {}
        for (_, row), score in zip(rows.iterrows(), scores, strict=True):
            if row["event_time"].date() == day and row["customer"] not in caught:
                high, label = cards.get(row["customer"], (-1.0, 0))
                cards[row["customer"]] = (max(high, score), max(label, row["label"]))
        top = sorted(cards, key=lambda card: (-cards[card][0], card))[:top_k]
        detected = [card for card in top if cards[card][1]]
        caught.update(detected)
        precisions.append(len(detected) / top_k)
    return np.mean(precisions)


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=1, max_size=20), st.integers(1, 4), st.data())
def test_precision_at_k_is_what_its_definition_says(drawn, top_k, data):
    scores = data.draw(st.lists(st.sampled_from([0, 0.2, 0.5, 1]), min_size=len(drawn), max_size=len(drawn)))
    expected = by_the_book(rows(*drawn), scores, top_k)
    assert metrics.precision_at_k(rows(*drawn), np.array(scores), top_k) == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=1, max_size=15), st.integers(1, 4), st.data())
def test_copies_of_a_card_are_cards_of_their_own(drawn, top_k, data):
    scores = data.draw(st.lists(st.sampled_from([0, 0.2, 0.5, 1]), min_size=len(drawn), max_size=len(drawn)))
    customers = sorted({customer for _, customer, _ in drawn})
    copies = data.draw(st.lists(st.integers(0, 3), min_size=len(customers), max_size=len(customers)))
    times = dict(zip(customers, copies, strict=True))
    clones = [
        (f"{customer}{number}", day, label, score)
        for (day, customer, label), score in zip(drawn, scores, strict=True)
        for number in range(times[customer])
    ]
    frame = rows(*[(day, customer, label) for customer, day, label, _ in clones])
    ranked = metrics.Ranking.from_scores(rows(*drawn), np.array(scores))

    summed = ranked.precision(np.array(copies), top_k) * len(ranked.days)

    days = {day for _, day, _, _ in clones}
    assert summed == pytest.approx(metrics.precision_at_k(frame, np.array([c[3] for c in clones]), top_k) * len(days))
