"""Blocks of a network that see more than what the block before them gives."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class ConditionedBlocks(nn.Sequential):
    """Blocks that each take what the block before gives, and what `condition` says of the rows.

    A part of them, such as a stage of a pipeline, is of the same class, and is given the rows besides.

    Attributes:
        tied: pairs of names of parameters that are one. Blocks share no tensor, so they are two that begin alike, and
            the trainer gives both the sum of their gradients (as Megatron-LM does; Narayanan et al., 2021).
        sharing: the processes that share the tokens of each row; None: each has whole rows.
    """

    tied: Sequence[tuple[str, str]] = ()
    sharing: "DeviceMesh | None" = None

    def condition(self, rows: Tensor) -> Any:
        """Return what every block sees of the rows, (n, ...)."""
        raise NotImplementedError

    def forward(self, hidden: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return what the last block gives; without other rows, the first block takes them themselves."""
        context = self.condition(hidden if rows is None else rows)
        for block in self:
            hidden = block(hidden, context)
        return hidden

    def own_tokens(self, length: int) -> slice:
        """Return which of a row's tokens are this process's: equal parts, in order.

        Raises:
            UserError: when there are no equal parts.
        """
        if self.sharing is None:
            return slice(0, length)
        rank, count = self.sharing.get_local_rank(), self.sharing.size()
        if length % count:
            raise UserError(f"task.length: is {length}, which {count} processes that share rows do not divide evenly")
        return slice(rank * length // count, (rank + 1) * length // count)


class RecomputingBlock(nn.Module):
    """A block that computes its activations again by itself, so that the trainer does not ask for it once more."""
