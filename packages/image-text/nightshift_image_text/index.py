"""An index of embeddings in a file that is mapped, not read: `usearch`, with parameters chosen by a stated recall.

The index is a graph of near vectors (Malkov and Yashunin, Efficient and robust approximate nearest neighbor search
using Hierarchical Navigable Small World graphs, 2016). A wider search finds more true neighbors and takes longer.
"""

from collections.abc import Iterator
from itertools import count
from mmap import mmap
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field
from usearch.compiled import MetricKind, ScalarKind
from usearch.index import Index

from nightshift.contracts.artifact import Part
from nightshift.runtime.errors import UserError

Vectors = npt.NDArray[np.float32]
Keys = npt.NDArray[np.int64]

RECALL = 0.99  # of the nearest NEAREST of an exact search, which an index finds at least
NEAREST = 10
QUERIES = 1000  # on which recall is measured, at most
CONNECTIVITY, EXPANSION = 32, 128  # edges of a vector; candidates that are looked at when it is added
FIRST_EXPANSION = 64  # candidates of a search, which doubles until the recall is reached
AT_ONCE = 256  # queries of an exact search


class IndexDescription(Part):
    """How an index was made, and what it finds."""

    rows: int = Field(ge=1, description="vectors in it")
    width: int = Field(ge=1, description="numbers of a vector")
    connectivity: int = Field(ge=1, description="edges of a vector")
    expansion_add: int = Field(ge=1, description="candidates that were looked at when a vector was added")
    expansion_search: int = Field(ge=1, description="candidates that a search looks at")
    recall: float = Field(ge=0, le=1, description="share of the nearest of an exact search that a search finds")
    nearest: int = Field(ge=1, description="how many nearest the recall is of")
    queries: int = Field(ge=1, description="searches on which the recall was measured")


class Neighbors(NamedTuple):
    """The nearest rows of an index for n queries, the nearest first.

    Attributes:
        keys: numbers of rows, (n, nearest).
        similarities: dot products, of unit vectors the cosines, float32 (n, nearest).
    """

    keys: Keys
    similarities: Vectors


class VectorIndex:
    """Searches an index that lies in a file."""

    def __init__(self, content: bytes | mmap, description: IndexDescription) -> None:
        """Open an index where it is in memory.

        Args:
            content: of the file, whose hash has been checked.
            description: how it was made.

        Raises:
            UserError: when the file holds other vectors than its description says.
        """
        self._content = memoryview(content)  # which the library does not keep alive
        self._lock = Lock()  # one search at a time: its threads' memory is numbered, not their own
        self._index = _create(description.width, description.connectivity, description.expansion_add)
        self._check(description)
        self._index.view(self._content)
        self._index.expansion_search = description.expansion_search

    def _check(self, description: IndexDescription) -> None:
        metadata = Index.metadata(self._content) or {}
        present = [metadata.get(name) for name in ("count_present", "dimensions", "kind_metric", "kind_scalar")]
        expected = [description.rows, description.width, MetricKind.IP, ScalarKind.F32]
        if present != expected:
            raise UserError(
                f"an index of the model is of {present}, and its description of {expected}, as vectors, width, metric "
                "and type; restore the model's files or train again"
            )

    def search(self, queries: Vectors, nearest: int) -> Neighbors:
        """Return the nearest rows, or all where there are fewer.

        Args:
            queries: (n, width).
            nearest: how many of each.
        """
        with self._lock:
            matches = self._index.search(queries, min(nearest, len(self._index)), threads=1)
        keys, distances = np.atleast_2d(matches.keys), np.atleast_2d(matches.distances)
        return Neighbors(keys.astype(np.int64), np.float32(1) - distances.astype(np.float32))


def build(vectors: Vectors, queries: Vectors, recall: float = RECALL) -> tuple[bytes, IndexDescription]:
    """Build an index, and choose the narrowest search that reaches a recall; the same vectors give the same bytes.

    Args:
        vectors: (rows, width).
        queries: (n, width), of which at most `QUERIES` are used.
        recall: share of the nearest `NEAREST` that a search has to find, on average of the queries.
    """
    rows, width = vectors.shape
    index = _create(width, CONNECTIVITY, EXPANSION)
    index.add(np.arange(rows), vectors, threads=1)  # in one order
    sample = queries[:: -(-len(queries) // QUERIES)]
    nearest = min(NEAREST, rows)
    exact = find_exact(vectors, sample, nearest)
    for expansion in _double():
        index.expansion_search = expansion
        reached = measure_recall(np.atleast_2d(index.search(sample, nearest, threads=1).keys).astype(np.int64), exact)
        if reached >= recall or expansion >= rows:
            break
    description = IndexDescription(
        rows=rows,
        width=width,
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION,
        expansion_search=expansion,
        recall=reached,
        nearest=nearest,
        queries=len(sample),
    )
    return bytes(index.save(None)), description


def find_exact(vectors: Vectors, queries: Vectors, nearest: int) -> Keys:
    """Return the rows of largest dot product with each query, in any order, (n, nearest)."""
    parts = [queries[first : first + AT_ONCE] @ vectors.T for first in range(0, len(queries), AT_ONCE)]
    return np.concatenate([np.argpartition(-part, nearest - 1, axis=1)[:, :nearest] for part in parts])


def measure_recall(keys: Keys, exact: Keys) -> float:
    """Return the share of the exact nearest that are among the keys, both (n, nearest)."""
    return float(np.mean((keys[:, :, None] == exact[:, None, :]).any(axis=1)))


def _double() -> Iterator[int]:
    return (FIRST_EXPANSION << doubled for doubled in count())


def _create(width: int, connectivity: int, expansion: int) -> Any:
    return Index(ndim=width, metric="ip", dtype="f32", connectivity=connectivity, expansion_add=expansion)
