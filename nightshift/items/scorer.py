"""Scores what networks see with one candidate of a model."""

from collections.abc import Callable

import numpy as np

from nightshift.contracts.package import ModelPackage, read_graph
from nightshift.items.metrics import Scores
from nightshift.models.graph import Graph
from nightshift.models.tensors import Array, Tensors, by_name, row_count, split_rows

AT_ONCE = 256  # rows


class ClassScorer:
    """Scores images or texts with one candidate of a model.

    Raises:
        UserError: when a graph's bytes are not those the manifest names.
    """

    def __init__(self, uri: str, package: ModelPackage, candidate: str | None = None) -> None:
        self.graph = Graph(read_graph(uri, package, candidate or package.selected))

    def score(self, inputs: Array | Tensors) -> Scores:
        """Return the probability of each class of each row, float32 (n, classes)."""
        return scores(self.graph, inputs)


def scores(graph: Graph, inputs: Array | Tensors) -> Scores:
    """Return a graph's probability of each class of each row, float32 (n, classes)."""
    return _run_batches(graph.score, by_name(inputs))


def embeddings(graph: Graph, inputs: Array) -> Scores:
    """Return what a network's last layer takes of each row, float32 (n, width)."""
    return _run_batches(graph.embedding, by_name(inputs))


def _run_batches(run: Callable[[Tensors], Scores], inputs: Tensors) -> Scores:
    if not row_count(inputs):  # which ONNX Runtime does not take, and the graph alone knows how wide its outputs are
        zeros = {name: np.zeros((1, *array.shape[1:]), array.dtype) for name, array in inputs.items()}
        return run(zeros)[:0]
    return np.concatenate([run(batch) for batch in split_rows(inputs, AT_ONCE)])
