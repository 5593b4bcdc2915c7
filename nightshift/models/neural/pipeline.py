"""A network cut into stages that work on different pieces of a batch at the same time."""

from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.nn.modules.batchnorm import _BatchNorm

from nightshift.config.neural import Fit, PipelineSchedule
from nightshift.models.neural.blocks import ConditionedBlocks
from nightshift.models.neural.data import BatchShare
from nightshift.models.neural.parallel import ParallelReplica, shard
from nightshift.runtime.errors import UserError

LOOPED = {
    PipelineSchedule.INTERLEAVED: ScheduleInterleaved1F1B,
    PipelineSchedule.ZERO_BUBBLE: ScheduleInterleavedZeroBubble,
}


class PipelineReplica(ParallelReplica):
    """The stages of a network that are in this process.

    Attributes:
        stages: as PyTorch has them, in their order.
    """

    stages: list[Any]

    def _distribute(self) -> None:
        processes, rank = self.mesh["pipeline"].size(), self.mesh["pipeline"].get_local_rank()
        check_pieces(self.model, self.fit)
        cut = stages(self.model, processes * (2 if self.trainer.schedule in LOOPED else 1))
        if self.fit.microbatches < processes:
            raise UserError(
                f"microbatches is {self.fit.microbatches}, too few to fill a pipeline; write {processes} or more"
            )
        here = range(rank, len(cut), processes)
        self.parts = [cut[number] for number in here]
        for part in self.parts:
            self._split(part)
        group = self.mesh["pipeline"].get_group()
        self.stages = [PipelineStage(cut[number], number, len(cut), self.device, group=group) for number in here]
        self._is_first, self._is_last = 0 in here, len(cut) - 1 in here
        self._schedule = self._build_schedule()

    def _build_schedule(self) -> Any:
        # gradients are not averaged over pieces: the loss says what each counts
        common: dict[str, Any] = {"loss_fn": self._loss, "scale_grads": False}
        if self.trainer.schedule in LOOPED:
            return LOOPED[self.trainer.schedule](self.stages, self.fit.microbatches, **common)
        return Schedule1F1B(self.stages[0], self.fit.microbatches, **common)

    def backward(self, batch: BatchShare, scale: Callable[[Tensor], Tensor]) -> Tensor:  # noqa: ARG002
        """Add the gradients of a batch's mean loss; return the loss, which only the last stage knows."""
        loss = self._run(batch, partial(self._schedule.step, return_outputs=False))
        self._average()
        return loss

    @torch.no_grad()
    def measure(self, batch: BatchShare) -> Tensor:
        """Return the loss of a batch, which only the last stage knows; see `Replica.measure`."""
        self._set_training(False)
        loss = self._run(batch, self._schedule.eval)
        self._set_training(True)
        self._reshard()
        return loss

    def _run(self, batch: BatchShare, run: Callable[..., Any]) -> Tensor:
        """Send the pieces of a batch through the stages; return its loss, NaN but in the last stage."""
        inputs, self._labels, size = batch
        start, end = self.share.bounds(size)
        self._weight = self.share.processes / size
        # the stages expect pieces of one size: rows beyond the own ones are there and count nothing
        indices = torch.arange(self._padded_rows(), device=self.device)
        indices, target = indices.clamp(max=len(inputs) - 1), torch.where(indices < end - start, indices, -1)
        losses: list[Tensor] = []
        options = {"target": target, "losses": losses} if self._is_last else {}
        if isinstance(self.model, ConditionedBlocks):
            options["rows"] = inputs[indices]
        with self.autocast:
            run(*([inputs[indices]] if self._is_first else []), **options)
        return torch.stack(losses).sum().detach_() if losses else torch.tensor(float("nan"), device=self.device)

    def tie(self) -> None:
        """Give parameters that are one, in the first and the last stage, the sum of their gradients."""
        parameters, group = self.parameters(), self.mesh["pipeline"].get_group()
        for first, second in self._tied:
            own = parameters.get(first, parameters.get(second))
            if own is None or own.grad is None:
                continue
            gradient = shard(own.grad)
            other, peer = torch.empty_like(gradient), group.size() - 1 if first in parameters else 0
            swap = [
                dist.P2POp(operation, value, group=group, group_peer=peer)
                for operation, value in ((dist.isend, gradient), (dist.irecv, other))
            ]
            for work in dist.batch_isend_irecv(swap):
                work.wait()
            gradient += other

    def _loss(self, outputs: Tensor, indices: Tensor) -> Tensor:
        """Return what a piece adds to the mean; `indices` (n,) are its rows in the share, -1 for padding."""
        own = indices >= 0
        if not own.any():
            return outputs.sum() * 0
        labels = self._labels[indices[own]]
        loss: Tensor = self._mean_loss(outputs[own], labels) * (len(labels) * self._weight)
        return loss

    def _average(self) -> None:
        """Average gradients over replicas, where FSDP does not."""
        replicas = self.mesh["replicate"]
        if self.mesh["shard"].size() > 1 or replicas.size() == 1:
            return
        for part in self.parts:
            for parameter in part.parameters():
                assert parameter.grad is not None
                gradient = shard(parameter.grad)
                dist.all_reduce(gradient, group=replicas.get_group())
                gradient /= replicas.size()

    def _padded_rows(self) -> int:
        pieces = self.fit.microbatches
        own = -(-self.fit.batch_size // self.share.processes)
        return -(-own // pieces) * pieces


def check_pieces(model: nn.Sequential, fit: Fit) -> None:
    """Refuse a network whose rows depend on each other: pieces hold padding, and shapes are found with random rows.

    Raises:
        UserError: when it normalizes over a batch, or its loss compares rows.
    """
    if fit.compares_rows:
        raise UserError(
            "task.trainer.pipeline: the loss compares the rows of a batch, which stages see in pieces; write 1"
        )
    if any(isinstance(module, _BatchNorm) for module in model.modules()):
        raise UserError(
            "task.trainer.pipeline: this network normalizes over the rows of a batch, whose statistics padded pieces "
            "would spoil; write pipeline: 1, with shard or replicas instead"
        )


def stages(model: nn.Sequential, count: int) -> list[nn.Sequential]:
    """Cut a network between its blocks into parts of about as many each; their names stay.

    Raises:
        UserError: when it has fewer blocks.
    """
    blocks = list(model.named_children())
    if len(blocks) < count:
        raise UserError(f"task.trainer.pipeline: {len(blocks)} blocks of layers cannot fill {count} stages; use fewer")
    cuts = [number * len(blocks) // count for number in range(count + 1)]
    return [_part(model, blocks[start:end]) for start, end in pairwise(cuts)]


def _part(model: nn.Sequential, blocks: list[tuple[str, nn.Module]]) -> nn.Sequential:
    """Return some blocks of a network, as a network of its class."""
    part = copy(model)
    part._modules = OrderedDict(blocks)  # noqa: SLF001  # whatever else it holds stays
    return part
