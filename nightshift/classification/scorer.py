"""Scores what networks see with one candidate of a model."""

from collections.abc import Callable

import numpy as np

from nightshift.classification.metrics import Scores
from nightshift.classification.shards import Array
from nightshift.contracts.package import ModelPackage, read_graph
from nightshift.graph import Graph

AT_ONCE = 256  # rows


class Scorer:
    """Scores images or texts with one candidate of a model.

    Raises:
        UserError: when a graph's bytes are not those the manifest names.
    """

    def __init__(self, uri: str, package: ModelPackage, candidate: str | None = None) -> None:
        self.graph = Graph(read_graph(uri, package, candidate or package.selected))

    def score(self, inputs: Array) -> Scores:
        """Return the probability of each class of each row, float32 (n, classes)."""
        return scores(self.graph, inputs)


def scores(graph: Graph, inputs: Array) -> Scores:
    """Return a graph's probability of each class of each row, float32 (n, classes)."""
    return _batched(graph.score, inputs)


def embeddings(graph: Graph, inputs: Array) -> Scores:
    """Return what a network's last layer takes of each row, float32 (n, width)."""
    return _batched(graph.embedding, inputs)


def _batched(given: Callable[[Array], Scores], inputs: Array) -> Scores:
    if not len(inputs):  # which ONNX Runtime does not take, and the graph alone knows how wide its outputs are
        return given(np.zeros((1, *inputs.shape[1:]), inputs.dtype))[:0]
    firsts = range(0, len(inputs), AT_ONCE)
    return np.concatenate([given(inputs[first : first + AT_ONCE]) for first in firsts])
