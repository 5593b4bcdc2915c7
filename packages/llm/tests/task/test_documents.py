"""Texts that training has seen are neither validated nor tested on, be they the same or pieced together."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

from nightshift.data.splits import Days, Fold
from nightshift.runtime.errors import UserError
from nightshift_llm.task import documents, tokens
from tests.components.tales import chat, task

FOLD = Fold(Days(date(2024, 3, 1), date(2024, 3, 1)), Days(date(2024, 3, 2), date(2024, 3, 2)), 0)
TOKENIZER = tokens.load_tokenizer(task())
RANDOM = np.random.default_rng(0)
OLD, NEW = (" ".join("".join(RANDOM.choice([*"abcdefgh"], 7)) for _ in range(40)) for _ in range(2))


def table(*texts: tuple[str, str]) -> pd.DataFrame:
    """Rows of the features table: day and text of each."""
    encoded = TOKENIZER.encode([text for _, text in texts])
    return pd.DataFrame(
        {
            "event_time": pd.to_datetime([day for day, _ in texts]),
            "content": [document.tobytes() for document in encoded],
            "tokens": [document.tobytes() for document in encoded],
            "size": [len(document) - 1 for document in encoded],
            "read": [len(document) - 1 for document in encoded],
        }
    )


@pytest.mark.parametrize(
    ("text", "share"),
    [(NEW, 0.0), (OLD, 1.0), (OLD[:200] + NEW[:100], 0.6), (NEW[:200] + OLD[20:120], 0.2), (OLD[:30], 0.0)],
    ids=["new", "old", "mostly old", "mostly new", "too short to tell"],
)
def test_overlap_is_the_share_of_parts_that_training_has_too(text, share):
    seen, document = TOKENIZER.encode([NEW[::-1], OLD]), TOKENIZER.encode([text])
    (overlap,) = documents.measure_overlap(document, seen, documents.PART)
    assert overlap == pytest.approx(share, abs=0.02)


def test_test_texts_that_are_known_or_mostly_known_are_left_out():
    mixed = OLD[:200] + NEW[:100]
    rows = table(("2024-03-01", OLD), ("2024-03-02", OLD), ("2024-03-02", mixed), ("2024-03-02", NEW))
    assert documents.holdout_documents(rows, FOLD, 0.5).index.tolist() == [3]
    assert documents.holdout_documents(rows, FOLD, 0.7).index.tolist() == [2, 3]
    with pytest.raises(UserError, match="no texts are left"):
        documents.holdout_documents(rows[:2], FOLD, 0.5)


def test_a_long_text_takes_several_rows_and_a_short_one_is_filled_up():
    preprocessing = documents.describe_preprocessing(task(length=8), TOKENIZER)
    rows, owners = documents.cut_rows(TOKENIZER.encode(["0123456789", "abc"]), preprocessing)
    assert owners.tolist() == [0, 0, 1]
    assert (rows == TOKENIZER.start).sum(1).tolist() == [1, 6, 6]
    assert rows[0, -1] == rows[1, 0]


def test_a_part_is_as_long_in_chats_of_which_little_is_learned():
    tokenizer = tokens.load_tokenizer(task(chat=True))
    (document,) = tokenizer.encode([chat(("user", OLD), ("assistant", "yes"))])
    sizes = {"size": tokenizer.count_bytes(document), "read": tokenizer.count_bytes(document % tokenizer.vocabulary)}

    rows = pd.DataFrame([{"tokens": document.tobytes(), **sizes}])

    assert sizes["size"] == len("yes")
    assert documents.count_part_tokens(rows) == pytest.approx(documents.PART, rel=0.1)
