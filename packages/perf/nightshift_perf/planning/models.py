"""What a training sample costs a model, layer by layer: parameters, FLOPs, bytes moved and bytes kept.

Counts are of a forward pass of one sample. Matrix products: Narayanan et al., Efficient Large-Scale Language Model
Training on GPU Clusters Using Megatron-LM, 2021, appendix. Kept activations: Korthikanti et al., Reducing Activation
Recomputation in Large Transformer Models, 2022, equations 1 to 4, with gated and grouped layers counted the same way.
Bytes moved: how often elementwise operations read and write a value of 2 bytes, operation by operation.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError, nearest

TABLE = Path(__file__).with_name("models.yaml")
VALUE = 2  # bytes, fp16 or bf16
NF4 = 0.5 + 4 / 64  # bytes of a number in 4 bits, with a scale in 4 bytes for 64 of them (Dettmers et al., QLoRA, 2023)
CAST = 6  # bytes for a value that is cast to 8 bits: read for the scale and to be cast, written as it is and transposed


@dataclass(frozen=True)
class LayerWork:
    """Of a layer, for one sample.

    Attributes:
        parameters: of the layer.
        products: FLOPs of the matrix products with weights.
        attention: FLOPs of the scores and their product with the values, all pairs counted.
        moved_whole: bytes of elementwise operations that tensor parallelism repeats on every GPU.
        moved_split: bytes of those that it divides.
        moved_casts: bytes of what casts the products' inputs and their gradients to 8 bits, where they are in FP8.
        moved_scores: bytes of softmax and dropout over the scores, where they are written to memory.
        kept_whole: bytes kept for the backward pass on every GPU of a tensor-parallel group.
        kept_split: bytes kept by the whole group.
        kept_scores: bytes of the scores, where they are kept.
    """

    parameters: float = 0
    products: float = 0
    attention: float = 0
    moved_whole: float = 0
    moved_split: float = 0
    moved_casts: float = 0
    moved_scores: float = 0
    kept_whole: float = 0
    kept_split: float = 0
    kept_scores: float = 0


@dataclass(frozen=True)
class Transformer:
    """A transformer.

    Attributes:
        layers: how many.
        hidden: width.
        heads: of the attention.
        feed_forward: inner width.
        vocabulary: tokens.
        sequence: tokens a sample.
        groups: heads of keys and values; 0: as many as `heads`.
        gated: SwiGLU, RMSNorm, rotary positions, no biases or dropout (Llama); else GELU, LayerNorm (GPT, BERT).
        causal: whether a token sees earlier ones only.
        tied: whether input and output share their embedding.
        head_dim: width of a head; 0: `hidden / heads`.
        lora_rank: of adapters beside all matrices of the layers, which alone are trained (LoRA); 0: everything is.
        lora_bits: of a number of these matrices: 4 is NF4 (QLoRA), 32 what the trainer keeps weights in.
    """

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int
    sequence: int
    groups: int = 0
    gated: bool = False
    causal: bool = True
    tied: bool = False
    head_dim: int = 0
    lora_rank: int = 0
    lora_bits: int = 32

    @property
    def tokens(self) -> int:
        """Units of a sample that throughput is counted in."""
        return self.sequence

    @property
    def query_width(self) -> int:
        """Width of the queries of a token, all heads together."""
        return self.heads * self.head_dim or self.hidden

    @property
    def key_width(self) -> float:
        """Width of the keys of a token, which is that of its values too."""
        return self.query_width * (self.groups or self.heads) / self.heads

    def layer(self, fused: bool) -> LayerWork:
        """Return one layer's work; `fused`: elementwise operations run as few kernels (torch.compile, Megatron)."""
        hidden, inner, tokens = self.hidden, self.feed_forward, self.sequence
        queries, keys = self.query_width, self.key_width
        matrices = 2 * hidden * (queries + keys) + (3 if self.gated else 2) * hidden * inner
        vectors = 2 * hidden if self.gated else 5 * hidden + queries + 2 * keys + inner + hidden
        masks = 0 if self.gated else 2 * hidden  # dropout's masks, a byte a value
        return LayerWork(
            parameters=matrices + vectors,
            products=2 * tokens * matrices,
            attention=4 * tokens * tokens * queries,
            # two norms and two residual sums; in eager PyTorch an RMSNorm casts to fp32 and back over six kernels
            moved_whole=VALUE * tokens * hidden * (8 if fused else 42 if self.gated else 12),
            moved_split=VALUE * tokens * self._split_passes(fused),
            moved_casts=CAST * tokens * (4 * hidden + 2 * queries + 2 * keys + (4 if self.gated else 2) * inner),
            moved_scores=VALUE * tokens * tokens * self.heads * 5,
            kept_whole=tokens * (8 * hidden + masks),
            # a fused gate keeps its two inputs and its output
            kept_split=VALUE * tokens * (2 * queries + 2 * keys + (2 if not self.gated else 3 if fused else 4) * inner),
            kept_scores=5 * self.heads * tokens * tokens,
        )

    def _split_passes(self, fused: bool) -> float:
        """Return how many values per token the activation, and rotary positions, read and write."""
        if not self.gated:
            return (2 if fused else 4) * self.feed_forward
        return (2 if fused else 10) * (self.query_width + self.key_width) + (3 if fused else 5) * self.feed_forward

    def head(self, fused: bool) -> LayerWork:
        """Return the work of the output layer and the loss, whose values have 4 bytes.

        A fused loss casts logits to 4 bytes, and writes their gradient where they were.
        """
        logits = self.sequence * self.vocabulary
        return LayerWork(
            products=2 * logits * self.hidden,
            moved_split=VALUE * logits * (9 if fused else 14),
            kept_split=(4 if fused else VALUE + 4 + 4) * logits,
        )

    @property
    def embeddings(self) -> float:
        """Parameters outside the layers."""
        positions = 0 if self.gated else self.sequence
        return ((1 if self.tied else 2) * self.vocabulary + positions + 1) * self.hidden

    @property
    def parameters(self) -> float:
        """All of them."""
        return self.layers * self.layer(fused=True).parameters + self.embeddings

    @property
    def adapters(self) -> float:
        """Parameters of a layer's adapters: `lora_rank` rows and columns for each matrix (Hu et al., LoRA, 2021)."""
        attention = 4 * self.hidden + 2 * (self.query_width + self.key_width)
        return self.lora_rank * (attention + (3 if self.gated else 2) * (self.hidden + self.feed_forward))

    @property
    def trained(self) -> float:
        """Parameters that are trained."""
        return self.layers * self.adapters if self.lora_rank else self.parameters

    @property
    def largest(self) -> float:
        """Parameters of the largest single matrix, which is gathered whole where parameters are sharded."""
        return self.hidden * max(self.vocabulary, self.feed_forward)

    @property
    def activation_bytes_sent(self) -> float:
        """Bytes of a sample's hidden values, which tensor and pipeline parallelism send."""
        return VALUE * self.sequence * self.hidden


@dataclass(frozen=True)
class Convolutions:
    """A convolutional network, as one layer.

    Attributes:
        weights: parameters.
        operations: FLOPs of the convolutions.
        values: outputs of the convolutions of an image.
    """

    weights: float
    operations: float
    values: float
    layers: int = 1
    tokens: int = 1
    heads: int = 1
    causal: bool = False
    activation_bytes_sent: float = 0.0
    lora_rank: int = 0
    lora_bits: int = 32

    def layer(self, fused: bool) -> LayerWork:
        """Return the work of all: batch norm reads twice and writes, ReLU reads and writes, beside the convolution."""
        passes = 5 if fused else 7
        return LayerWork(
            parameters=self.weights,
            products=self.operations,
            moved_whole=VALUE * passes * self.values,
            kept_whole=3 * VALUE * self.values,
        )

    def head(self, fused: bool) -> LayerWork:  # noqa: ARG002 - as a transformer's
        """Return nothing: the classifier is part of the layer."""
        return LayerWork()

    @property
    def parameters(self) -> float:
        """All of them."""
        return self.weights

    @property
    def trained(self) -> float:
        """Parameters that are trained."""
        return self.weights

    @property
    def largest(self) -> float:
        """Parameters of the largest single layer: the classifier's."""
        return min(self.weights, 2048 * 1000)

    @property
    def embeddings(self) -> float:
        """Parameters outside the layers."""
        return 0


Model = Transformer | Convolutions


@functools.cache
def _presets() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = strict_yaml.load_document(TABLE.read_text())
    return table


def preset(name: str, **changed: int) -> Model:
    """Return a shape by its name, with other values where they are given.

    Raises:
        UserError: when there is none of that name, or it has no such value.
    """
    known = _presets()
    if name not in known:
        raise UserError(
            f"model {name!r} is not known; known: {', '.join(known)}{nearest(name, known)}, or give its sizes"
        )
    row = known[name]
    if "hidden" in row:
        return Transformer(**row | changed)
    if changed:
        raise UserError(f"{', '.join(changed)} cannot be changed for {name}, which is no transformer; leave it out")
    return Convolutions(**row)
