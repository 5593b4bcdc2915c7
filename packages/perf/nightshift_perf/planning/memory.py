"""What a GPU has to hold: parameters, gradients, optimizer and activations, in bytes.

Model states are counted as DeepSpeed's and Megatron's implementations hold them: parameters and gradients in 2 bytes,
gradients, parameters and Adam's two moments in 4 bytes each. DeepSpeed: `estimate_zero2_model_states_mem_needs` and
`estimate_zero3_model_states_mem_needs` of 0.19.8; Megatron: 18 bytes a parameter, with its distributed optimizer
6 + 12 / replicas. The paper's own table (Rajbhandari et al., ZeRO, 2020) is smaller by the 4-byte gradients.
"""

from dataclasses import dataclass

from nightshift_perf.planning import native
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout, TrainerKind
from nightshift_perf.planning.models import NF4, VALUE, LayerWork, Model, Transformer

GIB = 2**30
CONTEXT = 1.5e9  # bytes of CUDA, NCCL and the allocator's rounding


@dataclass(frozen=True)
class Memory:
    """Of the fullest GPU, in bytes.

    Attributes:
        states: parameters, gradients and optimizer.
        activations: kept for the backward pass.
        context: what the libraries take.
    """

    states: float
    activations: float
    context: float = CONTEXT

    @property
    def total(self) -> float:
        """All of it."""
        return self.states + self.activations + self.context


def estimate_memory(model: Model, cluster: Cluster, layout: ParallelLayout) -> Memory:
    """Return what the fullest GPU, that of the first pipeline stage, holds."""
    if layout.trainer is TrainerKind.NATIVE and isinstance(model, Transformer):
        return Memory(native.states(model, cluster, layout), native.activations(model, cluster, layout))
    return Memory(states(model, layout, layout.shards(cluster)), activations(model, cluster, layout))


def states(model: Model, layout: ParallelLayout, replicas: int) -> float:
    """Return the bytes of parameters, gradients and optimizer on one GPU.

    Args:
        model: the model.
        layout: how it is laid out.
        replicas: GPUs that hold the same parameters.
    """
    stage = (model.parameters - model.embeddings) * layout.stage_layers(model.layers) / model.layers
    mine = (stage + model.embeddings / min(layout.pipeline, 2)) / layout.tensor
    if isinstance(model, Transformer) and model.lora_rank:
        adapters = model.adapters * layout.stage_layers(model.layers) / layout.tensor
        frozen = (
            NF4 * stage / layout.tensor + VALUE * (mine - stage / layout.tensor) if model.lora_bits == 4 else 2 * mine
        )
        return (frozen / replicas if layout.zero == 3 else frozen) + 18 * adapters
    if layout.zero == 0:
        return 18 * mine
    if layout.zero == 1:
        return (6 + 12 / replicas) * mine
    if layout.zero == 2:
        return (2 + 18 / replicas) * mine
    return 18 * mine / replicas + 4 * model.largest / layout.tensor


def activations(model: Model, cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the bytes that are kept on one GPU."""
    head = model.head(layout.fused).kept_split / layout.tensor
    layer = count_kept_bytes(model, model.layer(layout.fused), layout)
    layers = layout.stage_layers(model.layers)
    held = layers * layer + head  # the loss is computed by the last stage, which holds one micro-batch only
    if layout.pipeline > 1:
        # where layers are missing, the first stage and the last one, beside embedding and head, have one less
        first = layers - (layout.pipeline * layers - model.layers >= 2)
        earlier, later = (layout.held_micro_batches(cluster, rank) for rank in (0, 1))
        held = max(held, earlier * first * layer, later * layers * layer)
    return layout.micro_batch * held / layout.context


def count_kept_bytes(model: Model, layer: LayerWork, layout: ParallelLayout) -> float:
    """Return the bytes that a layer keeps of a sample, on one GPU."""
    if layout.checkpointing is Checkpointing.FULL:
        return model.activation_bytes_sent / layout.norm_shards
    whole, split = layer.kept_whole / layout.norm_shards, layer.kept_split / layout.tensor
    if layout.checkpointing is Checkpointing.SELECTIVE:
        return (whole + split) / 2
    is_scoreless = layout.flash or layout.checkpointing is Checkpointing.ATTENTION
    return whole + split + (0 if is_scoreless else layer.kept_scores / layout.tensor)
