"""A network in one process: how a batch becomes gradients."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from components.common.config.neural import Fit, Precision
from components.neural.data import Batch
from components.neural.recipes import Recipe

TYPES = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


class Replica:
    """A whole network in this process.

    Attributes:
        parts: what of the network lies in this process, under the names that it has in the whole.
        is_first: whether this process speaks and writes for all.
    """

    is_first = True

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self.recipe, self.fit, self.device = recipe, recipe.fit, device
        self.model = recipe.model().to(device)
        self.parts: list[nn.Sequential] = [self.model]
        prepare(self.model, self.fit)

    def backward(self, batch: Batch, scale: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the gradients of a batch's mean loss, times a scale, to those that are there; return the loss."""
        if self.fit.microbatches == 1:
            return self._backward(batch, 1.0, scale)
        losses = [self._backward(piece, share, scale) for piece, share in self._pieces(batch)]
        return torch.stack(losses).sum()

    def clip(self, limit: float) -> None:
        """Scale the gradients down to a norm."""
        nn.utils.clip_grad_norm_(self.model.parameters(), limit)

    def whole(self) -> nn.Sequential:
        """Return the whole network, in every process."""
        return self.model

    def autocast(self) -> AbstractContextManager[object]:
        """Compute in the precision of the fit."""
        if self.fit.precision is Precision.FLOAT32:
            return nullcontext()
        return torch.autocast(self.device.type, TYPES[self.fit.precision])

    def _backward(self, piece: Batch, share: float, scale: Callable[[Tensor], Tensor]) -> Tensor:
        with self.autocast():
            loss = self.recipe.loss(self.model(piece[0]), piece[1])
        if share != 1.0:
            loss = loss * share
        scale(loss).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _pieces(self, batch: Batch) -> Iterator[tuple[Batch, float]]:
        rows = len(batch[1])
        for inputs, labels in zip(*(each.chunk(self.fit.microbatches) for each in batch), strict=True):
            yield (inputs, labels), len(labels) / rows


def prepare(part: nn.Sequential, fit: Fit) -> None:
    """Have the blocks of a network recomputed and compiled as the fit says; their names stay."""
    for block in part:
        if fit.recompute:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
        if fit.compile:
            block.compile()
