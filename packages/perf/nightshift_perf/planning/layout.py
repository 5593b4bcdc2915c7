"""How a training is laid out on a cluster."""

from dataclasses import dataclass
from enum import StrEnum

from nightshift.runtime.errors import UserError
from nightshift_perf.hardware import Gpu
from nightshift_perf.planning.models import Convolutions, Model, Transformer

SPLITS = ("tensor", "pipeline", "interleave", "context")


class TrainerKind(StrEnum):
    """Whose training is planned: its memory and its layouts."""

    NATIVE = "native"  # Nightshift's: states in float32, the loss piece by piece
    MEGATRON = "megatron"
    DEEPSPEED = "deepspeed"
    FSDP = "fsdp"  # PyTorch's, as torchtitan and llm-foundry use it


class Checkpointing(StrEnum):
    """Which activations are computed again in the backward pass instead of being kept."""

    NONE = "none"
    ATTENTION = "attention"  # the attention's scores (Megatron's selective recomputation)
    SELECTIVE = "selective"  # all but the attention and every second matrix product (PyTorch's selective checkpointing)
    FULL = "full"  # all but a layer's input


@dataclass(frozen=True)
class Cluster:
    """GPUs in nodes.

    Attributes:
        gpu: their kind.
        nodes: how many.
        per_node: GPUs of a node.
        network: of a GPU to other nodes, bytes/s in each direction.
    """

    gpu: Gpu
    nodes: int
    per_node: int
    network: float

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.nodes * self.per_node


@dataclass(frozen=True)
class ParallelLayout:
    """A strategy.

    Attributes:
        batch: samples of a step, over all GPUs.
        micro_batch: samples that a GPU, or a tensor-parallel group, computes at once.
        tensor: GPUs that share a layer (TP).
        pipeline: stages (PP); layers that they do not divide leave some stages with one layer less.
        interleave: chunks of layers of a stage.
        context: GPUs that share a sequence (CP).
        zero: 0 nothing, 1 optimizer, 2 and gradients, 3 and parameters (FSDP) sharded over the data-parallel GPUs.
        shard: how many of these share one copy of the states, with FSDP (HSDP if not all); 0: all.
        checkpointing: which activations are computed again.
        sequence_parallel: whether norms are split over the tensor-parallel GPUs too, as the published trainers can.
        flash: whether attention keeps its scores on the chip, and skips those of later tokens.
        fused: whether elementwise operations are compiled into few kernels.
        precision: of the matrix products.
        trainer: whose it is.
        copies: of the trained weights that Nightshift's keeps beside them: one for `keep: best`, one for `ema_decay`.
    """

    batch: int
    micro_batch: int = 1
    tensor: int = 1
    pipeline: int = 1
    interleave: int = 1
    context: int = 1
    zero: int = 0
    shard: int = 0
    checkpointing: Checkpointing = Checkpointing.NONE
    sequence_parallel: bool = False
    flash: bool = True
    fused: bool = True
    precision: str = "bf16"
    trainer: TrainerKind = TrainerKind.NATIVE
    copies: int = 0

    def data(self, cluster: Cluster) -> int:
        """Return the number of data-parallel replicas."""
        return cluster.gpus // (self.tensor * self.context * self.pipeline)

    def holders(self, cluster: Cluster) -> int:
        """Return the number of GPUs that hold the same parameters, whole or sharded."""
        return self.data(cluster) * self.context

    def shards(self, cluster: Cluster) -> int:
        """Return the number of GPUs between which states are sharded."""
        return self.shard or self.holders(cluster)

    def stage_layers(self, layers: int) -> int:
        """Return the layers of the fullest stage."""
        return self.interleave * -(-layers // (self.pipeline * self.interleave))

    def micro_batches(self, cluster: Cluster) -> int:
        """Return how many a replica computes in a step."""
        return self.batch // (self.data(cluster) * self.micro_batch)

    def held_micro_batches(self, cluster: Cluster, rank: int = 0) -> float:
        """Return how many micro-batches' activations a pipeline stage keeps at most.

        1F1B keeps as many in the first stage as there are stages, and one less in each one after it; interleaved 1F1B
        keeps a share (p - 1) / (p v) more (Narayanan et al., 2021, section 2.2).
        """
        more = 1 + (self.pipeline - 1) / (self.pipeline * self.interleave) if self.interleave > 1 else 1
        return more * min(self.micro_batches(cluster), self.pipeline - rank)

    @property
    def norm_shards(self) -> int:
        """Number of GPUs that share the norms of a layer."""
        return self.tensor if self.sequence_parallel else 1


def check(model: Model, cluster: Cluster, layout: ParallelLayout) -> None:
    """Refuse a layout that cannot be.

    Raises:
        UserError: naming the field, its value and what is allowed.
    """
    cluster.gpu.peak(layout.precision)
    for name, value in _positive(cluster, layout).items():
        if value < 1:
            raise UserError(f"{name} is {value}; give 1 or more")
    if isinstance(model, Convolutions) and max(layout.tensor, layout.context, layout.pipeline) > 1:
        raise UserError("tensor, context and pipeline are for transformers; leave them out")
    if layout.zero not in range(4):
        raise UserError(f"zero is {layout.zero}; give 0, 1, 2 or 3 (FSDP)")
    if layout.shard and layout.zero != 3:
        raise UserError(f"shard is {layout.shard} with zero {layout.zero}; give zero 3 (FSDP) with it, or leave it out")
    for name, count in _list_shared(model).items():
        _divides("tensor", layout.tensor, f"the model's {name}", count)
    _divides("context", layout.context, "the model's sequence", model.tokens)
    _divides("tensor x context x pipeline", layout.tensor * layout.context * layout.pipeline, "the GPUs", cluster.gpus)
    _divides("replicas x micro_batch", layout.data(cluster) * layout.micro_batch, "batch", layout.batch)
    _divides("shard", layout.shards(cluster), "the GPUs with the same parameters", layout.holders(cluster))
    _check_pipeline(model, layout, layout.micro_batches(cluster))
    _check_trainer(model, cluster, layout)


def _list_shared(model: Model) -> dict[str, int]:
    """Return what of a model the GPUs that share a layer divide."""
    if isinstance(model, Convolutions):
        return {"heads": model.heads}
    return {"heads": model.heads, "key and value heads": model.groups or model.heads, "units": model.feed_forward}


def _check_trainer(model: Model, cluster: Cluster, layout: ParallelLayout) -> None:
    """Refuse what the trainer does not do."""
    if layout.trainer is TrainerKind.NATIVE:
        _check_native(model, cluster, layout)
    if layout.trainer is TrainerKind.DEEPSPEED and layout.zero > 1 and layout.pipeline > 1:
        raise UserError(f"zero is {layout.zero} beside pipeline, which DeepSpeed does not do: give 0 or 1")


def _check_native(model: Model, cluster: Cluster, layout: ParallelLayout) -> None:
    """Refuse what Nightshift's trainer does not do."""
    zero, micro_batches = layout.zero, layout.micro_batches(cluster)
    is_split = layout.tensor * layout.context * layout.pipeline > 1
    is_llama = isinstance(model, Transformer) and model.gated
    is_whole = layout.tensor == 1 and zero == 0
    refusals = {
        "lora_rank is for Llama-like models in this trainer; leave it out": model.lora_rank > 0 and not is_llama,
        "lora_bits is 4, and matrices in 4 bits are not split: give tensor 1 and zero 0": (
            model.lora_bits == 4 and not is_whole
        ),
        "zero is 1; the trainer has 0, 2 and 3 (FSDP): give one of these": zero == 1,
        "zero is 2 beside tensor, pipeline or context, which the trainer does not do: give 0 or 3": (
            zero == 2 and is_split
        ),
        f"context is {layout.context} with zero {zero}; the trainer shares parameters with it: give zero 3": (
            layout.context > 1 and zero != 3
        ),
        f"shard is {layout.shard}; give a multiple of context, {layout.context}": layout.shard % layout.context > 0,
        f"interleave is {layout.interleave}; the trainer has 1 or 2 chunks per stage: give 1 or 2": (
            layout.interleave > 2
        ),
        f"pipeline is {layout.pipeline}, which {micro_batches} micro-batches cannot fill; give as many or less": (
            micro_batches < layout.pipeline
        ),
        "checkpointing is attention, which the trainer does not have: give none, selective or full": (
            layout.checkpointing is Checkpointing.ATTENTION
        ),
        f"precision is {layout.precision}, which the trainer does not have: give bf16": layout.precision == "fp8",
        "precision is fp16; the trainer scales the loss of whole networks only: give bf16, or zero 0 alone": (
            layout.precision == "fp16" and (is_split or zero > 0)
        ),
        "tensor and context are for Llama-like models in this trainer; give 1, or --trainer megatron": (
            not is_llama and layout.tensor * layout.context > 1
        ),
    }
    for message, is_refused in refusals.items():
        if is_refused:
            raise UserError(message)


def _positive(cluster: Cluster, layout: ParallelLayout) -> dict[str, int]:
    counts = {name: getattr(layout, name) for name in ("batch", "micro_batch", *SPLITS)}
    return {"nodes": cluster.nodes, "gpus_per_node": cluster.per_node} | counts


def _check_pipeline(model: Model, layout: ParallelLayout, micro_batches: int) -> None:
    chunks = layout.pipeline * layout.interleave
    if chunks > model.layers:
        raise UserError(
            f"pipeline x interleave is {chunks}, and the model has {model.layers} layers; give as many or fewer"
        )
    if layout.interleave > 1 and (layout.pipeline == 1 or micro_batches % layout.pipeline):
        raise UserError(
            f"interleave is {layout.interleave} with {micro_batches} micro-batches and {layout.pipeline} stages; "
            "it takes a pipeline whose stages divide the micro-batches"
        )


def _divides(name: str, value: int, whole: str, total: int) -> None:
    if total % value:
        divisors = [divisor for divisor in range(1, total + 1) if total % divisor == 0]
        below, above = (
            [divisor for divisor in divisors if divisor < value][-1:],
            [divisor for divisor in divisors if divisor > value][:1],
        )
        allowed = " or ".join(str(divisor) for divisor in below + above)
        raise UserError(f"{name} is {value}, which does not divide {whole}, {total}; give {allowed}")
