"""Activation checkpointing: activations are recomputed in the backward pass instead of being kept."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from nightshift.config.neural import Recompute
from nightshift.models.neural.blocks import RecomputingBlock

# the contexts of the forward pass and of its recomputation
Contexts = tuple[AbstractContextManager[None], AbstractContextManager[None]]

aten = torch.ops.aten
PRODUCTS = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.convolution.default}
ATTENTION = {
    aten._scaled_dot_product_flash_attention.default,  # noqa: SLF001  # operations have no other names
    aten._scaled_dot_product_flash_attention_for_cpu.default,  # noqa: SLF001
    aten._scaled_dot_product_efficient_attention.default,  # noqa: SLF001
    aten._scaled_dot_product_cudnn_attention.default,  # noqa: SLF001
    torch.ops.higher_order.flex_attention,
}


def recompute(block: nn.Module, extent: Recompute) -> None:
    """Make a block recompute some or all of its activations in the backward pass."""
    if extent is not Recompute.NONE and not isinstance(block, RecomputingBlock):
        run = _keep_inputs if extent is Recompute.FULL else _keep_products
        block.forward = partial(run, block.forward)


# torch.compile traces functions that call `checkpoint`, but not a partial of `checkpoint` itself
def _keep_inputs(forward: Callable[..., Tensor], *inputs: Any) -> Tensor:
    outputs: Tensor = checkpoint(forward, *inputs, use_reentrant=False)
    return outputs


def _keep_products(forward: Callable[..., Tensor], *inputs: Any) -> Tensor:
    outputs: Tensor = checkpoint(forward, *inputs, use_reentrant=False, context_fn=keep_some_products)
    return outputs


def keep_some_products() -> Contexts:
    """Save attention and every second matrix product: half the memory for half the recomputation (torchtitan, 2024)."""
    counts: Counter[bool] = Counter()

    def decide(context: SelectiveCheckpointContext, operation: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        counts[context.is_recompute] += operation in PRODUCTS
        is_kept = counts[context.is_recompute] % 2 == 1 if operation in PRODUCTS else operation in ATTENTION
        return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE

    contexts: Contexts = create_selective_checkpoint_contexts(decide)  # type: ignore[no-untyped-call]
    return contexts
