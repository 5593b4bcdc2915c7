"""The share of training passages that a model reproduces verbatim with greedy decoding.

A passage is memorized if all generated tokens match the text (Carlini et al., Quantifying Memorization, 2023). Test
texts are the baseline: a model has not seen them, so a match there is a phrase that many texts share.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.items.tokens import Tokens
from nightshift.stats.proportions import wilson_interval
from nightshift_llm.contracts.evaluation import Memorization, MemorizedShare
from nightshift_llm.task import documents
from nightshift_llm.task.scores import DocumentScorer

PASSAGES = 500
MAX_TOKENS = 50  # of the prompt, and of the continuation; as in the paper


def select_passages(rows: pd.DataFrame, length: int) -> pd.DataFrame:
    """Return up to `PASSAGES` different texts that are long enough, in the order of their hashes.

    Args:
        rows: rows of the features table.
        length: sequence length in tokens.
    """
    size = 1 + 2 * count_tokens(length)
    is_long = rows["tokens"].map(len) >= size * np.dtype(np.int32).itemsize
    return rows[is_long].drop_duplicates("content").sort_values("content").head(PASSAGES)


def count_tokens(length: int) -> int:
    """Return the tokens of a passage's prompt, and of its continuation, for a sequence length."""
    return min(MAX_TOKENS, length // 2)


def measure_memorization(scorer: DocumentScorer, training: pd.DataFrame, test: pd.DataFrame) -> Memorization | None:
    """Return the shares of passages that a model has memorized.

    Args:
        scorer: scorer of the model.
        training: training texts from `select_passages`.
        test: test texts from `select_passages`.

    Returns:
        None if no training text is long enough.
    """
    if training.empty:
        return None
    size = count_tokens(scorer.preprocessing.length)
    seen, unseen = (find_memorized(scorer, documents.read_tokens(rows), size) for rows in (training, test))
    shares = [_describe("training", seen), *_describe_sources(training, seen)]
    return Memorization(tokens=size, shares=[*shares, *([_describe("test", unseen)] if len(unseen) else [])])


def find_memorized(scorer: DocumentScorer, texts: Sequence[Tokens], size: int) -> npt.NDArray[np.bool_]:
    """Return whether greedy decoding from the first `size` tokens of each text gives the next `size`, (n,)."""
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
