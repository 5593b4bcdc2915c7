"""A network in one process: how a batch becomes gradients."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nightshift.config.neural import Compile, Fit, Precision
from nightshift.models.neural.data import Batch
from nightshift.models.neural.recomputation import recompute
from nightshift.models.recipes import Recipe
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    from nightshift.models.neural.hangs import HangWatch

Values = dict[str, Tensor]  # by the names that weights have in the whole network

MODES = {Compile.DEFAULT: "default", Compile.CUDA_GRAPHS: "reduce-overhead"}
TYPES = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


class Replica:
    """A whole network in this process.

    Attributes:
        parts: what of the network lies in this process, under the names that it has in the whole.
        module: computes outputs from inputs.
        processes: how many share a batch's rows.
        index: of this one among them.
    """

    processes, index = 1, 0

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self.recipe, self.fit, self.device = recipe, recipe.fit, device
        check(self.fit, device)
        self.model = recipe.model().to(device)
        self.module: nn.Module = self.model
        self.parts: list[nn.Sequential] = [self.model]
        self.autocast = autocast(self.fit, device)
        prepare(self.model, self.fit)

    def backward(self, batch: Batch, scale: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the gradients of a batch's mean loss, times a scale, to those that are there.

        Returns:
            the mean loss of this process's rows.
        """
        if self.fit.compile is Compile.CUDA_GRAPHS:
            # else the second backward of a block counts as a new step, which frees what the blocks before it have kept
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        if self.fit.microbatches == self.processes == 1:
            return self._backward(batch, 1.0, scale)
        *before, last = self._pieces(batch)
        with self.no_sync():
            losses = [self._backward(*piece, scale) for piece in before]
        return torch.stack([*losses, self._backward(*last, scale)]).sum()

    def no_sync(self) -> AbstractContextManager[object]:
        """Keep gradients in this process."""
        return nullcontext()

    def watch(self) -> AbstractContextManager["HangWatch | None"]:
        """Watch for other processes that stop, where there are any."""
        return nullcontext()

    def optimizer(self) -> torch.optim.Optimizer:
        """Return what changes the weights by their gradients; call it once."""
        parameters = (pair for part in self.parts for pair in part.named_parameters())
        trained = {name: parameter for name, parameter in parameters if parameter.requires_grad}
        self._trained = list(trained.values())
        groups = self.recipe.optimizer_groups(trained)
        return torch.optim.Adam(groups, lr=self.fit.learning_rate, decoupled_weight_decay=True, fused=True)

    def clear(self) -> None:
        """Forget gradients; the optimizer's `zero_grad` takes a twentieth of a small network's step."""
        for parameter in self._trained:
            parameter.grad = None

    def clip(self, limit: float) -> None:
        """Scale the gradients down to a norm."""
        nn.utils.clip_grad_norm_(self.model.parameters(), limit)

    def weights(self) -> Values:
        """Return the weights, and the statistics of batches, that lie in this process, as they change."""
        return {name: value for part in self.parts for name, value in part.state_dict().items()}

    def moments(self, optimizer: torch.optim.Optimizer) -> Values:
        """Return what the optimizer keeps of the weights, as it changes, by `<name of the weight>.<kind>`."""
        return {
            f"{name}.{kind}": value.detach()
            for part in self.parts
            for name, parameter in part.named_parameters()
            for kind, value in optimizer.state[parameter].items()
        }

    def whole(self) -> nn.Sequential:
        """Return the whole network, in every process, without what is compiled for a training's batches alone."""
        if self.fit.compile is Compile.NONE:
            return self.model
        model = self.recipe.model().to(self.device)
        model.load_state_dict(self.model.state_dict())
        return model

    def _backward(self, piece: Batch, share: float, scale: Callable[[Tensor], Tensor]) -> Tensor:
        with self.autocast:
            loss = self._mean_loss(self.module(piece[0]), piece[1])
        if share != 1.0:
            loss = loss * share
        scale(loss).backward()  # type: ignore[no-untyped-call]
        return loss.detach_()

    def _mean_loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of rows."""
        return self.recipe.loss(outputs, labels)

    def _pieces(self, batch: Batch) -> Iterator[tuple[Batch, float]]:
        """Yield this process's pieces of a batch with what they count; every process has equally many.

        Gradients are averaged over processes. A piece without rows is one row that counts nothing.
        """
        inputs, labels = batch
        pieces, rows = self.fit.microbatches, len(labels)
        for piece in range(self.index * pieces, (self.index + 1) * pieces):
            start, end = (number * rows // (self.processes * pieces) for number in (piece, piece + 1))
            own = slice(start, max(end, start + 1))
            yield (inputs[own], labels[own]), (end - start) * self.processes / rows


def autocast(fit: Fit, device: torch.device) -> AbstractContextManager[object]:
    """Return what computes in the precision of a fit; it can be entered again and again."""
    if fit.precision is Precision.FLOAT32:
        return nullcontext()
    return torch.autocast(device.type, TYPES[fit.precision])


def prepare(part: nn.Sequential, fit: Fit) -> None:
    """Have the blocks of a network recomputed and compiled as the fit says; their names stay."""
    for block in part:
        recompute(block, fit.recompute)
        if fit.compile is not Compile.NONE:
            block.compile(mode=MODES[fit.compile])


def check(fit: Fit, device: torch.device) -> None:
    """Refuse CUDA graphs where there are none, and where PyTorch 2.13 is known to get them wrong.

    They follow https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html, and have not been run.

    Raises:
        UserError: on the CPU, or when gradients are accumulated (pytorch/pytorch#96693).
    """
    if fit.compile is not Compile.CUDA_GRAPHS:
        return
    if device.type != "cuda":
        raise UserError(
            "compile is cuda-graphs, which only GPUs have; write compile: default, or run with --device cuda"
        )
    if fit.microbatches > 1:
        raise UserError(
            f"compile is cuda-graphs, and microbatches is {fit.microbatches}: gradients would be added where the next "
            "graph writes; write microbatches: 1, or compile: default"
        )
