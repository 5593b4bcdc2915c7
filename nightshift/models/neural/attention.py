"""Attention within the documents of a packed row: block-sparse on a GPU, with a dense mask on a CPU."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(frozen=True)
class AttentionMask:
    """The attention mask of this process's tokens.

    Attributes:
        mask: block mask on a GPU, bool (n, 1, own, length) on a CPU.
        sharing: processes that split the sequence, whose keys and values are gathered; None: it is not split.
    """

    mask: Tensor | BlockMask
    sharing: "DeviceMesh | None" = None

    def gather(self, own: Tensor) -> Tensor:
        """Return the keys or values of all tokens, (n, kv_heads, length, numbers), from this process's own."""
        if self.sharing is None:
            return own
        from torch.distributed._functional_collectives import all_gather_tensor_autograd

        gathered: Tensor = all_gather_tensor_autograd(own.contiguous(), gather_dim=2, group=self.sharing)
        return gathered


def within_documents(starts: Tensor, own: slice, sharing: "DeviceMesh | None") -> AttentionMask:
    """Return the causal mask within documents (Grattafiori et al., Llama 3, 2024, 3.3.2).

    Args:
        starts: offset of each token's document in its row, int64 (n, length).
        own: this process's tokens.
        sharing: processes that split the sequence.
    """
    count, length = starts.shape
    if not starts.is_cuda:
        before = torch.ones(length, length, dtype=torch.bool, device=starts.device).tril()
        visible: Tensor = before & (starts[:, :, None] == starts[:, None, :])
        return AttentionMask(visible[:, None, own], sharing)

    def is_visible(row: Tensor, _: Tensor, query: Tensor, key: Tensor) -> Tensor:
        token = query + own.start
        visible: Tensor = (token >= key) & (starts[row, token] == starts[row, key])
        return visible

    blocks = _compile_mask()(is_visible, count, None, own.stop - own.start, length, device=starts.device)
    return AttentionMask(blocks, sharing)


def attend(
    _: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: AttentionMask, scaling: float, **__: Any
) -> tuple[Tensor, None]:
    """Return the attention output, (n, length, heads, numbers); the signature is that of `transformers`.

    Args:
        query: queries, (n, heads, length, numbers).
        key: keys, (n, kv_heads, length, numbers).
        value: values, (n, kv_heads, length, numbers).
        attention_mask: mask of this process's tokens.
        scaling: factor of the attention scores.
    """
    query, key, is_shared = query.to(value.dtype), key.to(value.dtype), query.shape[1] != key.shape[1]
    key, value, mask = attention_mask.gather(key), attention_mask.gather(value), attention_mask.mask
    if isinstance(mask, BlockMask):
        # a compiled block compiles it inline
        flex = flex_attention if torch.compiler.is_compiling() else _compile_attention()
        mixed = flex(query, key, value, block_mask=mask, scale=scaling, enable_gqa=is_shared)
    else:
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=scaling, enable_gqa=is_shared)
    return mixed.transpose(1, 2).contiguous(), None


@cache
def _compile_attention() -> Any:
    return torch.compile(flex_attention, dynamic=False)


@cache
def _compile_mask() -> Any:
    return torch.compile(create_block_mask, dynamic=False)
