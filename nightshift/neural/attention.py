"""Attention inside documents that lie in one row: by blocks on a GPU, by a mask on a CPU."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

# which tokens each one sees: blocks of them on a GPU, bool (n, 1, length, length) on a CPU
Visible = Tensor | BlockMask


def within_documents(begun: Tensor) -> Visible:
    """Return which tokens each one sees: itself and those before it in its document.

    Args:
        begun: where the document of each token begins in its row, int64 (n, length).
    """
    count, length = begun.shape
    if not begun.is_cuda:
        before = torch.ones(length, length, dtype=torch.bool, device=begun.device).tril()
        return (before & (begun[:, :, None] == begun[:, None, :])).unsqueeze(1)

    def is_visible(row: Tensor, _: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (begun[row, query] == begun[row, key])

    blocks: BlockMask = _compile_mask()(is_visible, count, None, length, length, device=begun.device)
    return blocks


def attend(
    _: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Visible, scaling: float, **__: Any
) -> tuple[Tensor, None]:
    """Return what heads attend to, (n, length, heads, numbers), as `transformers` calls for it.

    Args:
        query: (n, heads, length, numbers).
        key: (n, kv_heads, length, numbers), like value.
        value: what is attended to.
        attention_mask: which tokens each one sees.
        scaling: of the products.
    """
    query, key, is_shared = query.to(value.dtype), key.to(value.dtype), query.shape[1] != key.shape[1]
    if isinstance(attention_mask, BlockMask):
        # blocks of a network that are compiled take it in
        flex = flex_attention if torch.compiler.is_compiling() else _compile_attention()
        mixed = flex(query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=is_shared)
    else:
        mixed = nn.functional.scaled_dot_product_attention(
            query, key, value, attention_mask, scale=scaling, enable_gqa=is_shared
        )
    return mixed.transpose(1, 2).contiguous(), None


@cache
def _compile_attention() -> Any:
    return torch.compile(flex_attention, dynamic=False)


@cache
def _compile_mask() -> Any:
    return torch.compile(create_block_mask, dynamic=False)
