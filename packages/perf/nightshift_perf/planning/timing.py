"""How long a step takes: matrix products, memory traffic, communication and the pipeline's bubble.

A kernel takes as long as its FLOPs at a share of the GPU's peak, or as its bytes at a share of the bandwidth. The
shares of `efficiency.yaml` are all that is not a data sheet's or a formula, and `published.py` says how far they go.
Messages are large, so that latency is left out.
"""

from dataclasses import dataclass, replace

from nightshift_perf.planning.efficiency import Efficiency, efficiency
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout
from nightshift_perf.planning.models import Convolutions, LayerWork, Model

# shares of a forward pass's products, attention and traffic that are computed again
AGAIN = {
    Checkpointing.NONE: (0.0, 0, 0),
    Checkpointing.ATTENTION: (0.0, 1, 0),
    Checkpointing.SELECTIVE: (0.5, 0, 1),
    Checkpointing.FULL: (1.0, 1, 1),
}


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
    """

    compute: float
    tensor: float
    bubble: float
    stages: float
    data: float
    optimizer: float

    @property
    def step(self) -> float:
        """All of it."""
        return self.compute + self.tensor + self.bubble + self.stages + self.data + self.optimizer

    @property
    def communication(self) -> float:
        """What is communicated and not hidden."""
        return self.tensor + self.stages + self.data


def estimate(model: Model, cluster: Cluster, layout: ParallelLayout) -> Timing:
    """Return how long a step takes."""
    count = layout.micro_batches(cluster)
    compute = layout.micro_batch * _compute_seconds(model, cluster, layout)
    tensor = layout.micro_batch * (_tensor(model, cluster, layout) + _context(model, cluster, layout))
    stages = 0.0
    if layout.pipeline > 1:
        # there and back, in as many parts as chunks; GPUs that share a layer or a sequence send a part each
        sent = (
            2 * layout.interleave * layout.micro_batch * model.activation_bytes_sent / (layout.tensor * layout.context)
        )
        stages = count * sent / (cluster.network * efficiency(cluster.gpu).links)
    busy = count * (compute + tensor)
    return Timing(
        compute=count * compute,
        tensor=count * tensor,
        bubble=busy * bubble(layout, count),
        stages=stages,
        data=_data(model, cluster, layout, compute + tensor),
        optimizer=_optimizer(model, cluster, layout),
    )


def bubble(layout: ParallelLayout, micro_batches: int) -> float:
    """Return the bubble relative to the computation, (p - 1) / (v m) (Narayanan et al., 2021, section 2.2)."""
    return (layout.pipeline - 1) / (layout.interleave * micro_batches)


def model_flops(model: Model) -> float:
    """Return the FLOPs that a sample takes by the model's definition, forward and backward, nothing computed twice.

    The convention of MFU (Chowdhery et al., PaLM, 2022, appendix B): all pairs of the attention count.
    """
    layer = model.layer(fused=True)
    return 3 * (model.layers * (layer.products + layer.attention) + model.head(fused=True).products)


def mfu(model: Model, cluster: Cluster, layout: ParallelLayout, step: float) -> float:
    """Return the model FLOPs utilization of a step of so many seconds, 0..1."""
    return layout.batch * model_flops(model) / (step * cluster.gpus * cluster.gpu.peak(layout.precision))


def _compute_seconds(model: Model, cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the seconds of a sample on a GPU of the fullest stage, forward and backward."""
    layer = _passes(model.layer(layout.fused), model, cluster, layout, layout.checkpointing)
    # the head stays in 16 bits, and is not computed again
    sixteen = replace(layout, precision="bf16" if layout.precision == "fp8" else layout.precision)
    head = _passes(model.head(layout.fused), model, cluster, sixteen, Checkpointing.NONE)
    # the last stage has the head and as many layers; frameworks give it fewer, so it is spread
    return (layout.stage_layers(model.layers) * layer + head / layout.pipeline) / layout.context


def _passes(
    work: LayerWork, model: Model, cluster: Cluster, layout: ParallelLayout, checkpointing: Checkpointing
) -> float:
    """Return the seconds of a layer: forward, backward at twice as much, and what is computed again.

    Flash attention's backward pass has 5 products for the forward pass's 2 (Dao, FlashAttention-2, 2023).
    """
    shares = efficiency(cluster.gpu)
    moved = work.moved_whole / layout.norm_shards + work.moved_split / layout.tensor
    moved += 0 if layout.flash else work.moved_scores / layout.tensor
    attention = work.attention / (2 if layout.flash and model.causal else 1)
    products, attended, traffic = AGAIN[checkpointing]
    back = 2.5 if layout.flash else 2
    return (
        (3 + products) * work.products / layout.tensor / _product_rate(shares, model, cluster, layout)
        + (1 + back + attended) * attention / layout.tensor / _attention_rate(shares, cluster, layout)
        + (3 + traffic) * moved / (shares.traffic * cluster.gpu.bandwidth)
    )


def _product_rate(shares: Efficiency, model: Model, cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the FLOP/s of products with weights, or of convolutions."""
    peak = cluster.gpu.peak(layout.precision)
    if isinstance(model, Convolutions):
        return shares.convolutions * peak
    return shares.product(layout.precision, model.hidden / layout.tensor) * peak


def _attention_rate(shares: Efficiency, cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the FLOP/s of attention, which has no kernels in 8 bits."""
    return shares.attention * cluster.gpu.peak("bf16" if layout.precision == "fp8" else layout.precision)


def _tensor(model: Model, cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the seconds of a sample's all-reduces inside the layers of a stage that are not hidden.

    Two forward, two backward, two more where the forward pass is repeated, of 2 (t - 1) / t of the hidden values each
    (Narayanan et al., 2021, section 3.2); reduce-scatter and all-gather of sequence parallelism move as much.
    """
    if layout.tensor == 1:
        return 0.0
    shares = efficiency(cluster.gpu)
    passes = 6 if AGAIN[layout.checkpointing][0] else 4
    sent = 2 * (layout.tensor - 1) / layout.tensor * model.activation_bytes_sent / layout.context
    link = cluster.gpu.link if layout.tensor <= cluster.per_node else cluster.network
    seconds = passes * layout.stage_layers(model.layers) * sent / (link * shares.links)
    return shares.tensor_exposed * seconds


def _context(model: Model, cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the seconds in which the GPUs of a sequence exchange keys and values that are not hidden.

    Each sees the others' in the forward pass and again in the backward pass, where their gradients return (Liu et al.,
    Ring Attention with Blockwise Transformers, 2023).
    """
    if layout.context == 1 or isinstance(model, Convolutions):
        return 0.0
    shares = efficiency(cluster.gpu)
    sent = 3 * 2 * model.activation_bytes_sent * (model.groups or model.heads) / model.heads / layout.tensor
    sent *= (layout.context - 1) / layout.context
    link = cluster.gpu.link if layout.tensor * layout.context <= cluster.per_node else cluster.network
    return shares.data_exposed * layout.stage_layers(model.layers) * sent / (link * shares.links)


def _data(model: Model, cluster: Cluster, layout: ParallelLayout, micro_batch: float) -> float:
    """Return the seconds of communication between replicas that are not hidden.

    Gradients of 2 bytes are reduced once a step, those that are sharded in each micro-batch, and sharded parameters
    gathered once; with FSDP they are gathered for the forward and the backward pass of each micro-batch, and gradients
    of 4 bytes scattered. Copies of sharded states (HSDP) add up their gradients once a step.
    """
    if layout.holders(cluster) == 1:
        return 0.0
    replicas = layout.shards(cluster)
    shares = efficiency(cluster.gpu)
    mine = model.parameters / (layout.tensor * layout.pipeline)
    count = layout.micro_batches(cluster)
    sent = mine * (replicas - 1) / replicas * (4, 4, 2 + 2 * count, 8 * count)[layout.zero]
    seconds = sent / (shares.links * _between(cluster, layout, replicas))
    copies = layout.holders(cluster) // replicas
    # a GPU reduces its own shard with those of the other copies
    seconds += 8 * mine / replicas * (copies - 1) / copies / (shares.links * cluster.network)
    beside = micro_batch * (count if layout.zero == 3 else 2 / 3)  # FSDP's beside all, gradients beside a backward pass
    return max(shares.data_exposed * seconds, seconds - (1 - shares.data_exposed) * beside)


def _between(cluster: Cluster, layout: ParallelLayout, replicas: int) -> float:
    """Return the bytes/s of a replica's collectives: the link, or all network cards that its node's replicas have."""
    inside = max(1, min(replicas, cluster.per_node // layout.tensor))
    return cluster.gpu.link if replicas <= inside else min(cluster.gpu.link, inside * cluster.network)


def _optimizer(model: Model, cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the seconds of Adam: it reads 16 bytes a parameter and writes 14."""
    shards = layout.shards(cluster) if layout.zero else 1
    mine = model.parameters / (layout.tensor * layout.pipeline * shards)
    return 30 * mine / (efficiency(cluster.gpu).traffic * cluster.gpu.bandwidth)
