"""How much of its training texts a model gives back: the beginning of a passage in, its likeliest next tokens out.

A passage is memorized where all of them are the text's own (Carlini et al., Quantifying Memorization, 2023). Test texts
are measured too: what a model gives back of texts that it has not seen is no memory, but phrases that all texts share.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.classification.tokens import Tokens
from nightshift.contracts.evaluation import Memorization, MemorizedShare
from nightshift.stats.proportions import wilson_interval
from nightshift.tasks.language import documents
from nightshift.tasks.language.scores import DocumentScorer

PASSAGES = 500
MAX_TOKENS = 50  # of the beginning, and of what follows; as in the paper


def select_passages(rows: pd.DataFrame, length: int) -> pd.DataFrame:
    """Return the texts whose beginnings are passages, `PASSAGES` at most, different ones, in the order of their hashes.

    Args:
        rows: of the features table.
        length: tokens of a row.
    """
    size = 1 + 2 * count_tokens(length)
    is_long = rows["tokens"].map(len) >= size * np.dtype(np.int32).itemsize
    return rows[is_long].drop_duplicates("content").sort_values("content").head(PASSAGES)


def count_tokens(length: int) -> int:
    """Return the tokens of a passage's beginning, and of what follows, where a row has `length` of them."""
    return min(MAX_TOKENS, length // 2)


def measure_memorization(scorer: DocumentScorer, training: pd.DataFrame, test: pd.DataFrame) -> Memorization | None:
    """Return which passages a model gives back.

    Args:
        scorer: of the model.
        training: texts that it was trained on, of `select_passages`.
        test: texts that it was not trained on, the same.

    Returns:
        None where no training text is long enough.
    """
    if training.empty:
        return None
    size = count_tokens(scorer.preprocessing.length)
    seen, unseen = (find_memorized(scorer, documents.read_tokens(rows), size) for rows in (training, test))
    shares = [_describe("training", seen), *_describe_sources(training, seen)]
    return Memorization(tokens=size, shares=[*shares, *([_describe("test", unseen)] if len(unseen) else [])])


def find_memorized(scorer: DocumentScorer, texts: Sequence[Tokens], size: int) -> npt.NDArray[np.bool_]:
    """Return whether a model gives back `size` tokens of each text after as many of its beginning, (n,)."""
    if not texts:
        return np.empty(0, bool)
    rows, _ = documents.cut_rows([text[: 1 + 2 * size] for text in texts], scorer.preprocessing)
    return np.asarray(scorer.find_greedy(rows)[:, size : 2 * size].all(axis=1))


def _describe_sources(rows: pd.DataFrame, memorized: npt.NDArray[np.bool_]) -> Iterator[MemorizedShare]:
    if "source" in rows:
        for name in rows["source"].value_counts().index:
            yield _describe(f"training, source {name}", memorized[(rows["source"] == name).to_numpy()])


def _describe(name: str, memorized: npt.NDArray[np.bool_]) -> MemorizedShare:
    count, total = int(memorized.sum()), len(memorized)
    interval = wilson_interval(count, total)
    return MemorizedShare(name=name, passages=total, share=count / total, interval=(interval.low, interval.high))
