"""How long a step takes: matrix products, memory traffic, communication and the pipeline's bubble.

A kernel takes as long as its FLOPs at a share of the GPU's peak, or as its bytes at a share of the bandwidth. The
shares of `efficiency.yaml` are all that is not a data sheet's or a formula, and `published.py` says how far they go.
What small messages cost is in what many nodes wait for each other.
"""

from dataclasses import dataclass, replace
from math import log2

from nightshift_perf.planning.efficiency import Efficiency, efficiency
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout, TrainerKind
from nightshift_perf.planning.models import NF4, VALUE, Convolutions, LayerWork, Model, Transformer

# kernels of a layer's forward pass: projections, attention, and elementwise operations, which fusing takes together
KERNELS = {"fused": 14, "gated": 45, "plain": 25}
# shares of a forward pass's products, attention and traffic that are computed again
AGAIN = {
    Checkpointing.NONE: (0.0, 0, 0),
    Checkpointing.ATTENTION: (0.0, 1, 0),
    Checkpointing.SELECTIVE: (0.5, 0, 1),
    Checkpointing.FULL: (1.0, 1, 1),
}


@dataclass(frozen=True)
class Setup:
    """What is timed: a model in a layout on a cluster, whose GPUs reach some shares of their data sheets' figures."""

    model: Model
    cluster: Cluster
    layout: ParallelLayout
    shares: Efficiency


@dataclass(frozen=True)
class Timing:
    """Of a step, in seconds.

    Attributes:
        compute: of the micro-batches of a stage, one after the other.
        tensor: communication inside layers that computation does not hide.
        bubble: in which a stage waits for the others to fill and drain the pipeline.
        stages: communication between stages.
        data: communication between replicas that computation does not hide.
        optimizer: update of the parameters.
        waiting: for the slowest of the nodes.
    """

    compute: float
    tensor: float
    bubble: float
    stages: float
    data: float
    optimizer: float
    waiting: float = 0.0

    @property
    def step(self) -> float:
        """All of it."""
        parts: dict[str, float] = vars(self)
        return sum(parts.values())

    @property
    def communication(self) -> float:
        """What is communicated and not hidden."""
        return self.tensor + self.stages + self.data


def estimate(model: Model, cluster: Cluster, layout: ParallelLayout, shares: Efficiency | None = None) -> Timing:
    """Return how long a step takes; `shares` are those of the GPU's architecture, if they are left out."""
    setup = Setup(model, cluster, layout, shares or efficiency(cluster.gpu))
    count = layout.micro_batches(cluster)
    compute = max(layout.micro_batch * _compute_seconds(setup) + _unpack_seconds(setup), _launch_seconds(setup))
    tensor = layout.micro_batch * (_tensor(setup) + _context(setup))
    busy = count * (compute + tensor)
    return Timing(
        compute=count * compute,
        tensor=count * tensor,
        bubble=busy * bubble(layout, count),
        stages=_stages(setup),
        data=_data(setup, compute + tensor),
        optimizer=_optimizer(setup),
        waiting=busy * setup.shares.straggle * log2(cluster.nodes),
    )


def bubble(layout: ParallelLayout, micro_batches: int) -> float:
    """Return the bubble relative to the computation, (p - 1) / (v m) (Narayanan et al., 2021, section 2.2)."""
    return (layout.pipeline - 1) / (layout.interleave * micro_batches)


def model_flops(model: Model) -> float:
    """Return the FLOPs that a sample takes by the model's definition, forward and backward, nothing computed twice.

    The convention of MFU (Chowdhery et al., PaLM, 2022, appendix B): all pairs of the attention count.
    """
    layer = model.layer(fused=True)
    products = model.layers * layer.products + model.head(fused=True).products
    return count_passes(model) * products + 3 * model.layers * layer.attention


def count_passes(model: Model) -> int:
    """Return how often a product is computed: forward, for its input's gradient, and for a trained matrix's."""
    return 2 if model.lora_rank else 3


def mfu(model: Model, cluster: Cluster, layout: ParallelLayout, step: float) -> float:
    """Return the model FLOPs utilization of a step of so many seconds, 0..1."""
    return layout.batch * model_flops(model) / (step * cluster.gpus * cluster.gpu.peak(layout.precision))


def _compute_seconds(setup: Setup) -> float:
    """Return the seconds of a sample on a GPU of the fullest stage, forward and backward."""
    model, layout = setup.model, setup.layout
    layer = _passes(setup, model.layer(layout.fused), layout.checkpointing)
    # the head stays in 16 bits, and is not computed again
    sixteen = replace(layout, precision="bf16" if layout.precision == "fp8" else layout.precision)
    head = _passes(replace(setup, layout=sixteen), model.head(layout.fused), Checkpointing.NONE)
    # the last stage has the head and as many layers; frameworks give it fewer, so it is spread
    return (layout.stage_layers(model.layers) * layer + head / layout.pipeline) / layout.context


def _unpack_seconds(setup: Setup) -> float:
    """Return the seconds in which a micro-batch's matrices are unpacked from 4 bits, for each pass anew (QLoRA)."""
    model, layout = setup.model, setup.layout
    if model.lora_bits != 4:
        return 0.0
    passes = count_passes(model) + AGAIN[layout.checkpointing][0]
    unpacked = layout.stage_layers(model.layers) * model.layer(layout.fused).parameters / layout.tensor
    return passes * (NF4 + VALUE) * unpacked / (setup.shares.traffic * setup.cluster.gpu.bandwidth)


def _launch_seconds(setup: Setup) -> float:
    """Return the seconds in which the host launches a micro-batch's kernels: twice as many backward as forward."""
    model, layout = setup.model, setup.layout
    kind = "fused" if layout.fused else "gated" if isinstance(model, Transformer) and model.gated else "plain"
    passes = 3 + (AGAIN[layout.checkpointing][0] > 0)
    return setup.shares.launch * passes * KERNELS[kind] * layout.stage_layers(model.layers)


def _passes(setup: Setup, work: LayerWork, checkpointing: Checkpointing) -> float:
    """Return the seconds of a layer: forward, backward at twice as much, and what is computed again.

    Flash attention's backward pass has 5 products for the forward pass's 2 (Dao, FlashAttention-2, 2023).
    """
    layout, cluster = setup.layout, setup.cluster
    moved = work.moved_whole / layout.norm_shards + work.moved_split / layout.tensor
    moved += 0 if layout.flash else work.moved_scores / layout.tensor
    casts = work.moved_casts / layout.tensor if layout.precision == "fp8" else 0
    attention = work.attention / (2 if layout.flash and setup.model.causal else 1)
    products, attended, traffic = AGAIN[checkpointing]
    back = 2.5 if layout.flash else 2
    return (
        (count_passes(setup.model) + products) * work.products / layout.tensor / _product_rate(setup)
        + (1 + back + attended) * attention / layout.tensor / _attention_rate(setup)
        + ((3 + traffic) * moved + casts) / (setup.shares.traffic * cluster.gpu.bandwidth)
    )


def _product_rate(setup: Setup) -> float:
    """Return the FLOP/s of products with weights, or of convolutions."""
    layout, peak = setup.layout, setup.cluster.gpu.peak(setup.layout.precision)
    if isinstance(setup.model, Convolutions):
        return setup.shares.convolutions * peak
    return setup.shares.product(layout.precision, setup.model.hidden / layout.tensor) * peak


def _attention_rate(setup: Setup) -> float:
    """Return the FLOP/s of attention, which has no kernels in 8 bits; Megatron's are others than PyTorch's."""
    precision, shares = setup.layout.precision, setup.shares
    share = shares.megatron_attention if setup.layout.trainer is TrainerKind.MEGATRON else shares.attention
    return share * setup.cluster.gpu.peak("bf16" if precision == "fp8" else precision)


def _stages(setup: Setup) -> float:
    """Return the seconds in which stages send values and gradients, in as many parts as chunks.

    GPUs that share a layer or a sequence send a part each. With chunks, others are computed meanwhile.
    """
    layout, cluster = setup.layout, setup.cluster
    if layout.pipeline == 1:
        return 0.0
    sent = 2 * layout.interleave * layout.micro_batch * setup.model.activation_bytes_sent
    link = cluster.network if cluster.nodes > 1 else cluster.gpu.link
    seconds = layout.micro_batches(cluster) * sent / (layout.tensor * layout.context) / (link * setup.shares.links)
    return seconds * (setup.shares.data_exposed if layout.interleave > 1 else 1)


def _tensor(setup: Setup) -> float:
    """Return the seconds of a sample's all-reduces inside the layers of a stage that are not hidden.

    Two forward, two backward, two more where the forward pass is repeated, of 2 (t - 1) / t of the hidden values each
    (Narayanan et al., 2021, section 3.2); reduce-scatter and all-gather of sequence parallelism move as much.
    """
    model, cluster, layout, shares = setup.model, setup.cluster, setup.layout, setup.shares
    if layout.tensor == 1:
        return 0.0
    passes = 6 if AGAIN[layout.checkpointing][0] else 4
    sent = 2 * (layout.tensor - 1) / layout.tensor * model.activation_bytes_sent / layout.context
    link = cluster.gpu.link if layout.tensor <= cluster.per_node else cluster.network
    seconds = passes * layout.stage_layers(model.layers) * sent / (link * shares.links)
    return shares.tensor_exposed * seconds


def _context(setup: Setup) -> float:
    """Return the seconds in which the GPUs of a sequence exchange keys and values that are not hidden.

    Each sees the others' in the forward pass and again in the backward pass, where their gradients return (Liu et al.,
    Ring Attention with Blockwise Transformers, 2023).
    """
    model, cluster, layout, shares = setup.model, setup.cluster, setup.layout, setup.shares
    if layout.context == 1 or isinstance(model, Convolutions):
        return 0.0
    sent = 3 * 2 * model.activation_bytes_sent * (model.groups or model.heads) / model.heads / layout.tensor
    sent *= (layout.context - 1) / layout.context
    link = cluster.gpu.link if layout.tensor * layout.context <= cluster.per_node else cluster.network
    return shares.data_exposed * layout.stage_layers(model.layers) * sent / (link * shares.links)


def _data(setup: Setup, micro_batch: float) -> float:
    """Return the seconds of communication between replicas that are not hidden.

    Gradients of 2 bytes, of what is trained, are reduced once a step, those that are sharded in each micro-batch, and
    sharded parameters gathered once; with FSDP they are gathered for the forward and the backward pass of each
    micro-batch, and gradients of 4 bytes scattered. Copies of sharded states (HSDP) add up their gradients once a step.
    """
    model, cluster, layout, shares = setup.model, setup.cluster, setup.layout, setup.shares
    if layout.holders(cluster) == 1:
        return 0.0
    replicas = layout.shards(cluster)
    mine, trained = (number / (layout.tensor * layout.pipeline) for number in (model.parameters, model.trained))
    count = layout.micro_batches(cluster)
    gathered = 4 * count * mine if layout.zero == 3 else 0
    sent = (gathered + trained * (4, 4, 2 + 2 * count, 4 * count)[layout.zero]) * (replicas - 1) / replicas
    seconds = sent / (shares.links * _between(setup, replicas))
    copies = layout.holders(cluster) // replicas
    # a GPU reduces its own shard with those of the other copies
    seconds += 8 * trained / replicas * (copies - 1) / copies / (shares.links * cluster.network)
    beside = micro_batch * (count if layout.zero == 3 else 2 / 3)  # FSDP's beside all, gradients beside a backward pass
    return max(shares.data_exposed * seconds, seconds - (1 - shares.data_exposed) * beside)


def _between(setup: Setup, replicas: int) -> float:
    """Return the bytes/s of a replica's collectives: the link, or all network cards that its node's replicas have."""
    cluster, layout = setup.cluster, setup.layout
    inside = max(1, min(replicas, cluster.per_node // layout.tensor))
    if replicas <= inside:
        return cluster.gpu.link
    return min(cluster.gpu.link, inside * cluster.network)


def _optimizer(setup: Setup) -> float:
    """Return the seconds of Adam: it reads 16 bytes a parameter and writes 14."""
    cluster, layout = setup.cluster, setup.layout
    shards = layout.shards(cluster) if layout.zero else 1
    mine = setup.model.trained / (layout.tensor * layout.pipeline * shards)
    return 30 * mine / (setup.shares.traffic * cluster.gpu.bandwidth)
