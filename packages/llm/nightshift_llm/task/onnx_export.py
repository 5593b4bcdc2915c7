"""The ONNX graph of a Llama: `inputs` int32 (n, length + 1) -> `score` float32 (n,), the bits per byte of each row.

Its `greedy`, float32 (n, length), is 1 where a token is the model's likeliest next token, else 0.
Its `embedding`, float32 (n, width), is the mean over tokens of the last layer's input (Muennighoff, SGPT, 2022).
A token id plus the vocabulary size marks a token that is read but not scored, such as of a prompt.
A row is a text, or a later part of one; it is padded at its end, which causal attention hides from the tokens before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from onnx import TensorProto, helper

from nightshift.contracts.package import EMBEDDING, GREEDY, INPUT, OUTPUT
from nightshift.items.tokens import Tokens
from nightshift.models.weights import WeightFile
from nightshift.tasks.onnx_export import GraphBuilder

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from nightshift.models.weights import Weights

HIDDEN = np.float32(-1e9)  # below any score of attention


def read_weights(model: "LlamaForCausalLM") -> "Weights":
    """Return a model's weights by the names that `transformers` gives them, without a copy; tied ones once."""
    weights = {name: value.detach().float().contiguous().numpy() for name, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del weights["lm_head.weight"]
    return weights


def export_llama(
    model: "LlamaForCausalLM", length: int, byte_lengths: Tokens, files: Sequence[WeightFile] = ()
) -> bytes:
    """Return a Llama's bits per byte of the tokens after a row's first; of none, 0.

    Args:
        model: on the CPU.
        length: tokens of a row, each of which predicts the next one.
        byte_lengths: bytes that each token stands for, (2 vocabulary,); those of none count for nothing.
        files: of all weights, where they are too many for a graph.
    """
    builder = _Llama(model, length, len(byte_lengths) // 2, files)
    graph = builder.graph
    hidden, targets = builder.embed(), graph.node("Slice", INPUT, *map(graph.axes, (1, length + 1, 1)))
    for number in range(builder.shape.num_hidden_layers):
        hidden = builder.layer(f"model.layers.{number}", hidden)
    last = builder.normalize("model.norm", hidden)
    logits, following = builder.predict(last), builder.lower(targets)
    likeliest = graph.node("Cast", graph.node("ArgMax", logits, axis=-1, keepdims=0), to=TensorProto.INT32)
    greedy = graph.node("Cast", graph.node("Equal", likeliest, following), to=TensorProto.FLOAT)
    likely = graph.node("LogSoftmax", logits, axis=-1)
    likely = graph.node("GatherElements", likely, graph.unsqueeze(following, 2), axis=2)
    sizes = graph.node("Gather", graph.constant(byte_lengths.astype(np.float32)), targets)
    is_counted = graph.node("Sign", sizes)
    nats = builder.sum_tokens(graph.node("Mul", graph.node("Squeeze", likely, graph.axes(2)), is_counted))
    bits = graph.node("Div", nats, graph.constant(np.float32(-np.log(2))))
    total = builder.sum_tokens(graph.node("Mul", last, graph.unsqueeze(is_counted, 2)))
    graph.embedding("Div", total, graph.unsqueeze(builder.at_least_1(builder.sum_tokens(is_counted)), 1))
    score = graph.node("Div", bits, builder.at_least_1(builder.sum_tokens(sizes)))
    inputs = helper.make_tensor_value_info(INPUT, TensorProto.INT32, [None, length + 1])
    shapes = {OUTPUT: [], GREEDY: [length], EMBEDDING: [builder.shape.hidden_size]}
    return graph.scorer([inputs], {OUTPUT: score, GREEDY: greedy}, shapes)


class _Llama:
    """Builds the graph of a decoder, one layer at a time."""

    def __init__(self, model: "LlamaForCausalLM", length: int, vocabulary: int, files: Sequence[WeightFile]) -> None:
        self.graph, self.length = GraphBuilder(files), length
        self.vocabulary = self.graph.constant(np.int32(vocabulary))
        self.shape: Any = model.config  # whose class allows None where it holds numbers
        self.weights = read_weights(model)
        self.embedding = self._weight("model.embed_tokens")
        self.one = self.graph.constant(np.float32(1))
        self.epsilon = self.graph.constant(np.float32(self.shape.rms_norm_eps))
        positions = torch.arange(length)[None]
        rotations = model.model.rotary_emb(torch.zeros(1), positions)
        self.cosines, self.sines = (self.graph.constant(rotation.numpy()[:, None]) for rotation in rotations)
        later = self.graph.node("Expand", self.graph.constant(HIDDEN), self.graph.axes(length, length))
        self.mask = self.graph.node("Trilu", later, self.graph.constant(np.int64(1)), upper=1)

    def embed(self) -> str:
        """Add the embeddings of each token but a row's last, (n, length, width)."""
        tokens = self.graph.node("Slice", INPUT, *map(self.graph.axes, (0, self.length, 1)))
        return self.graph.node("Gather", self.embedding, self.lower(tokens))

    def lower(self, numbers: str) -> str:
        """Add the ids of tokens, without the offset of masked ones."""
        return self.graph.node("Mod", numbers, self.vocabulary)

    def sum_tokens(self, values: str) -> str:
        """Add the sum over the tokens of a row, (n, length, ...) -> (n, ...)."""
        return self.graph.node("ReduceSum", values, self.graph.axes(1), keepdims=0)

    def at_least_1(self, values: str) -> str:
        """Add the maximum with 1, a safe divisor."""
        return self.graph.node("Max", values, self.one)

    def layer(self, name: str, hidden: str) -> str:
        """Add a layer: attention, then SwiGLU, each with a norm before it and a residual connection."""
        graph = self.graph
        attended = self._attention(f"{name}.self_attn", self.normalize(f"{name}.input_layernorm", hidden))
        hidden = graph.node("Add", hidden, attended)
        normal = self.normalize(f"{name}.post_attention_layernorm", hidden)
        gate = self.linear(f"{name}.mlp.gate_proj", normal)
        swish = graph.node("Mul", gate, graph.node("Sigmoid", gate))
        wide = graph.node("Mul", swish, self.linear(f"{name}.mlp.up_proj", normal))
        return graph.node("Add", hidden, self.linear(f"{name}.mlp.down_proj", wide))

    def normalize(self, name: str, hidden: str) -> str:
        """Add an RMS norm."""
        graph = self.graph
        squares = graph.node("ReduceMean", graph.node("Mul", hidden, hidden), axes=[-1])
        root = graph.node("Sqrt", graph.node("Add", squares, self.epsilon))
        return graph.node("Mul", graph.node("Div", hidden, root), self._weight(name))

    def predict(self, hidden: str) -> str:
        """Add the logits of each next token, (n, length, vocabulary)."""
        if not self.shape.tie_word_embeddings:
            return self.linear("lm_head", hidden)
        return self.graph.node("MatMul", hidden, self.graph.node("Transpose", self.embedding, perm=[1, 0]))

    def linear(self, name: str, hidden: str) -> str:
        """Add a linear layer without a bias."""
        stored = f"{name}.weight"
        if self.graph.files:  # ONNX Runtime turns it once, while it loads
            return self.graph.node("MatMul", hidden, self.graph.node("Transpose", stored, perm=[1, 0]))
        return self.graph.node("MatMul", hidden, self.graph.constant(np.ascontiguousarray(self.weights[stored].T)))

    def _attention(self, name: str, hidden: str) -> str:
        """Add causal grouped-query attention."""
        graph, size, shared = self.graph, self.shape.head_dim, self.shape.num_key_value_heads
        group = self.shape.num_attention_heads // shared
        query, key = (self._rotate(self._heads(f"{name}.{part}_proj", hidden)) for part in ("q", "k"))
        query = graph.node("Reshape", query, graph.axes(0, shared, group, self.length, size))
        key, value = (graph.unsqueeze(heads, 2) for heads in (key, self._heads(f"{name}.v_proj", hidden)))
        scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 1, 2, 4, 3]))
        scaled = graph.node("Div", scores, graph.constant(np.float32(np.sqrt(size))))
        shares = graph.node("Softmax", graph.node("Add", scaled, self.mask), axis=-1)
        mixed = graph.node("Transpose", graph.node("MatMul", shares, value), perm=[0, 3, 1, 2, 4])
        width = shared * group * size
        return self.linear(f"{name}.o_proj", graph.node("Reshape", mixed, graph.axes(0, 0, width)))

    def _heads(self, name: str, hidden: str) -> str:
        split = self.graph.axes(0, 0, -1, self.shape.head_dim)
        return self.graph.node(
            "Transpose", self.graph.node("Reshape", self.linear(name, hidden), split), perm=[0, 2, 1, 3]
        )

    def _rotate(self, heads: str) -> str:
        """Add the rotary position embedding, which pairs the two halves of a head."""
        graph, half = self.graph, self.shape.head_dim // 2
        first, second = (graph.node("Slice", heads, *map(graph.axes, (begin, begin + half, 3))) for begin in (0, half))
        turned = graph.node("Concat", graph.node("Neg", second), first, axis=-1)
        return graph.node("Add", graph.node("Mul", heads, self.cosines), graph.node("Mul", turned, self.sines))

    def _weight(self, name: str) -> str:
        stored = f"{name}.weight"
        return stored if self.graph.files else self.graph.constant(self.weights[stored])
