"""The n-gram model beside which small Llamas are measured."""

from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.king_james import KneserNey


@given(text=st.text("abc", min_size=6, max_size=60), before=st.text("abcd", max_size=6), order=st.integers(1, 5))
def test_probabilities_of_all_characters_and_of_one_unseen_add_up_to_one(text, before, order):
    model = KneserNey(text, order)

    assert isclose(sum(model.probability(before, after) for after in {*text, "?"}), 1)
    assert model.probability(before, "?") > 0


def test_a_character_that_always_follows_is_the_likeliest():
    model = KneserNey("the night shift keeps the night shift", 4)

    assert model.probability("the nig", "h") > 0.5
    assert model.probability("the nig", "x") < 0.1
