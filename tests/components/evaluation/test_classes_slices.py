"""Parts of the test rows by what can be said of them."""

import numpy as np

from nightshift.contracts.preprocessing import TextPreprocessing
from nightshift.items.scorer import AT_ONCE
from nightshift.tasks.classification import descriptors
from nightshift.tasks.classification.slices import slices

SEEN = TextPreprocessing(classes=["new", "old"], length=8, tokenizer=None, tokenizer_sha256="", vocabulary=100, pad=0)


def tokens(*lengths: int) -> np.ndarray:
    return np.array([[*range(1, length + 1), *[0] * (8 - length)] for length in lengths], np.int32)


def test_every_row_is_in_one_third_of_each_statistic():
    right = np.arange(3 * AT_ONCE) % 2 == 0
    parts = slices(SEEN, tokens(*np.repeat([2, 4, 6], AT_ONCE)), right)
    by_length = [(part.name, part.rows, part.accuracy) for part in parts if part.name.startswith("tokens")]
    assert by_length == [("tokens up to 2", 256, 0.5), ("tokens 2 to 4", 256, 0.5), ("tokens above 4", 256, 0.5)]
    for name in descriptors.names(SEEN):
        assert sum(part.rows for part in parts if part.name.startswith(name)) == len(right)


def test_a_model_that_errs_on_short_texts_shows_it():
    parts = slices(SEEN, tokens(1, 1, 5, 5, 7, 7), np.array([False, True, True, True, True, True]))
    assert {part.name: part.accuracy for part in parts if part.name.startswith("tokens")} == {
        "tokens up to 1": 0.5,
        "tokens 1 to 5": 1.0,
        "tokens above 5": 1.0,
    }


def test_rows_that_are_all_alike_are_one_part():
    assert [part.name for part in slices(SEEN, tokens(3, 3), np.array([True, True]))] == [
        "tokens up to 3",
        "variety up to 1",
    ]
