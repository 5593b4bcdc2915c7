"""The loss of a batch whose rows are compared with each other, where no process computes all of them at once.

Pieces of the batch are computed without gradients, and their outputs gathered from all processes. The loss of the whole
batch gives the gradient of each output, with which the pieces are computed again (Gao, Zhang, Han & Callan, Scaling
Deep Contrastive Learning Batch Size under Memory Limited Setup, 2021). So a batch may be larger than memory.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nightshift.models.neural.data import BatchShare

if TYPE_CHECKING:
    from nightshift.models.neural.replica import Replica

Outputs = dict[str, Tensor]  # of rows, (b, ...), by name


def backward(replica: "Replica", batch: BatchShare, scale: Callable[[Tensor], Tensor]) -> Tensor:
    """Add the gradients of a batch's loss, times a scale, to those that are there; return the loss."""
    pieces = _list_pieces(replica, batch)
    outputs = {name: values.requires_grad_() for name, values in _compute_all(replica, pieces, batch.size).items()}
    loss = _measure_loss(replica, outputs, batch)
    gradients = torch.autograd.grad(scale(loss), [*outputs.values()])
    own = slice(*replica.share.bounds(batch.size))
    # gradients are averaged over processes
    wanted = {name: values[own] * replica.share.processes for name, values in zip(outputs, gradients, strict=True)}
    start = 0
    for number, (piece, count) in enumerate(pieces, 1):
        with nullcontext() if number == len(pieces) else replica.no_sync():
            _pass_back(replica, piece, {name: values[start : start + count] for name, values in wanted.items()})
        start += count
    return loss.detach()


def measure(replica: "Replica", batch: BatchShare) -> Tensor:
    """Return the loss of a batch."""
    return _measure_loss(replica, _compute_all(replica, _list_pieces(replica, batch), batch.size), batch)


def _list_pieces(replica: "Replica", batch: BatchShare) -> list[tuple[BatchShare, int]]:
    """Return this process's pieces, each with how many of its rows count: all of them or, of a stand-in, none."""
    return [(piece, len(piece.labels) if weight else 0) for piece, weight in replica.pieces(batch)]


def _compute_all(replica: "Replica", pieces: Sequence[tuple[BatchShare, int]], size: int) -> Outputs:
    """Return the outputs of all rows of a batch, of which this process computes its own, without gradients."""
    with torch.no_grad(), replica.autocast:
        parts: list[Outputs] = [
            {name: values[:count] for name, values in replica.module(piece.inputs).items()} for piece, count in pieces
        ]
    return {name: replica.gather(torch.cat([part[name] for part in parts]), size) for name in parts[0]}


def _measure_loss(replica: "Replica", outputs: Outputs, batch: BatchShare) -> Tensor:
    start, end = replica.share.bounds(batch.size)
    labels = replica.gather(batch.labels[: end - start], batch.size)
    with replica.autocast:
        loss: Tensor = replica.recipe.loss(outputs, labels)
    return loss


def _pass_back(replica: "Replica", piece: BatchShare, gradients: Outputs) -> None:
    """Compute a piece again, with the gradients of its rows that count."""
    with replica.autocast:
        outputs: Outputs = replica.module(piece.inputs)
    # of a tower that is not trained there are none
    trained = {name: values for name, values in outputs.items() if values.requires_grad}
    filled = [torch.zeros_like(values) for values in trained.values()]
    for name, gradient in zip(trained, filled, strict=True):
        gradient[: len(gradients[name])] = gradients[name]
    torch.autograd.backward([*trained.values()], filled)
