"""One copy of a model on the GPUs of a node: its memory, and the seconds of a forward pass.

A kernel takes as long as its FLOPs at a share of the peak or its bytes at a share of the bandwidth, whichever is more
(Williams et al., Roofline, 2009), after a start that no share describes. Tensor parallelism as in Narayanan et al.,
2021: two all-reduces a layer.
"""

from dataclasses import dataclass
from functools import cached_property

from nightshift_perf.hardware import Gpu
from nightshift_perf.planning.models import VALUE, Transformer
from nightshift_perf.planning.serving.efficiency import ServingEfficiency, find_efficiency

MEMORY_SHARE = 0.9  # share of a GPU's memory that vLLM takes (its gpu_memory_utilization)
WORKSPACE = 3e9  # bytes of a step's activations, CUDA graphs and NCCL
PASSES = 8  # passes over the hidden values by two norms with their residual sums
KERNELS = 3  # two norms and the activation


@dataclass(frozen=True)
class ServingPrecision:
    """How the layers of a model are kept and computed; embeddings and sums stay in bf16.

    Attributes:
        weight: bytes of a weight, with its share of the scales.
        cached: bytes of a value of the cache.
        products: precision of the matrix products.
        is_fitted: whether servers of this precision were fitted.
    """

    weight: float
    cached: float
    products: str
    is_fitted: bool = True


PRECISIONS = {
    "bf16": ServingPrecision(weight=2, cached=2, products="bf16"),
    "fp8": ServingPrecision(weight=1, cached=1, products="fp8"),
    # 4 bits, and 20 of scale and offset for each group of 128 weights, as AWQ and GPTQ write them
    "int4": ServingPrecision(weight=(4 + 20 / 128) / 8, cached=2, products="bf16", is_fitted=False),
}


@dataclass(frozen=True)
class ForwardPass:
    """What a forward pass computes; numbers of requests are means, so they need not be whole.

    Attributes:
        prompt: tokens of each prompt that it reads; 0 without.
        decoding: requests that get their next token.
        context: mean number of tokens that these have behind them.
        prompts: prompts that it reads.
    """

    prompt: int
    decoding: float
    context: float = 0
    prompts: float = 1

    @property
    def rows(self) -> float:
        """Tokens that pass the layers."""
        return self.prompts * self.prompt + self.decoding

    @property
    def samples(self) -> float:
        """Tokens that are sampled."""
        return self.decoding + (self.prompts if self.prompt else 0)


@dataclass(frozen=True)
class ServingReplica:
    """A copy of a model.

    Attributes:
        model: its sizes.
        gpu: kind of GPU.
        precision: a key of `PRECISIONS`.
        tensor: GPUs that share each layer.
    """

    model: Transformer
    gpu: Gpu
    precision: str
    tensor: int

    @cached_property
    def efficiency(self) -> ServingEfficiency:
        """What the GPU reaches of its data sheet."""
        return find_efficiency(self.gpu)

    @property
    def kept(self) -> ServingPrecision:
        """How its layers are kept and computed."""
        return PRECISIONS[self.precision]

    @property
    def is_fitted(self) -> bool:
        """Whether servers of its architecture and precision were fitted."""
        return self.efficiency.is_fitted and self.kept.is_fitted

    @property
    def weights(self) -> float:
        """Bytes of weights on each GPU."""
        layers = self.model.parameters - self.model.embeddings
        return (layers * self.kept.weight + self.model.embeddings * VALUE) / self.tensor

    @property
    def token_bytes(self) -> float:
        """Bytes of keys and values of a token on each GPU."""
        return 2 * self.model.key_width * self.model.layers * self.kept.cached / self.tensor

    @property
    def cache_tokens(self) -> int:
        """Tokens that fit in the cache; 0 if the weights leave no room."""
        free = MEMORY_SHARE * self.gpu.memory - WORKSPACE - self.weights
        return max(0, int(free / self.token_bytes))

    def estimate_seconds(self, step: ForwardPass) -> float:
        """Return the seconds of a forward pass."""
        model = self.model
        layer = self._products(step) + self._elementwise(step) + self._attention(step) + self._collectives(step)
        head = self._product(step.samples, model.hidden, self._share(model.vocabulary), PRECISIONS["bf16"])
        return model.layers * layer + head

    @property
    def _traffic(self) -> float:
        return self.gpu.bandwidth * self.efficiency.traffic

    def _share(self, width: float) -> float:
        return width / self.tensor

    def _products(self, step: ForwardPass) -> float:
        """Return the seconds of a layer's products: queries with keys and values, output, gate with up, down."""
        model = self.model
        query, inner = self._share(model.query_width + 2 * model.key_width), self._share(model.feed_forward)
        shapes = (
            (model.hidden, query),
            (self._share(model.query_width), model.hidden),
            (model.hidden, 2 * inner),
            (inner, model.hidden),
        )
        return sum(self._product(step.rows, width, outputs, self.kept) for width, outputs in shapes)

    def _product(self, rows: float, width: float, outputs: float, kept: ServingPrecision) -> float:
        """Return the seconds of a product of (rows, width) with (width, outputs)."""
        shares = self.efficiency
        rate = self.gpu.peak(kept.products) * shares.products.get(kept.products, shares.products["bf16"])
        moved = width * outputs * kept.weight + VALUE * rows * (width + outputs)
        seconds = shares.kernel + max(2 * rows * width * outputs / rate, moved / self._traffic)
        if kept.products != "fp8":
            return seconds
        return seconds + shares.kernel + shares.quantization * rows * width / self._traffic

    def _elementwise(self, step: ForwardPass) -> float:
        """Return the seconds of norms, which every GPU computes whole, and of the activation, which they share."""
        values = PASSES * self.model.hidden + 3 * self._share(self.model.feed_forward)
        return KERNELS * self.efficiency.kernel + VALUE * step.rows * values / self._traffic

    def _attention(self, step: ForwardPass) -> float:
        """Return the seconds of attention: a prompt computes half of all pairs, decoding reads the cache."""
        shares, seconds = self.efficiency, 0.0
        if step.prompt:
            flops = 2 * step.prompts * step.prompt**2 * self._share(self.model.query_width)
            seconds += shares.prompt + flops / (self.gpu.peak("bf16") * shares.attention)
        if step.decoding:
            cache = step.decoding * step.context * self.token_bytes / self.model.layers
            seconds += shares.decode + cache / self._traffic
        return seconds

    def _collectives(self, step: ForwardPass) -> float:
        """Return the seconds of two all-reduces, in which 2 (t - 1) / t of the hidden values pass each link."""
        if self.tensor == 1:
            return 0.0
        sent = 2 * (self.tensor - 1) / self.tensor * VALUE * step.rows * self.model.hidden
        return 2 * (self.efficiency.collective + sent / (self.gpu.link * self.efficiency.links))
