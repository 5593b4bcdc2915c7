"""Recall both ways, against every order of ties counted one by one."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift.runtime.errors import UserError
from nightshift.stats import bootstrap
from nightshift_image_text import retrieval
from nightshift_image_text.retrieval import CUTOFFS, Embeddings, Pairs, find_chance, find_hits

DIRECTIONS = np.eye(6, dtype=np.float32)


def pair_up(studies: list[int], reports: list[int]) -> Pairs:
    return Pairs(np.array(studies), np.array(reports), np.arange(len(studies)))


def embed(images: list[int], reports: list[int]) -> Embeddings:
    """Embeddings along axes: equal numbers are alike, others have nothing in common."""
    return Embeddings(DIRECTIONS[images], DIRECTIONS[reports])


def count_by_hand(query: np.ndarray, candidates: np.ndarray, right: set[int], cutoff: int) -> float:
    """The share of all orders of candidates, the nearer before the farther, with a right one among the first."""
    nearness = (candidates @ query).round(5).tolist()
    orders = [order for order in permutations(range(len(candidates))) if is_descending([nearness[i] for i in order])]
    return sum(bool(right & {*order[:cutoff]}) for order in orders) / len(orders)


def is_descending(values: list[float]) -> bool:
    return values == sorted(values, reverse=True)


@st.composite
def small_pairs(draw):
    """Up to five rows, whose studies, reports and views are alike here and there."""
    count = draw(st.integers(1, 5))
    views = [draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)) for _ in range(4)]
    studies, reports, images, texts = views
    _, numbers = np.unique(reports, return_inverse=True)
    said = dict(zip(reports, texts, strict=True))  # the same words have the same embedding
    return pair_up(studies, numbers.tolist()), embed(images, [said[report] for report in reports])


@settings(max_examples=60, deadline=None)
@given(small_pairs())
def test_a_hit_is_its_probability_over_all_orders_of_equally_near_candidates(drawn):
    pairs, embeddings = drawn
    hits = find_hits(embeddings, pairs)
    distinct = embeddings.reports[pairs.report_rows]
    belongs = {(study, report) for study, report in zip(pairs.studies, pairs.reports, strict=True)}
    for row, (study, report) in enumerate(zip(pairs.studies, pairs.reports, strict=True)):
        own = {number for number in range(len(distinct)) if (study, number) in belongs}
        images = {other for other, owner in enumerate(pairs.studies) if (owner, report) in belongs}
        for number, cutoff in enumerate(CUTOFFS):
            by_hand = count_by_hand(embeddings.images[row], distinct, own, cutoff)
            assert hits.reports[row, number] == pytest.approx(by_hand, abs=1e-9)
            by_hand = count_by_hand(embeddings.reports[row], embeddings.images, images, cutoff)
            assert hits.images[row, number] == pytest.approx(by_hand, abs=1e-9)


def test_embeddings_that_are_all_alike_reach_what_chance_does():
    pairs = pair_up([*range(100)], [*range(100)])
    alike = np.tile(np.float32([0.6, 0.8]), (100, 1))
    hits = find_hits(Embeddings(alike, alike), pairs)
    assert hits.both.mean(0) == pytest.approx([0.01, 0.05, 0.1])
    assert hits.both == pytest.approx(find_chance(pairs).both)


def test_embeddings_that_are_all_alike_but_for_rounding_reach_no_more():
    rounding = np.random.default_rng(0).normal(0, 1e-8, (100, 2)).astype(np.float32)
    alike = np.float32([0.6, 0.8]) + rounding
    assert find_hits(Embeddings(alike, alike), pair_up([*range(100)], [*range(100)])).both.mean(0)[0] < 0.02


def test_an_image_finds_the_report_of_its_study_and_that_finds_each_of_its_images():
    pairs = pair_up([0, 0, 1], [0, 0, 1])
    hits = find_hits(embed([0, 1, 2], [1, 1, 2]), pairs)
    assert hits.reports[:, 0].tolist() == [0.5, 1, 1]  # the first image is as near to both reports
    assert hits.images[:, 0].tolist() == [1, 1, 1]


def test_reports_that_are_word_for_word_the_same_are_hits_of_each_other():
    rows = pd.DataFrame({"study": ["a", "b", "c"], "group": ["p", "p", "q"]})
    pairs = Pairs.from_rows(rows, np.int32([[5, 0], [5, 0], [6, 0]]))
    assert pairs.groups.tolist() == [0, 0, 1]
    swapped = embed([1, 0, 2], [0, 0, 2])  # the first image is far from its report, the second near the same words
    assert find_hits(swapped, pairs).images[:, 0].tolist() == [1, 1, 1]


def test_a_repeated_report_takes_one_place_among_the_nearest():
    pairs = pair_up([*range(12)], [0] * 11 + [1])
    images = DIRECTIONS[[0] * 12]
    reports = np.concatenate([DIRECTIONS[[0] * 11], DIRECTIONS[[1]]])
    assert find_hits(Embeddings(images, reports), pairs).reports[-1].tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("row", "length"), [([3.0, 4.0], "5"), ([np.nan, 0], "nan"), ([0.5, 0], "0.5"), ([np.inf, 0], "inf")]
)
def test_embeddings_of_another_length_are_refused(row, length):
    vectors = np.float32([[1, 0], row])
    with pytest.raises(UserError, match=f"text_embedding: row 1 has length {length}; allowed: 1, or 0"):
        find_hits(Embeddings(np.float32([[1, 0], [0, 1]]), vectors), pair_up([0, 1], [0, 1]))


def test_hits_do_not_depend_on_how_many_rows_are_compared_at_once(monkeypatch):
    random = np.random.default_rng(1)
    vectors = random.normal(size=(2, 50, 8)).astype(np.float32)
    embeddings = Embeddings(*(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)))
    pairs = pair_up(random.integers(0, 30, 50).tolist(), np.unique(random.integers(0, 20, 50), return_inverse=True)[1])
    whole = find_hits(embeddings, pairs)
    monkeypatch.setattr(retrieval, "CELLS", 7)
    assert np.allclose(find_hits(embeddings, pairs), whole)


def test_the_nearest_come_first():
    assert retrieval.find_nearest(DIRECTIONS[[1]], np.float32([[0.6, 0.8, 0, 0, 0, 0], *DIRECTIONS]), 3).tolist() == [
        [2, 0, 1]
    ]


def test_a_difference_of_two_models_is_paired_and_drawn_by_patient():
    random = np.random.default_rng(2)
    groups = np.repeat(np.arange(40), 5)
    worse = np.repeat(random.random(40), 5)  # of a patient, rows are right or wrong together
    gains = bootstrap.mean_of_groups(worse + 0.1, groups) - bootstrap.mean_of_groups(worse, groups)
    assert gains == pytest.approx(np.full(bootstrap.RESAMPLES, 0.1))
    by_patient = bootstrap.mean_of_groups(worse, groups).std()
    assert by_patient > 1.8 * bootstrap.mean_of_groups(worse, np.arange(200)).std()
