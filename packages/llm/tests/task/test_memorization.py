"""The share of training texts that a model reproduces is measured and held to a limit."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from nightshift.items.tokens import Tokens
from nightshift.stats.proportions import wilson_interval
from nightshift.storage import sha256
from nightshift_llm.contracts.evaluation import Memorization, MemorizedShare
from nightshift_llm.task import documents, memorization, quality
from nightshift_llm.task.scores import DocumentScorer
from nightshift_llm.task.tokens import load_tokenizer
from tests.components.tales import task

LENGTH = 16
TOKENIZER = load_tokenizer(task())
PREPROCESSING = documents.describe_preprocessing(task(length=LENGTH), TOKENIZER)
CANARY = "the code is 4711 and no other"


class Parrot:
    """A graph that has learned some texts by heart, and predicts nothing else."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.known = [document[: LENGTH + 1] for document in TOKENIZER.encode(texts)]

    def find_greedy(self, rows: Tokens) -> np.ndarray:
        return np.stack([np.max([row[1:] == known[1:] for known in self.known], axis=0) for row in rows]).astype("f4")


def table(texts: dict[str, str]) -> pd.DataFrame:
    """Rows of the features table, of text -> its source."""
    tokens = [document.astype("<i4").tobytes() for document in TOKENIZER.encode(list(texts))]
    return pd.DataFrame({"tokens": tokens, "content": [*map(sha256, tokens)], "source": [*texts.values()]})


def measure(training: dict[str, str], test: dict[str, str]) -> Memorization | None:
    scorer = DocumentScorer(Parrot([CANARY]), PREPROCESSING, TOKENIZER.byte_lengths)
    seen, unseen = (memorization.select_passages(table(texts), LENGTH) for texts in (training, test))
    return memorization.measure_memorization(scorer, seen, unseen)


def test_a_planted_text_is_found_and_its_source_is_named() -> None:
    training = {CANARY: "planted", "an ordinary text, as there are many": "web", "another one of the same kind": "web"}
    measured = measure(training, {"a text that nobody has seen": "web"})
    assert measured.tokens == LENGTH // 2
    assert {part.name: (part.passages, part.share) for part in measured.shares} == {
        "training": (3, 1 / 3),
        "training, source web": (2, 0.0),
        "training, source planted": (1, 1.0),
        "test": (1, 0.0),
    }
    for part in measured.shares:
        low, high = part.interval
        assert 0 <= low <= part.share <= high <= 1


def test_a_passage_is_given_back_only_with_all_of_its_tokens() -> None:
    almost = CANARY[: LENGTH - 1] + "X and so on"
    assert measure({almost: "web"}, {}).shares[0].share == 0
    assert measure({CANARY[:LENGTH] + "X": "web"}, {}).shares[0].share == 1


def test_texts_that_are_too_short_say_nothing() -> None:
    assert measure({"short": "web"}, {CANARY: "web"}) is None


def test_passages_are_chosen_by_their_hashes_and_each_counts_once() -> None:
    rows = table({f"text number {number} of some": "web" for number in range(memorization.PASSAGES + 20)})
    chosen = memorization.select_passages(rows, LENGTH)
    assert [*chosen["content"]] == sorted(rows["content"])[: memorization.PASSAGES]
    twice = pd.concat([rows.iloc[::-1], rows], ignore_index=True)
    assert [*memorization.select_passages(twice, LENGTH)["content"]] == [*chosen["content"]]


@pytest.mark.parametrize(("limit", "is_refused"), [(None, False), (0.2, False), (0.1, True)])
def test_a_model_that_gives_back_too_much_is_refused_with_the_share(limit: float | None, is_refused: bool) -> None:
    share = MemorizedShare(name="training", passages=500, share=0.15, interval=(0.121, 0.184))
    reasons = quality.refuse_memorized(Memorization(tokens=8, shares=[share]), limit)
    expected = "It reproduces 15.0% [12.1%, 18.4%] of 500 training passages verbatim, above 10.0%."
    assert reasons == ([expected] if is_refused else [])


@pytest.mark.parametrize(("limit", "is_undecided"), [(None, False), (0.0, True)])
def test_a_limit_of_what_cannot_be_measured_lets_no_model_pass(limit: float | None, is_undecided: bool) -> None:
    assert bool(quality.explain_unmeasured(None, limit)) == is_undecided
    share = MemorizedShare(name="training", passages=500, share=0.15, interval=(0.121, 0.184))
    assert quality.explain_unmeasured(Memorization(tokens=8, shares=[share]), limit) == []


@pytest.mark.parametrize(("count", "total", "interval"), [(0, 10, (0.0, 0.2775)), (5, 10, (0.2366, 0.7634))])
def test_wilsons_interval_is_that_of_the_textbooks(count: int, total: int, interval: tuple[float, float]) -> None:
    measured = wilson_interval(count, total)
    assert (measured.low, measured.high) == pytest.approx(interval, abs=1e-4)
