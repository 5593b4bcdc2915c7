"""Scores what networks see with one candidate of a model."""

from collections.abc import Sequence

import numpy as np

from nightshift.contracts.package import EMBEDDING, OUTPUT, ModelPackage, read_graph
from nightshift.items.metrics import Scores
from nightshift.models.graph import Graph
from nightshift.models.tensors import Array, Tensors, by_name, concatenate, row_count, split_rows, take_rows

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
    return outputs(graph, inputs, (OUTPUT,))[OUTPUT]


def embeddings(graph: Graph, inputs: Array) -> Scores:
    """Return what a network's last layer takes of each row, float32 (n, width)."""
    return outputs(graph, inputs, (EMBEDDING,))[EMBEDDING]


def outputs(graph: Graph, inputs: Array | Tensors, names: Sequence[str]) -> Tensors:
    """Return some outputs of a graph by name, float32 (n, ...) each."""
    rows = by_name(inputs)
    if not row_count(rows):  # which ONNX Runtime does not take, and the graph alone knows how wide its outputs are
        zeros = {name: np.zeros((1, *array.shape[1:]), array.dtype) for name, array in rows.items()}
        return take_rows(graph.run(names, zeros), slice(0))
    return concatenate([graph.run(names, batch) for batch in split_rows(rows, AT_ONCE)])
