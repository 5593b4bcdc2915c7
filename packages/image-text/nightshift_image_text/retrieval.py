"""How often an image finds its report among the nearest ones, and a report its image, by embeddings of unit length.

What is searched: an image looks among the different reports, each of which is there once, and a report among all
images. An image belongs to the reports of its study, so a report of several images finds each of them. Reports that are
word for word the same are one report, which belongs to the images of all their studies: nothing tells them apart.
Where candidates are equally near, a hit is the probability of one under a random order, so embeddings that are all
alike reach what chance does and not 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array
from scipy.stats import hypergeom

from nightshift.runtime.errors import UserError
from nightshift.stats import bootstrap

CUTOFFS = (1, 5, 10)  # nearest candidates, among which a hit is looked for
CELLS = 1 << 22  # similarities that are in memory at once
TIE = 1e-6  # difference of similarities in float32 that means nothing
UNIT = 1e-3  # by how much the length of an embedding may differ from 1

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Pairs:
    """Which images and reports belong together: n rows, an image and its report each.

    Attributes:
        studies: number of each row's study, from 0, (n,).
        reports: number of each row's report, from 0, (n,); the same for the same words.
        groups: number of each row's patient, from 0, (n,).
    """

    studies: Labels
    reports: Labels
    groups: Labels

    @classmethod
    def from_rows(cls, rows: pd.DataFrame, tokens: npt.NDArray[np.int32]) -> Self:
        """Return the pairs of n rows.

        Args:
            rows: of the features table; without `study`, each row is a study of its own.
            tokens: of their reports, (n, length).
        """
        studies = pd.factorize(rows["study"])[0] if "study" in rows else np.arange(len(rows))
        _, reports = np.unique(tokens, axis=0, return_inverse=True)
        return cls(studies.astype(np.int64), reports.ravel(), bootstrap.number_groups(rows))

    @cached_property
    def report_rows(self) -> Labels:
        """The first row of each different report, (m,)."""
        return np.unique(self.reports, return_index=True)[1]

    @cached_property
    def belong(self) -> "csr_array":
        """Which images belong to which reports, (n, m): more than 0 where they do."""
        ones = np.ones(len(self.studies), np.int32)
        reports_of_studies = csr_array((ones, (self.studies, self.reports)))
        return reports_of_studies[self.studies]


class Embeddings(NamedTuple):
    """What a model makes of n rows: float32 (n, width) each, of unit length, or of 0s where it has no view of them."""

    images: Floats
    reports: Floats


class Hits(NamedTuple):
    """Probability of a hit among the `CUTOFFS` nearest, (n, cutoffs) each, in [0, 1].

    Attributes:
        reports: of a report that belongs to the row's image.
        images: of an image that belongs to the row's report.
    """

    reports: Floats
    images: Floats

    @property
    def both(self) -> Floats:
        """The mean of both directions, (n, cutoffs)."""
        return (self.reports + self.images) / 2


def find_hits(embeddings: Embeddings, pairs: Pairs) -> Hits:
    """Return where images find their reports and reports their images.

    Raises:
        UserError: when an embedding is neither of unit length nor of 0s.
    """
    for name, vectors in zip(("image_embedding", "text_embedding"), embeddings, strict=True):
        require_units(name, vectors)
    reports = embeddings.reports[pairs.report_rows]
    return Hits(
        _find(embeddings.images, reports, pairs.belong),
        _find(embeddings.reports, embeddings.images, pairs.belong.T.tocsr()[pairs.reports]),
    )


def find_chance(pairs: Pairs) -> Hits:
    """Return the hits of a model that tells nothing apart."""
    alike = np.zeros((len(pairs.studies), 1), np.float32)
    return find_hits(Embeddings(alike, alike), pairs)


def find_nearest(queries: Floats, candidates: Floats, count: int) -> Labels:
    """Return the nearest candidates, (m, width), of each query, (n, width): at most `count`, the nearest first."""
    nearest: Labels = np.argsort(-(queries @ candidates.T), axis=1, kind="stable")[:, :count]
    return nearest


def require_units(name: str, vectors: Floats) -> None:
    """Refuse embeddings whose dot product is no cosine, (n, width).

    Raises:
        UserError: when one is neither of unit length nor of 0s.
    """
    lengths = np.linalg.norm(vectors, axis=1)
    wrong = np.flatnonzero(~((np.abs(lengths - 1) <= UNIT) | (lengths == 0)))
    if len(wrong):
        raise UserError(
            f"{name}: row {wrong[0]} has length {lengths[wrong[0]]:.3g}; allowed: 1, or 0 without a view of it; "
            "divide embeddings by their length in the graph, and train again"
        )


def _find(queries: Floats, candidates: Floats, belong: "csr_array") -> Floats:
    """Return the hits of each query, (n, width), among candidates, (m, width), by what belongs together, (n, m)."""
    size = max(1, CELLS // len(candidates))
    blocks = (slice(first, first + size) for first in range(0, len(queries), size))
    return np.concatenate([_judge(queries[rows] @ candidates.T, belong[rows].toarray() > 0) for rows in blocks])


def _judge(similarities: Floats, belong: Flags) -> Floats:
    """Return the probability of a hit by cutoff, (n, cutoffs), of similarities, (n, m), and what belongs, (n, m)."""
    best = np.where(belong, similarities, -np.inf).max(1, keepdims=True)
    nearer = (similarities > best + TIE).sum(1)
    tied = np.abs(similarities - best) <= TIE
    ties, right = tied.sum(1), (tied & belong).sum(1)
    drawn = (np.clip(cutoff - nearer, 0, ties) for cutoff in CUTOFFS)
    return np.stack([1 - hypergeom.pmf(0, ties, right, count) for count in drawn], axis=1)


def name_recalls(recalls: Floats) -> Iterator[tuple[str, Any]]:
    """Yield `recall_at_1` and so on, with what the last axis of some recalls has of each cutoff."""
    for number, cutoff in enumerate(CUTOFFS):
        yield f"recall_at_{cutoff}", recalls[..., number]
