"""What Nightshift's own trainer holds for a transformer, in bytes: a Llama's tensors, counted one by one.

Parameters, gradients and Adam's moments are float32; products take copies of the weights in 16 bits. Blocks are the
embedding, the layers and the head: a pipeline is cut between them, and FSDP gathers one after the other. Norms are
repeated by the GPUs that share a layer. `python -m benchmarks.trainer memory` counts the same in processes.
"""

from dataclasses import dataclass
from itertools import chain, pairwise

from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout
from nightshift_perf.planning.models import NF4, VALUE, Transformer

STATE = 16  # bytes of a parameter, its gradient and two moments
LOGITS = 1 << 27  # that exist at once, as in the recipe
LOGIT = 12  # bytes of one and of its gradient, each in 16 and 32 bits


@dataclass(frozen=True)
class Block:
    """Parameters of a block on one GPU: `copied` to 16 bits for products, and others."""

    copied: float
    others: float
    is_layer: bool = True

    @property
    def parameters(self) -> float:
        """All of them."""
        return self.copied + self.others


def list_blocks(model: Transformer, tensor: int) -> list[Block]:
    """Return the blocks of a network whose layers so many GPUs share; each has a table, also where they are tied."""
    layer = Block((model.layer(fused=True).parameters - 2 * model.hidden) / tensor, 2 * model.hidden)
    table = model.vocabulary * model.hidden / tensor
    return [Block(0, table, is_layer=False), *[layer] * model.layers, Block(table, model.hidden, is_layer=False)]


def list_stages(model: Transformer, layout: ParallelLayout) -> list[list[Block]]:
    """Return the blocks of each of the GPUs along the pipeline; with chunks, those of all its chunks."""
    blocks, count = list_blocks(model, layout.tensor), layout.pipeline * layout.interleave
    cuts = [number * len(blocks) // count for number in range(count + 1)]
    chunks = [blocks[start:end] for start, end in pairwise(cuts)]
    return [list(chain.from_iterable(chunks[rank :: layout.pipeline])) for rank in range(layout.pipeline)]


def states(model: Transformer, cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the bytes of parameters, gradients and optimizer on the GPU that has most of them, and of copies."""
    return max(
        count_stage_bytes(model, stage, cluster, layout) + count_copied_bytes(model, stage, cluster, layout)
        for stage in list_stages(model, layout)
    )


def count_copied_bytes(model: Transformer, stage: list[Block], cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the bytes of a stage's trained weights that are kept beside those that change."""
    if model.lora_rank:
        return 4 * layout.copies * sum(block.is_layer for block in stage) * model.adapters / layout.tensor
    shards = layout.shards(cluster) if layout.zero else 1
    return 4 * layout.copies * sum(block.parameters for block in stage) / shards


def count_stage_bytes(model: Transformer, stage: list[Block], cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the bytes of a stage's states, and of weights that are whole or copied for a while."""
    if model.lora_rank:
        return count_adapted_bytes(model, stage, layout, layout.shards(cluster))
    own = sum(block.parameters for block in stage)
    # the backward pass uses the copies of a forward pass that is not repeated; the head makes its own piece by piece
    copied = sum(block.copied for block in stage if block.is_layer)
    copies = VALUE * copied if layout.checkpointing is Checkpointing.NONE else 0
    if layout.zero == 0:
        return STATE * own + copies
    block = max(block.parameters for block in stage)  # gathered in one piece, then copied to where its matrices lie
    whole = own if layout.zero == 2 or layout.pipeline > 1 else block  # a pipeline keeps all from piece to piece
    # gradients are whole until the last micro-batch; of a single one, a block's until it is shared out
    gradients = own if layout.micro_batches(cluster) > 1 else block
    return 4 * (block + whole + gradients) + (STATE - 4) * own / layout.shards(cluster) + copies


def count_adapted_bytes(model: Transformer, stage: list[Block], layout: ParallelLayout, shards: int) -> float:
    """Return the bytes of a stage's frozen matrices and of its adapters' states; matrices in 4 bits are not shared."""
    matrices, own = sum(block.copied for block in stage), sum(block.parameters for block in stage)
    adapters = STATE * sum(block.is_layer for block in stage) * model.adapters / layout.tensor
    if model.lora_bits == 4:
        head = sum(block.copied for block in stage if not block.is_layer)
        return NF4 * (matrices - head) + 4 * (own - matrices + head) + adapters
    copies = VALUE * matrices if layout.checkpointing is Checkpointing.NONE else 0
    if layout.zero == 0:
        return 4 * own + copies + adapters
    block = max(block.parameters for block in stage)
    whole = own if layout.zero == 2 or layout.pipeline > 1 else block
    return 4 * (block + whole + own / shards) + copies + adapters


def activations(model: Transformer, cluster: Cluster, layout: ParallelLayout) -> float:
    """Return the bytes that the fullest GPU keeps for the backward pass."""
    return max(
        count_stage_activations(model, cluster, layout, stage, layout.held_micro_batches(cluster, rank))
        + count_message_bytes(model, cluster, layout, rank)
        for rank, stage in enumerate(list_stages(model, layout))
    )


def count_stage_activations(
    model: Transformer, cluster: Cluster, layout: ParallelLayout, stage: list[Block], held: float
) -> float:
    """Return the bytes that a GPU of a stage keeps for so many micro-batches."""
    layers = sum(block.is_layer for block in stage)
    tokens = layout.micro_batch * model.sequence / layout.context
    kept = held * layers * tokens * count_kept_bytes(model, layout, layout.checkpointing)
    if layout.zero and layout.micro_batches(cluster) == 1:  # gradients come as activations go
        kept = max(kept, 4 * sum(block.parameters for block in stage) / layout.shards(cluster))
    logits = min(LOGITS, tokens * model.vocabulary) * (not stage[-1].is_layer)  # every GPU of a layer has them all
    return kept + max(LOGIT * logits, tokens * count_passing_bytes(model, layout))


def count_message_bytes(model: Transformer, cluster: Cluster, layout: ParallelLayout, rank: int) -> float:
    """Return the bytes in which a GPU of a pipeline receives: PyTorch's stages have a buffer for each micro-batch."""
    stages = range(rank, layout.pipeline * layout.interleave, layout.pipeline)
    neighbors = sum((stage > 0) + (stage < layout.pipeline * layout.interleave - 1) for stage in stages)
    tokens = layout.micro_batches(cluster) * layout.micro_batch * model.sequence / layout.context
    return neighbors * VALUE * tokens * model.hidden


def count_passing_bytes(model: Transformer, layout: ParallelLayout) -> float:
    """Return the bytes of a token that exist only while a layer's backward pass is computed, on one GPU.

    These are the gradients of gate, up and their product, and what is computed again.
    """
    is_repeated = layout.checkpointing is not Checkpointing.NONE
    again = count_kept_bytes(model, layout, Checkpointing.NONE) if is_repeated else 0
    return again + VALUE * 3 * model.feed_forward / layout.tensor


def count_kept_bytes(model: Transformer, layout: ParallelLayout, checkpointing: Checkpointing) -> float:
    """Return the bytes that a layer keeps of a token on one GPU."""
    hidden, inner, keys, queries = model.hidden, model.feed_forward, model.key_width, model.query_width
    if checkpointing is Checkpointing.FULL:
        return VALUE * hidden
    if checkpointing is Checkpointing.SELECTIVE:  # input; queries, values, attention, gate; if not compiled the output
        return VALUE * ((1 if layout.fused else 2) * hidden + (2 * queries + keys + inner) / layout.tensor)
    units = inner * (
        (3 if layout.fused else 4) if model.gated else 2
    )  # without a gate, an activation's input and output
    if layout.fused:
        return VALUE * (5 * hidden + (3 * queries + 2 * keys + units) / layout.tensor)
    # norms keep their inputs in 32 bits, and each product a copy of its own input
    return VALUE * (11 * hidden + (2 * queries + 2 * keys + units) / layout.tensor)
