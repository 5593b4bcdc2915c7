"""Blocks of a network that see more than what the block before them gives."""

from typing import Any

from torch import Tensor, nn


class ConditionedBlocks(nn.Sequential):
    """Blocks that each take what the block before gives, and what `condition` says of the rows.

    A part of them, such as a stage of a pipeline, is of the same class, and is given the rows besides.
    """

    def condition(self, rows: Tensor) -> Any:
        """Return what every block sees of the rows, (n, ...)."""
        raise NotImplementedError

    def forward(self, hidden: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return what the last block gives; without other rows, the first block takes them themselves."""
        context = self.condition(hidden if rows is None else rows)
        for block in self:
            hidden = block(hidden, context)
        return hidden
