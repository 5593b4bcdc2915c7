"""The ONNX graph of two towers: `pixels` uint8 (n, side, side, channels), `tokens` int32 (n, length) -> four outputs.

`score` float32 (n, findings), probabilities from the image alone; `image_embedding` and `text_embedding` float32
(n, width), of unit length; `embedding` (n, 2 width), both side by side, for drift.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper
from torch import nn

from nightshift.contracts.package import EMBEDDING, OUTPUT
from nightshift.models.weights import WeightFile
from nightshift.tasks.transformer_graphs import BertNodes, TransformerGraph
from nightshift_image_text.recipes.towers import (
    IMAGE,
    PIXELS,
    TEXT,
    TOKENS,
    ClassToken,
    ConvolutionalStem,
    EndToken,
    LastToken,
    PatchPooling,
    PixelEmbedding,
    TowerLayer,
    see_before,
)

if TYPE_CHECKING:
    from nightshift.models.weights import Weights
    from nightshift_image_text.recipes.clip import Clip

HIDDEN = np.float32(-1e9)  # below any score of attention
LEAST = np.float32(1e-12)  # norm; of torch.nn.functional.normalize


def read_weights(model: nn.Sequential) -> "Weights":
    """Return the weights of a merged network, by name."""
    return {name: value.detach().float().contiguous().cpu().numpy() for name, value in model.state_dict().items()}


def export_towers(model: nn.Sequential, recipe: "Clip", files: Sequence[WeightFile] = ()) -> bytes:
    """Return the graph of a merged network.

    Args:
        model: see `Clip.merge`.
        recipe: of the network.
        files: of all weights, where they are too many for a graph; see `nightshift.models.weights.divide`.
    """
    builder = _Towers(model, recipe, files)
    graph = builder.graph
    image, text = builder.pool_image(), builder.pool_text()
    score = graph.node("Sigmoid", graph.linear("heads.findings", image))
    image, text = builder.project(IMAGE, image), builder.project(TEXT, text)
    graph.embedding("Concat", image, text, axis=1)
    inputs = [
        helper.make_tensor_value_info(PIXELS, TensorProto.UINT8, [None, recipe.side, recipe.side, recipe.channels]),
        helper.make_tensor_value_info(TOKENS, TensorProto.INT32, [None, recipe.length]),
    ]
    width = recipe.embedding_width
    shapes = {OUTPUT: [recipe.findings], "image_embedding": [width], "text_embedding": [width], EMBEDDING: [2 * width]}
    return graph.scorer(inputs, {OUTPUT: score, "image_embedding": image, "text_embedding": text}, shapes)


class _Towers:
    """Builds the graph, one layer at a time."""

    def __init__(self, model: nn.Sequential, recipe: "Clip", files: Sequence[WeightFile]) -> None:
        self.graph, self.model, self.recipe = TransformerGraph(read_weights(model), files), model, recipe
        self.image, self.text = recipe.shape.vision_config, recipe.shape.text_config

    def pool_image(self) -> str:
        """Add the image tower; return its (n, width)."""
        hidden = self._embed_pixels("embedding.image")
        for name in self._layers(IMAGE):
            hidden = self._layer(name, hidden, self.image)
        norm, epsilon = "pooling.image.norm", self.image.layer_norm_eps
        pooling = self.model.get_submodule("pooling.image")
        if isinstance(pooling, ClassToken):
            return self.graph.normalize(norm, self._take(hidden, 0), epsilon)
        normal = self.graph.normalize(norm, hidden, epsilon)
        if isinstance(pooling, PatchPooling):
            return self._add_mean_and_maximum(normal)
        return self._pool_attention("pooling.image.head", normal)

    def pool_text(self) -> str:
        """Add the text tower; return its (n, width)."""
        if self.recipe.has_bert:
            return self._pool_bert()
        graph, hidden = self.graph, self._embed_tokens("embedding.text")
        mask = self._mask_later() if self._sees_before else ""
        for name in self._layers(TEXT):
            hidden = self._layer(name, hidden, self.text, mask)
        pooling = self.model.get_submodule("pooling.text")
        last = self._take(hidden, -1) if isinstance(pooling, LastToken) else self._take_end(pooling, hidden)
        return graph.normalize("pooling.text.norm", last, self.text.layer_norm_eps)

    def project(self, tower: str, pooled: str) -> str:
        """Add the projection to the embedding of unit length."""
        graph, name = self.graph, f"heads.{tower}"
        embedded = graph.linear(name, pooled) if f"{name}.weight" in graph.weights else pooled
        norm = graph.node("ReduceL2", embedded, axes=[1], keepdims=1)
        return graph.node("Div", embedded, graph.node("Max", norm, graph.constant(LEAST)))

    def _layers(self, tower: str) -> list[str]:
        blocks = self.model.named_children()
        return [f"{name}.layer" for name, block in blocks if isinstance(block, TowerLayer) and block.tower == tower]

    @property
    def _sees_before(self) -> bool:
        first = self.model.get_submodule("text0")
        return isinstance(first, TowerLayer) and first.mask is see_before

    def _embed_pixels(self, name: str) -> str:
        graph, embedding = self.graph, self.model.get_submodule(name)
        assert isinstance(embedding, PixelEmbedding)
        images = graph.node("Cast", graph.node("Transpose", PIXELS, perm=[0, 3, 1, 2]), to=TensorProto.FLOAT)
        scale, shift = (graph.constant(value.cpu().numpy()) for value in (embedding.scale, embedding.shift))
        images = graph.node("Sub", graph.node("Div", images, scale), shift)  # gray becomes several channels
        patches = self._cut_patches(f"{name}.patches.patch_embedding", images)
        width = self.image.hidden_size
        hidden = graph.node("Transpose", graph.node("Reshape", patches, graph.axes(0, width, -1)), perm=[0, 2, 1])
        if f"{name}.patches.class_embedding" in graph.weights:
            hidden = graph.node("Concat", self._repeat(f"{name}.patches.class_embedding", width), hidden, axis=1)
        hidden = graph.node("Add", hidden, graph.weight(f"{name}.patches.position_embedding.weight"))
        is_normal = f"{name}.norm.weight" in graph.weights
        return graph.normalize(f"{name}.norm", hidden, self.image.layer_norm_eps) if is_normal else hidden

    def _cut_patches(self, name: str, images: str) -> str:
        """Add the convolution that cuts patches, or those of a stem."""
        graph, stem = self.graph, self.model.get_submodule(name)
        if isinstance(stem, ConvolutionalStem):
            return graph.path(stem, images)
        kernels = [f"{name}.{part}" for part in ("weight", "bias")]
        weights = [graph.weight(kernel) for kernel in kernels if kernel in graph.weights]
        size = [self.image.patch_size] * 2
        return graph.node("Conv", images, *weights, kernel_shape=size, strides=size)

    def _add_mean_and_maximum(self, hidden: str) -> str:
        mean = self.graph.node("ReduceMean", hidden, axes=[1], keepdims=0)
        return self.graph.node("Add", mean, self.graph.node("ReduceMax", hidden, axes=[1], keepdims=0))

    def _repeat(self, name: str, width: int) -> str:
        """Add a vector for each row, (n, 1, width)."""
        graph = self.graph
        size = graph.node("Concat", graph.node("Shape", PIXELS, end=1), graph.axes(1, width), axis=0)
        return graph.node("Expand", graph.weight(name), size)

    def _embed_tokens(self, name: str) -> str:
        graph = self.graph
        words = graph.node("Gather", graph.weight(f"{name}.token_embedding.weight"), TOKENS)
        positions = graph.weight(f"{name}.position_embedding.weight")
        near = graph.node("Slice", positions, graph.axes(0), graph.axes(self.recipe.length), graph.axes(0))
        return graph.node("Add", words, near)

    def _layer(self, name: str, hidden: str, shape: Any, mask: str = "") -> str:
        """Add a layer: attention, then two linear layers, each with a norm before it and a residual connection."""
        graph, epsilon = self.graph, shape.layer_norm_eps
        normal = graph.normalize(f"{name}.layer_norm1", hidden, epsilon)
        inputs = [graph.linear(f"{name}.self_attn.{part}_proj", normal) for part in "qkv"]
        attended = graph.linear(f"{name}.self_attn.out_proj", graph.attention(inputs, shape, mask))
        hidden = graph.node("Add", hidden, attended)
        return self._add_mlp(f"{name}.mlp", hidden, graph.normalize(f"{name}.layer_norm2", hidden, epsilon), shape)

    def _add_mlp(self, name: str, hidden: str, normal: str, shape: Any) -> str:
        graph = self.graph
        wide = graph.activate(shape.hidden_act, graph.linear(f"{name}.fc1", normal))
        return graph.node("Add", hidden, graph.linear(f"{name}.fc2", wide))

    def _mask_later(self) -> str:
        later = np.triu(np.full((self.recipe.length, self.recipe.length), HIDDEN), 1)
        return self.graph.constant(later)

    def _take(self, hidden: str, position: int) -> str:
        """Add the token at a position, (n, width)."""
        return self.graph.node("Gather", hidden, self.graph.constant(np.int64(position)), axis=1)

    def _take_end(self, pooling: nn.Module, hidden: str) -> str:
        """Add the end token of each text, or its last one, (n, width); see `EndToken`."""
        assert isinstance(pooling, EndToken)
        graph = self.graph
        is_token = graph.node("Cast", graph.node("Not", self._equals(pooling.pad)), to=TensorProto.INT64)
        count = graph.node("ReduceSum", is_token, graph.axes(1), keepdims=1)
        last = graph.node("Max", graph.node("Sub", count, graph.axes(1)), graph.axes(0))
        is_end = graph.node("Cast", self._equals(pooling.end), to=TensorProto.INT32)
        has_end = graph.node("Cast", graph.node("ReduceMax", is_end, axes=[1], keepdims=1), to=TensorProto.BOOL)
        position = graph.node("Where", has_end, graph.node("ArgMax", is_end, axis=1, keepdims=1), last)
        return graph.node("GatherND", hidden, position, batch_dims=1)

    def _equals(self, token: int) -> str:
        return self.graph.node("Equal", TOKENS, self.graph.constant(np.int32(token)))

    def _pool_attention(self, name: str, hidden: str) -> str:
        """Add what a learned query finds in patches, (n, width); see `AttentionPooling`."""
        graph, width = self.graph, self.image.hidden_size
        query = self._repeat(f"{name}.probe", width)
        weight, bias = graph.turned(f"{name}.attention.in_proj_weight"), graph.weight(f"{name}.attention.in_proj_bias")
        inputs = []
        for number, x in enumerate((query, hidden, hidden)):
            part = [graph.axes(number * width), graph.axes((number + 1) * width)]
            weights = graph.node("Slice", weight, *part, graph.axes(1))
            product = graph.node("MatMul", x, weights)
            inputs.append(graph.node("Add", product, graph.node("Slice", bias, *part, graph.axes(0))))
        attended = graph.linear(f"{name}.attention.out_proj", graph.attention(inputs, self.image))
        normal = graph.normalize(f"{name}.layernorm", attended, self.image.layer_norm_eps)
        return self._take(self._add_mlp(f"{name}.mlp", attended, normal, self.image), 0)

    def _pool_bert(self) -> str:
        """Add a BERT and the mean over tokens; a text without any has its start."""
        graph, nodes = self.graph, BertNodes(self.graph, self.recipe.text_shape, TOKENS)
        is_first = graph.constant(np.arange(self.recipe.length)[None] == 0)
        is_seen = graph.node("Or", graph.node("Not", self._equals(self.recipe.pad)), is_first)
        seen = graph.node("Cast", is_seen, to=TensorProto.FLOAT)
        missing = graph.node("Mul", graph.node("Sub", graph.one, seen), graph.constant(HIDDEN))
        hidden, mask = nodes.embed("embedding.text"), graph.unsqueeze(missing, 1, 2)
        for name in self._layers(TEXT):
            hidden = nodes.layer(name, hidden, mask)
        total = graph.node("ReduceSum", graph.node("Mul", hidden, graph.unsqueeze(seen, 2)), graph.axes(1), keepdims=0)
        return graph.node("Div", total, graph.node("ReduceSum", seen, graph.axes(1), keepdims=1))
