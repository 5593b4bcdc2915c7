"""A network in one process: how a batch becomes gradients."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nightshift.config.neural import Compile, Fit, Precision
from nightshift.models.neural import gradient_cache
from nightshift.models.neural.blocks import ConditionedBlocks
from nightshift.models.neural.data import BatchShare, select_rows
from nightshift.models.neural.epochs import WHOLE, RowShare
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
        share: what this process has of a batch's rows.
    """

    share: RowShare = WHOLE

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        self.recipe, self.fit, self.device = recipe, recipe.fit, device
        check(self.fit, device)
        self.model = recipe.model().to(device)
        self.module: nn.Module = self.model
        self.parts: list[nn.Sequential] = [self.model]
        self.autocast = autocast(self.fit, device)
        prepare(self.model, self.fit)

    def backward(self, batch: BatchShare, scale: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the gradients of a batch's mean loss, times a scale, to those that are there.

        Returns:
            the mean loss of this process's rows.
        """
        if self.fit.compile is Compile.CUDA_GRAPHS:
            # else the second backward of a block counts as a new step, which frees what the blocks before it have kept
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        if self.fit.microbatches == self.share.processes == 1:
            return self._backward(batch, 1.0, scale)
        if self.fit.compares_rows:
            return gradient_cache.backward(self, batch, scale)
        *before, last = self.pieces(batch)
        with self.no_sync():
            losses = [self._backward(*piece, scale) for piece in before]
        return torch.stack([*losses, self._backward(*last, scale)]).sum()

    @torch.no_grad()
    def measure(self, batch: BatchShare) -> Tensor:
        """Return the loss of a batch as `backward` does, of the network as it will be used, without gradients."""
        self._set_training(False)
        loss = gradient_cache.measure(self, batch) if self.fit.compares_rows else self._measure_pieces(batch)
        self._set_training(True)
        return loss

    def gather(self, values: Tensor, size: int) -> Tensor:  # noqa: ARG002
        """Return what belongs to all rows of a batch of a size, (size, ...), of what belongs to this process's."""
        return values

    def no_sync(self) -> AbstractContextManager[object]:
        """Keep gradients in this process."""
        return nullcontext()

    def watch(self) -> AbstractContextManager["HangWatch | None"]:
        """Watch for other processes that stop, where there are any."""
        return nullcontext()

    def optimizer(self) -> torch.optim.Optimizer:
        """Return what changes the weights by their gradients; call it once."""
        trained = {name: parameter for name, parameter in self.parameters().items() if parameter.requires_grad}
        self._trained = list(trained.values())
        groups = self.recipe.optimizer_groups(trained)
        return torch.optim.Adam(groups, lr=self.fit.learning_rate, decoupled_weight_decay=True, fused=True)

    def clear(self) -> None:
        """Forget gradients; the optimizer's `zero_grad` takes a twentieth of a small network's step."""
        for parameter in self._trained:
            parameter.grad = None

    def tie(self) -> None:
        """Give parameters that are one the sum of their gradients; call it after the last `backward` of a step."""
        for pair in self._tied:
            gradient, other = (self.parameters()[name].grad for name in pair)
            if gradient is not None and other is not None:  # they are trained
                other.copy_(gradient.add_(other))

    def clip(self, limit: float) -> None:
        """Scale the gradients of all processes down to one norm, in which parameters that are one count once."""
        parameters, repeated = self.parameters(), {second for _, second in self._tied}
        counted = (parameter.grad for name, parameter in parameters.items() if name not in repeated)
        norm = self._measure_norm([gradient for gradient in counted if gradient is not None])
        nn.utils.clip_grads_with_norm_(parameters.values(), limit, norm)

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return the parameters that lie in this process, by name."""
        return {name: parameter for part in self.parts for name, parameter in part.named_parameters()}

    def weights(self) -> Values:
        """Return the weights, and the statistics of batches, that lie in this process, as they change."""
        return {name: value for part in self.parts for name, value in part.state_dict().items()}

    def is_finite(self) -> bool:
        """Return whether all parameters that lie in this process are finite."""
        return are_finite(self.parameters().values())

    def moments(self, optimizer: torch.optim.Optimizer) -> Values:
        """Return what the optimizer keeps of the weights, as it changes, by `<name of the weight>.<kind>`."""
        return {
            f"{name}.{kind}": value.detach()
            for name, parameter in self.parameters().items()
            for kind, value in optimizer.state[parameter].items()
        }

    def compression(self) -> Values:
        """Return what the compression of gradients remembers in this process, by names of its own."""
        return {}

    def resume(self, done: int) -> None:
        """Go on after so many steps."""

    def whole(self) -> nn.Sequential:
        """Return the whole network, in every process, without what is compiled for a training's batches alone."""
        if self.fit.compile is Compile.NONE:
            return self.model
        model = self.recipe.model().to(self.device)
        model.load_state_dict(self.model.state_dict())
        return model

    def _set_training(self, is_training: bool) -> None:
        for part in self.parts:
            part.train(is_training)

    @property
    def _tied(self) -> Sequence[tuple[str, str]]:
        return self.model.tied if isinstance(self.model, ConditionedBlocks) else ()

    def _measure_norm(self, gradients: list[Tensor]) -> Tensor:
        """Return the norm of these gradients in all processes."""
        return nn.utils.get_total_norm(gradients)

    def _backward(self, piece: BatchShare, weight: float, scale: Callable[[Tensor], Tensor]) -> Tensor:
        with self.autocast:
            loss = self._mean_loss(self.module(piece.inputs), piece.labels)
        if weight != 1.0:
            loss = loss * weight
        scale(loss).backward()  # type: ignore[no-untyped-call]
        return loss.detach_()

    def _measure_pieces(self, batch: BatchShare) -> Tensor:
        losses = []
        for piece, weight in self.pieces(batch):
            with self.autocast:
                losses.append(self._mean_loss(self.module(piece.inputs), piece.labels) * weight)
        return torch.stack(losses).sum()

    def _mean_loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of rows."""
        return self.recipe.loss(outputs, labels)

    def pieces(self, batch: BatchShare) -> Iterator[tuple[BatchShare, float]]:
        """Yield this process's pieces of a batch with what they count; every process has equally many.

        Gradients are averaged over processes. A piece without rows is one row that counts nothing.
        """
        inputs, labels, size = batch
        pieces, processes = self.fit.microbatches, self.share.processes
        before, _ = self.share.bounds(size)
        for piece in range(self.share.index * pieces, (self.share.index + 1) * pieces):
            start, end = (number * size // (processes * pieces) - before for number in (piece, piece + 1))
            first = min(start, len(labels) - 1)
            own = slice(first, max(end, first + 1))
            yield BatchShare(select_rows(inputs, own), labels[own], size), (end - start) * processes / size


def are_finite(values: Iterable[Tensor]) -> bool:
    """Return whether all numbers are."""
    return all(bool(value.isfinite().all()) for value in values)


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
