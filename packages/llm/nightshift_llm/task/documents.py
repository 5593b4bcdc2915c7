"""The tokenized texts of a fold: its training texts, and the test texts held out."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.data.splits import Days, Fold, apart, rows_of
from nightshift.items.tokens import Tokens
from nightshift.models.neural import packing
from nightshift.runtime.errors import UserError
from nightshift_llm.config import LanguageTaskConfig
from nightshift_llm.preprocessing import LanguagePreprocessing
from nightshift_llm.task.tokens import FILE, ByteTokenizer

PART = 50  # bytes that two texts rarely share by chance; Lee et al., Deduplicating Training Data, 2022
FACTOR = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64

Hashes = npt.NDArray[np.uint64]


def describe_preprocessing(task: LanguageTaskConfig, tokenizer: ByteTokenizer) -> LanguagePreprocessing:
    """Return how texts become the graphs' input."""
    return LanguagePreprocessing(
        length=task.length,
        tokenizer=FILE,
        tokenizer_sha256=tokenizer.sha256,
        vocabulary=tokenizer.vocabulary,
        start=tokenizer.start,
        chat=tokenizer.chat,
    )


def read_tokens(rows: pd.DataFrame) -> list[Tokens]:
    """Return the tokens of some rows of the features table, int32 (tokens + 1,) each, `start` first."""
    return [np.frombuffer(content, "<i4") for content in rows["tokens"]]


def cut_rows(documents: Sequence[Tokens], preprocessing: LanguagePreprocessing) -> tuple[Tokens, npt.NDArray[np.int64]]:
    """Return the graph's input rows of some texts, int32 (rows, length + 1), and each row's text index, (rows,)."""
    start, length = preprocessing.start, preprocessing.length
    parts = [packing.pack([document], start, length) for document in documents]
    texts = np.repeat(np.arange(len(parts)), list(map(len, parts)))
    return np.concatenate([np.empty((0, length + 1), np.int32), *parts]), texts


def training_documents(rows: pd.DataFrame, fold: Fold) -> pd.DataFrame:
    """Return a fold's training texts.

    Raises:
        UserError: when there are none.
    """
    return _require_some(rows_of(rows, fold.train), fold.train)


def holdout_documents(rows: pd.DataFrame, fold: Fold, max_overlap: float) -> pd.DataFrame:
    """Return a fold's test texts that have nothing, or little, in common with its training texts.

    Args:
        rows: of the features table.
        fold: which of them train and test.
        max_overlap: share of a text's parts that training texts may have too.

    Raises:
        UserError: when there are none.
    """
    train = rows_of(rows, fold.train)
    test = apart(rows_of(rows, fold.test), train)
    overlap = measure_overlap(read_tokens(test), read_tokens(train), count_part_tokens(train))
    return _require_some(test[overlap <= max_overlap], fold.test)


def count_part_tokens(rows: pd.DataFrame) -> int:
    """Return the mean number of tokens per `PART` bytes in rows of the features table."""
    tokens = rows["tokens"].map(len).sum() // np.dtype(np.int32).itemsize
    return max(1, round(PART * tokens / max(1, rows["read"].sum())))


def measure_overlap(documents: Sequence[Tokens], seen: Sequence[Tokens], size: int) -> npt.NDArray[np.float64]:
    """Return the share of each document's runs of `size` tokens that other documents have too, (n,); 0 without any."""
    known = np.unique(np.concatenate([np.empty(0, np.uint64), *(hash_runs(document, size) for document in seen)]))
    return np.array([_share_known(hash_runs(document, size), known) for document in documents])


def _share_known(runs: Hashes, known: Hashes) -> float:
    """Return the share of hashes that are among known ones, in order; 0 without any."""
    if not len(runs) or not len(known):
        return 0.0
    nearest = np.minimum(np.searchsorted(known, runs), len(known) - 1)
    return float((known[nearest] == runs).mean())


def hash_runs(tokens: Tokens, size: int) -> Hashes:
    """Return a hash of each run of `size` tokens, (tokens - size + 1,): that of Karp & Rabin, 1987, modulo 2^64."""
    powers = np.full(len(tokens) + 1, FACTOR, np.uint64).cumprod(dtype=np.uint64)
    inverses = np.full(len(tokens) + 1, pow(FACTOR, -1, 2**64), np.uint64).cumprod(dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), ((tokens + 1).astype(np.uint64) * powers[:-1]).cumsum()])
    runs: Hashes = (sums[size:] - sums[:-size]) * inverses[: max(0, len(sums) - size)]
    return runs


def _require_some(rows: pd.DataFrame, days: Days) -> pd.DataFrame:
    if rows.empty:
        raise UserError(
            f"{days}: no texts are left, apart from those that training has seen; check columns.group and "
            "task.max_overlap, or choose another --date"
        )
    return rows
