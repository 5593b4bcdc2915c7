"""The bits per byte of texts, which a model scores as rows of tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift import storage
from nightshift.contracts.package import ModelPackage, read_graph
from nightshift.items.tokens import Tokens
from nightshift.models.graph import Graph
from nightshift.stats import bootstrap
from nightshift.tasks.items.references import EMBEDDED, KEYS
from nightshift_llm.preprocessing import LanguagePreprocessing
from nightshift_llm.task import documents
from nightshift_llm.task.tokens import open_tokenizer

LOGITS = 1 << 19  # numbers that exist at once, unless a row has more: they stay in a CPU's cache

COMPARED = ("bytes", "bytes_per_token", "score")  # by drift; the score is that of a text's first row

Floats = npt.NDArray[np.floating[Any]]
Singles = npt.NDArray[np.float32]


@dataclass(frozen=True)
class DocumentScores:
    """A model's scores of n texts.

    Attributes:
        bits: negative log-likelihood of each text in bits, (n,).
        sizes: bytes of each text, (n,).
        firsts: bits per byte of each text's first row, the only one that a server scores, (n,).
    """

    bits: Floats
    sizes: Floats
    firsts: Floats

    @property
    def bits_per_byte(self) -> float:
        """Bits of all texts over their bytes."""
        return float(self.bits.sum() / self.sizes.sum())

    @property
    def losses(self) -> Floats:
        """Bits per byte of each text, (n,)."""
        return self.bits / self.sizes

    def resample(self, groups: npt.NDArray[np.int64]) -> Floats:
        """Return `bits_per_byte` of every resample of the groups, (resamples,); `groups` has each text's number."""
        bits, sizes = (np.bincount(groups, values) for values in (self.bits, self.sizes))
        return np.array([(counts @ bits) / (counts @ sizes) for counts in bootstrap.draw_counts(len(bits))])


class DocumentScorer:
    """Scores texts with a graph.

    Args:
        graph: rows of tokens, int32 (n, length + 1) -> bits per byte, float32 (n,).
        preprocessing: how texts become such rows.
        byte_lengths: bytes that each token stands for, (2 vocabulary,).
    """

    def __init__(self, graph: Graph, preprocessing: LanguagePreprocessing, byte_lengths: Tokens) -> None:
        self.graph, self.preprocessing, self.byte_lengths = graph, preprocessing, byte_lengths

    @classmethod
    def open(cls, uri: str, model: ModelPackage, candidate: str | None = None) -> "DocumentScorer":
        """Open a candidate of the model at a URI, the selected one by default.

        Raises:
            UserError: when a file's bytes are not those that the manifest names.
        """
        preprocessing = model.preprocessing_as(LanguagePreprocessing)
        tokenizer = open_tokenizer(uri, model)
        graph = Graph(read_graph(uri, model, candidate or model.selected))
        return cls(graph, preprocessing, tokenizer.byte_lengths)

    def score(self, texts: Sequence[Tokens]) -> DocumentScores:
        """Score texts as tokens, int32 (tokens + 1,) each."""
        rows, owners = documents.cut_rows(texts, self.preprocessing)
        return self.sum_up(rows, owners, self.score_rows(rows))

    def score_rows(self, rows: Tokens) -> Singles:
        """Return the bits per byte of rows, (n, length + 1) -> (n,)."""
        return self._run_batches(self.graph.score, rows)

    def embed_rows(self, rows: Tokens) -> Singles:
        """Return the embeddings of rows, (n, length + 1) -> (n, width)."""
        return self._run_batches(self.graph.embedding, rows)

    def find_greedy(self, rows: Tokens) -> Singles:
        """Return 1 for each token of rows that is the likeliest one, else 0, (n, length + 1) -> (n, length)."""
        return self._run_batches(self.graph.find_greedy, rows)

    def _run_batches(self, run: Callable[[Tokens], Singles], rows: Tokens) -> Singles:
        """Run a few rows at a time, since each token has many logits."""
        size = max(1, LOGITS // (self.preprocessing.length * self.preprocessing.vocabulary))
        batches = (rows[first : first + size] for first in range(0, len(rows), size))
        return np.concatenate([*map(run, batches)] or [np.empty(0, np.float32)])

    def sum_up(self, rows: Tokens, owners: npt.NDArray[np.int64], scores: Singles) -> DocumentScores:
        """Return what scores of rows, (n,), say of the texts that they belong to."""
        sizes = self.byte_lengths[rows[:, 1:]].sum(1).astype(float)
        _, firsts = np.unique(owners, return_index=True)
        bits, sizes = (np.bincount(owners, values).astype(float) for values in (scores * sizes, sizes))
        return DocumentScores(bits, sizes, scores[firsts].astype(float))


def describe(scorer: DocumentScorer, rows: pd.DataFrame, embedded: int = EMBEDDED) -> pd.DataFrame:
    """Return what drift compares of n rows of the features table, and what each was scored.

    Args:
        scorer: of the model.
        rows: of the features table.
        embedded: texts whose embedding is kept, at most.

    Returns:
        `KEYS`, `COMPARED` (float32), the `bits` of the whole text, the hash of its first row as `content`, by which the
        endpoint's log knows it, and `embedding`, float32 (width,), null but for one in so many; numbered from 0.
    """
    texts = documents.read_tokens(rows)
    scores, tokens = scorer.score(texts), np.array([len(text) - 1 for text in texts])
    firsts, _ = documents.cut_rows([text[: scorer.preprocessing.length + 1] for text in texts], scorer.preprocessing)
    every = -(-len(texts) // embedded) or 1
    some = pd.Series([*scorer.embed_rows(firsts[::every])], range(0, len(texts), every), dtype=object)
    compared = (scores.sizes, scores.sizes / tokens, scores.firsts)
    columns = {name: values.astype(np.float32) for name, values in zip(COMPARED, compared, strict=True)}
    content = pd.Series([storage.sha256(row.tobytes()) for row in firsts], dtype=str)
    described = rows[KEYS].reset_index(drop=True).assign(**columns, bits=scores.bits)
    return described.assign(content=content, embedding=some)
