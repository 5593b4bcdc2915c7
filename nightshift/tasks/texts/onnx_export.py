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
from nightshift.tasks.transformer_graphs import BertNodes, TransformerGraph

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
    encoder, last = model
    assert isinstance(encoder, Encoder)
    weights = {name: _single(value.cpu()) for name, value in encoder.bert.state_dict().items()}
    graph = TransformerGraph(weights)
    nodes, is_token = BertNodes(graph, recipe.shape, INPUT), _is_token(graph, recipe.pad)
    hidden, mask = nodes.embed("embeddings"), _mask(graph, is_token)
    for number in range(recipe.shape.num_hidden_layers):
        hidden = nodes.layer(f"encoder.layer.{number}", hidden, mask)
    widths = (recipe.shape.hidden_size, recipe.classes)
    return graph.classifier(TOKENS, _head(graph, hidden, is_token, last), widths, recipe.is_multilabel)


def _mask(graph: TransformerGraph, is_token: str) -> str:
    """Add the mask of attention scores: 0 at a token, a large negative number at padding."""
    missing = graph.node("Sub", is_token, graph.one)
    return graph.unsqueeze(graph.node("Mul", missing, graph.constant(MASKED)), 1, 2)


def _head(graph: TransformerGraph, hidden: str, is_token: str, last: nn.Module) -> str:
    """Add the mean over tokens, then the logits."""
    kept = graph.node("Mul", hidden, graph.unsqueeze(is_token, 2))
    count = graph.node("Max", graph.node("ReduceSum", is_token, graph.axes(1), keepdims=1), graph.one)
    mean = graph.embedding("Div", graph.node("ReduceSum", kept, graph.axes(1), keepdims=0), count)
    weights, bias = (graph.constant(_single(value.cpu())) for value in last.state_dict().values())
    return graph.node("Gemm", mean, weights, bias, transB=1)


def _is_token(graph: GraphBuilder, pad: int) -> str:
    """Add the mask of tokens, 1, and padding, 0, (n, tokens)."""
    same = graph.node("Equal", INPUT, graph.constant(np.int32(pad)))
    return graph.node("Cast", graph.node("Not", same), to=TensorProto.FLOAT)


def _single(values: Any) -> npt.NDArray[np.float32]:
    return np.asarray(values, dtype=np.float32)
