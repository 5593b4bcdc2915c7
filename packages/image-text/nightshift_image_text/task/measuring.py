"""What a model says of pairs, and how good that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightshift.items import scorer
from nightshift.items.metrics import Flags, Scores, evaluate
from nightshift.models.graph import Graph
from nightshift.models.tensors import Array, Tensors
from nightshift_image_text.retrieval import Embeddings, Pairs, find_hits, name_recalls

SCORE, IMAGES, REPORTS = "score", "image_embedding", "text_embedding"  # outputs of a graph


@dataclass(frozen=True)
class PairAnswers:
    """What a model says of n rows.

    Attributes:
        scores: probability of each finding, by the image alone, float32 (n, findings).
        embeddings: of images and of reports.
    """

    scores: Scores
    embeddings: Embeddings

    @property
    def stacked(self) -> Scores:
        """All of it side by side, (n, findings + 2 * width)."""
        return np.hstack([self.scores, *self.embeddings])


def answer(graph: Graph, inputs: Array | Tensors) -> PairAnswers:
    """Return what a graph says of n rows: structured, with `pixels` and `tokens`, or tensors by name."""
    outputs = scorer.outputs(graph, inputs, (SCORE, IMAGES, REPORTS))
    return PairAnswers(outputs[SCORE], Embeddings(outputs[IMAGES], outputs[REPORTS]))


def measure_pairs(
    labels: Flags, scores: Scores, embeddings: Embeddings, pairs: Pairs, thresholds: Sequence[float]
) -> Mapping[str, Any]:
    """Return the metrics of some rows by name.

    Args:
        labels: which findings each row has, (n, findings).
        scores: probability of each finding, (n, findings).
        embeddings: of the rows' images and reports.
        pairs: which of these belong together.
        thresholds: of each finding.

    Raises:
        UserError: when an embedding is neither of unit length nor of 0s.
    """
    recalls = find_hits(embeddings, pairs).both.mean(0)
    return {**{name: float(value) for name, value in name_recalls(recalls)}, **evaluate(labels, scores, thresholds)}
