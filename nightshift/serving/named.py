"""Batches the calls of one named graph: its outputs lie side by side in a matrix, as a batcher gives them."""

from math import prod

import numpy as np

from nightshift.contracts.package import NamedGraph
from nightshift.items.scorer import AT_ONCE
from nightshift.models.graph import Graph
from nightshift.models.tensors import Array, Tensors, split_rows
from nightshift.serving.batching import Batcher, Field, Scores, ServerLimits


class NamedBatcher:
    """Calls a named graph with the rows of all requests that have its inputs.

    Attributes:
        inputs: names of its inputs.
        outputs: names of its outputs.
        batcher: calls it.
    """

    def __init__(self, graph: Graph, names: NamedGraph, example: Tensors, limits: ServerLimits) -> None:
        """Call a graph once, which shows how wide its outputs are.

        Args:
            graph: cut to the inputs and outputs.
            names: of its inputs and outputs.
            example: inputs of one row; others are ignored.
            limits: of the batcher.
        """
        self.inputs, self.outputs, self._graph = frozenset(names.inputs), names.outputs, graph
        example = self._select(example)
        self._shapes = {name: array.shape[1:] for name, array in graph.run(self.outputs, example).items()}
        self.batcher = Batcher(self._compute, example, limits)

    async def run(self, inputs: Tensors, field: Field) -> Tensors:
        """Return the outputs of n rows by name; raises as `Batcher.score`.

        Args:
            inputs: n rows; others than the graph's are ignored.
            field: a row's index -> its name in the request.
        """
        matrix = await self.batcher.score(self._select(inputs), field)
        ends = np.cumsum([prod(shape) for shape in self._shapes.values()])[:-1]
        parts = zip(self._shapes.items(), np.split(matrix, ends, axis=1), strict=True)
        return {name: part.reshape(len(matrix), *shape) for (name, shape), part in parts}

    def _select(self, inputs: Tensors) -> dict[str, Array]:
        return {name: inputs[name] for name in sorted(self.inputs)}

    def _compute(self, inputs: Tensors) -> Scores:
        """Return the outputs of n rows side by side, (n, width); large batches in parts, as offline scoring does."""
        parts = [self._graph.run(self.outputs, batch) for batch in split_rows(inputs, AT_ONCE)]
        return np.concatenate([np.column_stack([array.reshape(len(array), -1) for array in p.values()]) for p in parts])
