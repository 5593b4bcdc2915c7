"""Parts of graphs of transformers, over weights by name: linear layers, norms, attention, activations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nightshift.models.weights import WeightFile
from nightshift.tasks.onnx_export import GraphBuilder

if TYPE_CHECKING:
    from nightshift.models.weights import Weights


class TransformerGraph(GraphBuilder):
    """Builds a graph over the weights of a network.

    Args:
        weights: by name.
        files: of all weights, where they are too many for a graph.
    """

    def __init__(self, weights: "Weights", files: Sequence[WeightFile] = ()) -> None:
        super().__init__(files)
        self.weights = weights
        self.one = self.constant(np.float32(1))

    def weight(self, name: str) -> str:
        """Return the name of a weight's value."""
        return name if self.files else self.constant(self.weights[name])

    def turned(self, name: str) -> str:
        """Return the name of the value of a matrix's weights, (inputs, outputs)."""
        if self.files:  # ONNX Runtime turns it once, while it loads
            return self.node("Transpose", name, perm=[1, 0])
        return self.constant(np.ascontiguousarray(self.weights[name].T))

    def linear(self, name: str, x: str) -> str:
        """Add a linear layer, with its bias if it has one."""
        product = self.node("MatMul", x, self.turned(f"{name}.weight"))
        bias = f"{name}.bias"
        return self.node("Add", product, self.weight(bias)) if bias in self.weights else product

    def normalize(self, name: str, x: str, epsilon: float) -> str:
        """Add a layer norm."""
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)

    def attention(self, inputs: Sequence[str], shape: Any, mask: str = "") -> str:
        """Add scaled dot-product attention in several heads.

        Args:
            inputs: queries, keys and values, (n, tokens, width).
            shape: a config of `transformers`, which says the width and the heads.
            mask: added to scores (n, heads, queries, keys); empty: nothing is.

        Returns:
            (n, queries, width).
        """
        heads, size = shape.num_attention_heads, shape.hidden_size // shape.num_attention_heads
        query, key, value = (
            self.node("Transpose", self.node("Reshape", x, self.axes(0, 0, heads, size)), perm=perm)
            for x, perm in zip(inputs, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
        )
        scaled = self.node("Div", self.node("MatMul", query, key), self.constant(np.float32(np.sqrt(size))))
        shares = self.node("Softmax", self.node("Add", scaled, mask) if mask else scaled, axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        return self.node("Reshape", mixed, self.axes(0, 0, shape.hidden_size))

    def activate(self, activation: str, x: str) -> str:
        """Add a smooth rectifier: `gelu`, `gelu_pytorch_tanh` or `quick_gelu`, as `transformers` names them."""
        if activation == "quick_gelu":
            steep = self.node("Mul", x, self.constant(np.float32(1.702)))
            return self.node("Mul", x, self.node("Sigmoid", steep))
        share = self._erf(x) if activation == "gelu" else self._tanh(x)
        half = self.node("Mul", x, self.constant(np.float32(0.5)))
        return self.node("Mul", half, self.node("Add", share, self.one))

    def _erf(self, x: str) -> str:
        return self.node("Erf", self.node("Div", x, self.constant(np.float32(np.sqrt(2)))))

    def _tanh(self, x: str) -> str:
        cube = self.node("Mul", x, self.node("Mul", x, x))
        bent = self.node("Add", x, self.node("Mul", cube, self.constant(np.float32(0.044715))))
        return self.node("Tanh", self.node("Mul", bent, self.constant(np.float32(np.sqrt(2 / np.pi)))))


class BertNodes:
    """Adds a BERT's layers to a graph.

    Args:
        graph: with its weights.
        shape: how many layers of which widths.
        tokens: name of the value of tokens, int (n, length).
    """

    def __init__(self, graph: TransformerGraph, shape: Any, tokens: str) -> None:
        self.graph, self.shape, self.tokens = graph, shape, tokens

    def embed(self, name: str) -> str:
        """Add the normalized sum of token, position and segment embeddings."""
        graph, words = self.graph, self.graph.weight(f"{name}.word_embeddings.weight")
        positions, ends = graph.weight(f"{name}.position_embeddings.weight"), graph.node("Shape", self.tokens, start=1)
        near = graph.node("Slice", positions, graph.axes(0), ends, graph.axes(0))
        first = graph.constant(graph.weights[f"{name}.token_type_embeddings.weight"][0])
        total = graph.node("Add", graph.node("Add", graph.node("Gather", words, self.tokens), first), near)
        return self._normalize(f"{name}.LayerNorm", total)

    def layer(self, name: str, hidden: str, mask: str) -> str:
        """Add a layer: attention, then two linear layers, each with a residual connection."""
        graph = self.graph
        inputs = [graph.linear(f"{name}.attention.self.{part}", hidden) for part in ("query", "key", "value")]
        attended = graph.linear(f"{name}.attention.output.dense", graph.attention(inputs, self.shape, mask))
        between = self._normalize(f"{name}.attention.output.LayerNorm", graph.node("Add", attended, hidden))
        wide = graph.activate(self.shape.hidden_act, graph.linear(f"{name}.intermediate.dense", between))
        total = graph.node("Add", graph.linear(f"{name}.output.dense", wide), between)
        return self._normalize(f"{name}.output.LayerNorm", total)

    def _normalize(self, name: str, x: str) -> str:
        return self.graph.normalize(name, x, self.shape.layer_norm_eps)
