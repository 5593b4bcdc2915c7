"""The loss of a batch whose rows are compared with each other, where no process computes all of them at once.

Pieces of the batch are computed without gradients, and their outputs gathered from all processes. The loss of the whole
batch gives the gradient of each output, with which the pieces are computed again (Gao, Zhang, Han & Callan, Scaling
Deep Contrastive Learning Batch Size under Memory Limited Setup, 2021). So a batch may be larger than memory.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn

from nightshift.models.neural.data import BatchShare
from nightshift.models.neural.epochs import RowShare
from nightshift.models.recipes import Recipe

Outputs = dict[str, Tensor]  # of rows, (b, ...), by name


class NetworkPart(Protocol):
    """A network in one process, as `Replica` describes it."""

    recipe: Recipe
    share: RowShare
    module: nn.Module
    autocast: AbstractContextManager[object]

    def pieces(self, batch: BatchShare) -> Iterator[tuple[BatchShare, float]]:
        """Yield this process's pieces of a batch with what they count."""

    def gather(self, values: Tensor, size: int) -> Tensor:
        """Return what belongs to all rows of a batch of a size, of what belongs to this process's."""

    def no_sync(self) -> AbstractContextManager[object]:
        """Keep gradients in this process."""


def backward(part: NetworkPart, batch: BatchShare, scale: Callable[[Tensor], Tensor]) -> Tensor:
    """Add the gradients of a batch's loss, times a scale, to those that are there; return the loss."""
    pieces = _list_pieces(part, batch)
    outputs = {name: values.requires_grad_() for name, values in _compute_all(part, pieces, batch.size).items()}
    loss = _measure_loss(part, outputs, batch)
    gradients = torch.autograd.grad(scale(loss), [*outputs.values()])
    own = slice(*part.share.bounds(batch.size))
    # gradients are averaged over processes
    wanted = {name: values[own] * part.share.processes for name, values in zip(outputs, gradients, strict=True)}
    start = 0
    for number, (piece, count) in enumerate(pieces, 1):
        with nullcontext() if number == len(pieces) else part.no_sync():
            _pass_back(part, piece, {name: values[start : start + count] for name, values in wanted.items()})
        start += count
    return loss.detach()


def measure(part: NetworkPart, batch: BatchShare) -> Tensor:
    """Return the loss of a batch."""
    return _measure_loss(part, _compute_all(part, _list_pieces(part, batch), batch.size), batch)


def _list_pieces(part: NetworkPart, batch: BatchShare) -> list[tuple[BatchShare, int]]:
    """Return this process's pieces, each with how many of its rows count: all of them or, of a stand-in, none."""
    return [(piece, len(piece.labels) if weight else 0) for piece, weight in part.pieces(batch)]


def _compute_all(part: NetworkPart, pieces: Sequence[tuple[BatchShare, int]], size: int) -> Outputs:
    """Return the outputs of all rows of a batch, of which this process computes its own, without gradients."""
    with torch.no_grad(), part.autocast:
        computed: list[Outputs] = [
            {name: values[:count] for name, values in part.module(piece.inputs).items()} for piece, count in pieces
        ]
    return {name: part.gather(torch.cat([piece[name] for piece in computed]), size) for name in computed[0]}


def _measure_loss(part: NetworkPart, outputs: Outputs, batch: BatchShare) -> Tensor:
    start, end = part.share.bounds(batch.size)
    labels = part.gather(batch.labels[: end - start], batch.size)
    with part.autocast:
        loss: Tensor = part.recipe.loss(outputs, labels)
    return loss


def _pass_back(part: NetworkPart, piece: BatchShare, gradients: Outputs) -> None:
    """Compute a piece again, with the gradients of its rows that count."""
    with part.autocast:
        outputs: Outputs = part.module(piece.inputs)
    # of a tower that is not trained there are none
    trained = {name: values for name, values in outputs.items() if values.requires_grad}
    filled = [torch.zeros_like(values) for values in trained.values()]
    for name, gradient in zip(trained, filled, strict=True):
        gradient[: len(gradients[name])] = gradients[name]
    torch.autograd.backward([*trained.values()], filled)
