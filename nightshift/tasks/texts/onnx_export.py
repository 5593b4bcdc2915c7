"""ONNX graphs of models of texts: `inputs` int32 (n, tokens) -> `score` float32 (n, classes)."""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper
from torch import nn

from nightshift.contracts.package import INPUT
from nightshift.models.recipes.bert import Bert, Encoder
from nightshift.tasks.classification.linear import Floats, Line
from nightshift.tasks.onnx_export import GraphBuilder

MASKED = np.float32(1e9)  # below any score of attention
TOKENS = helper.make_tensor_value_info(INPUT, TensorProto.INT32, [None, None])


def bag(idf: Floats, line: Line, pad: int, is_multilabel: bool = False) -> bytes:
    """Return a linear classifier of a text's TF-IDF vector, which ignores the order of tokens.

    The norm of the vector comes from comparing all pairs of a text's tokens. So no tensor is as wide as the vocabulary,
    but memory grows with the square of a text's length. The embedding is the logits.

    Args:
        idf: weight of each token, (vocabulary,).
        line: classifier of the normalized weighted counts.
        pad: id of the padding token.
        is_multilabel: whether a text has any number of classes.
    """
    graph = GraphBuilder()
    is_token, one = _is_token(graph, pad), graph.constant(np.float32(1))
    votes = graph.node("Gather", graph.constant(_single(idf[:, None] * line.weights)), INPUT)
    total = graph.node("ReduceSum", graph.node("Mul", votes, graph.unsqueeze(is_token, 2)), graph.axes(1), keepdims=0)
    weight = graph.node("Mul", graph.node("Gather", graph.constant(_single(idf)), INPUT), is_token)
    same = graph.node("Equal", graph.unsqueeze(INPUT, 2), graph.unsqueeze(INPUT, 1))
    often = graph.node("ReduceSum", graph.node("Cast", same, to=TensorProto.FLOAT), graph.axes(2), keepdims=0)
    squares = graph.node("Mul", often, graph.node("Mul", weight, weight))
    # no weight is less than 1, so only an empty text has a smaller norm
    length = graph.node("Max", graph.node("Sqrt", graph.node("ReduceSum", squares, graph.axes(1), keepdims=1)), one)
    logits = graph.embedding("Add", graph.node("Div", total, length), graph.constant(_single(line.bias)))
    return graph.classifier(TOKENS, logits, (len(line.bias), len(line.bias)), is_multilabel)


def transformer(model: nn.Sequential, recipe: Bert) -> bytes:
    """Return the probabilities of a transformer encoder with a linear layer behind it."""
    builder = _Transformer(model, recipe)
    is_token = _is_token(builder.graph, recipe.pad)
    hidden, masked = builder.embed(), builder.mask(is_token)
    for number in range(recipe.shape.num_hidden_layers):
        hidden = builder.layer(f"encoder.layer.{number}", hidden, masked)
    widths = (recipe.shape.hidden_size, recipe.classes)
    return builder.graph.classifier(TOKENS, builder.head(hidden, is_token), widths, recipe.is_multilabel)


class _Transformer:
    """Builds the graph of a transformer, one layer at a time."""

    def __init__(self, model: nn.Sequential, recipe: Bert) -> None:
        encoder, last = model
        assert isinstance(encoder, Encoder)
        self.graph, self.shape, self.last = GraphBuilder(), recipe.shape, last
        self.weights = {name: _single(value.cpu()) for name, value in encoder.bert.state_dict().items()}
        self.one = self.graph.constant(np.float32(1))

    def embed(self) -> str:
        """Add the normalized sum of token, position and segment embeddings."""
        graph, words = self.graph, self._weight("embeddings.word_embeddings.weight")
        positions, ends = self._weight("embeddings.position_embeddings.weight"), graph.node("Shape", INPUT, start=1)
        near = graph.node("Slice", positions, graph.axes(0), ends, graph.axes(0))
        first = graph.constant(self.weights["embeddings.token_type_embeddings.weight"][0])
        total = graph.node("Add", graph.node("Add", graph.node("Gather", words, INPUT), first), near)
        return self._normalize("embeddings.LayerNorm", total)

    def mask(self, is_token: str) -> str:
        """Add the mask of attention scores: 0 at a token, a large negative number at padding."""
        missing = self.graph.node("Sub", is_token, self.one)
        return self.graph.unsqueeze(self.graph.node("Mul", missing, self.graph.constant(MASKED)), 1, 2)

    def layer(self, name: str, hidden: str, masked: str) -> str:
        """Add a layer: attention, then two linear layers, each with a residual connection."""
        attended = self._linear(f"{name}.attention.output.dense", self._attention(name, hidden, masked))
        between = self._normalize(f"{name}.attention.output.LayerNorm", self.graph.node("Add", attended, hidden))
        wide = self._gelu(self._linear(f"{name}.intermediate.dense", between))
        total = self.graph.node("Add", self._linear(f"{name}.output.dense", wide), between)
        return self._normalize(f"{name}.output.LayerNorm", total)

    def head(self, hidden: str, is_token: str) -> str:
        """Add the mean over tokens, then the logits."""
        graph = self.graph
        kept = graph.node("Mul", hidden, graph.unsqueeze(is_token, 2))
        count = graph.node("Max", graph.node("ReduceSum", is_token, graph.axes(1), keepdims=1), self.one)
        mean = graph.embedding("Div", graph.node("ReduceSum", kept, graph.axes(1), keepdims=0), count)
        weights, bias = (graph.constant(_single(value.cpu())) for value in self.last.state_dict().values())
        return graph.node("Gemm", mean, weights, bias, transB=1)

    def _attention(self, name: str, hidden: str, masked: str) -> str:
        graph, size = self.graph, self.shape.hidden_size // self.shape.num_attention_heads
        query, key, value = (
            self._heads(self._linear(f"{name}.attention.self.{part}", hidden), size, perm)
            for part, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
        )
        scaled = graph.node("Div", graph.node("MatMul", query, key), graph.constant(np.float32(np.sqrt(size))))
        shares = graph.node("Softmax", graph.node("Add", scaled, masked), axis=-1)
        mixed = graph.node("Transpose", graph.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        return graph.node("Reshape", mixed, graph.axes(0, 0, self.shape.hidden_size))

    def _heads(self, x: str, size: int, perm: list[int]) -> str:
        split = self.graph.node("Reshape", x, self.graph.axes(0, 0, self.shape.num_attention_heads, size))
        return self.graph.node("Transpose", split, perm=perm)

    def _gelu(self, x: str) -> str:
        graph = self.graph
        share = graph.node("Erf", graph.node("Div", x, graph.constant(np.float32(np.sqrt(2)))))
        half = graph.node("Mul", x, graph.constant(np.float32(0.5)))
        return graph.node("Mul", half, graph.node("Add", share, self.one))

    def _linear(self, name: str, x: str) -> str:
        weight = self.graph.constant(np.ascontiguousarray(self.weights[f"{name}.weight"].T))
        return self.graph.node("Add", self.graph.node("MatMul", x, weight), self._weight(f"{name}.bias"))

    def _normalize(self, name: str, x: str) -> str:
        scale, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self.graph.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=self.shape.layer_norm_eps)

    def _weight(self, name: str) -> str:
        return self.graph.constant(self.weights[name])


def _is_token(graph: GraphBuilder, pad: int) -> str:
    """Add the mask of tokens, 1, and padding, 0, (n, tokens)."""
    same = graph.node("Equal", INPUT, graph.constant(np.int32(pad)))
    return graph.node("Cast", graph.node("Not", same), to=TensorProto.FLOAT)


def _single(values: Any) -> npt.NDArray[np.float32]:
    return np.asarray(values, dtype=np.float32)
