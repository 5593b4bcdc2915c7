"""How processes share a network's training: which rows, parameters, layers and stages each one has.

`replicate` x `shard` processes share the rows of a batch, `tensor` the layers' units, `pipeline` the layers. Whatever
the layout, a step is that of one process that has the whole batch.
"""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cached_property

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel

from nightshift.config.neural import Compression, Trainer
from nightshift.models.neural.blocks import ConditionedBlocks
from nightshift.models.neural.compression import PowerSGD, as_bf16, as_power_sgd
from nightshift.models.neural.data import BatchShare
from nightshift.models.neural.epochs import RowShare
from nightshift.models.neural.hangs import HangWatch
from nightshift.models.neural.replica import Replica, Values, are_finite
from nightshift.models.recipes import Recipe
from nightshift.runtime.errors import UserError


class ParallelReplica(Replica):
    """A network whose rows, parameters or layers are shared, in one stage."""

    _power_sgd: PowerSGD | None = None

    def __init__(self, recipe: Recipe, trainer: Trainer, device: torch.device, mesh: DeviceMesh) -> None:
        self.mesh, self.trainer = mesh, trainer
        replicas, rows = mesh["replicate"], mesh["shard"]  # along the other axes, processes have the same rows
        if trainer.context > 1:
            sizes = rows.size() // trainer.context, trainer.context
            # torchtitan's way too; nothing public does it
            split = mesh._unflatten("shard", sizes, ("rows", "context"))  # noqa: SLF001
            rows, self._context = split["rows"], split["context"]
        index = replicas.get_local_rank() * rows.size() + rows.get_local_rank()
        self.share = RowShare(index, replicas.size() * rows.size())
        super().__init__(recipe, device)
        if trainer.context > 1:
            self._share_rows(self.model)
        self._distribute()

    def _distribute(self) -> None:
        self._split(self.model)
        if self.mesh["replicate"].size() == self.mesh.size():
            self.module = replicate(self.model, self.mesh["replicate"], self.trainer)
            if self.trainer.compression is Compression.POWER_SGD:
                self._power_sgd = PowerSGD(self.model, self.mesh["replicate"].get_group())
                self.module.register_comm_hook(self._power_sgd, as_power_sgd)

    def _share_rows(self, model: nn.Sequential) -> None:
        if not isinstance(model, ConditionedBlocks):
            raise UserError("task.trainer.context: only rows of documents are shared; write context: 1")
        model.sharing = self._context

    def _mean_loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return what this process adds to the mean loss of rows, times the processes that share them."""
        if not isinstance(self.model, ConditionedBlocks):
            return self.recipe.loss(outputs, labels)
        return self.recipe.loss(outputs, labels[:, self.model.own_tokens(labels.shape[1])]) * self.trainer.context

    def _split(self, part: nn.Sequential) -> None:
        """Share the layers of a part of the network, then the parameters of its blocks."""
        mesh = self.mesh
        if mesh["tensor"].size() > 1:
            parallelize_module(part, mesh["tensor"], self.recipe.tensor_plan(part, mesh["tensor"].size()))
        # a hybrid of both: with one process along `shard` it only replicates, which DDP does not for shared layers
        if mesh["shard"].size() > 1 or (
            mesh["replicate"].size() > 1 and mesh["tensor"].size() > 1 and not uses_pipeline(mesh)
        ):
            part.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # it refuses channels-last
            rows = mesh["shard"] if mesh["replicate"].size() == 1 else mesh["replicate", "shard"]
            # in ZeRO-2 a block's parameters stay whole from the forward to the backward pass
            for module in (*part, part):
                fully_shard(module, mesh=rows, reshard_after_forward=self.trainer.zero != 2)

    def measure(self, batch: BatchShare) -> Tensor:
        """Return the loss of a batch; see `Replica.measure`."""
        loss = super().measure(batch)
        self._reshard()
        return loss

    def _reshard(self) -> None:
        """Free the parameters that were gathered, which else stay until a backward pass."""
        for part in self.parts:
            for module in part.modules():
                if isinstance(module, FSDPModule):
                    module.reshard()

    def gather(self, values: Tensor, size: int) -> Tensor:
        """Return what belongs to all rows of a batch; see `Replica.gather`."""
        spans = [replace(self.share, index=index).bounds(size) for index in range(self.share.processes)]
        counts = [end - start for start, end in spans]
        own = values.new_zeros(max(counts), *values.shape[1:])
        own[: len(values)] = values
        parts = [torch.empty_like(own) for _ in counts]
        dist.all_gather(parts, own, self._row_group)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @cached_property
    def _row_group(self) -> dist.ProcessGroup:
        """The processes with other rows of each batch, in their order."""
        return self.mesh["replicate", "shard"]._flatten().get_group()  # noqa: SLF001 as torchtitan does

    def no_sync(self) -> AbstractContextManager[object]:
        """Keep gradients in this process."""
        if isinstance(self.module, DistributedDataParallel):
            return self.module.no_sync()
        stack = ExitStack()
        if isinstance(self.module, FSDPModule):
            self.module.set_requires_gradient_sync(False)
            stack.callback(self.module.set_requires_gradient_sync, True)
        return stack

    def watch(self) -> HangWatch:
        """Watch for other processes that stop."""
        return HangWatch(self.trainer.hang_seconds)

    def is_finite(self) -> bool:
        """Return whether all parameters that lie in this process are finite."""
        return are_finite(shard(value) for value in self.parameters().values())

    def compression(self) -> Values:
        """Return what the compression of gradients remembers in this process; what is written into it counts."""
        return self._power_sgd.memory() if self._power_sgd else {}

    def resume(self, done: int) -> None:
        """Go on after so many steps, with what was loaded."""
        if self._power_sgd:
            self._power_sgd.state.iter = done

    def _measure_norm(self, gradients: list[Tensor]) -> Tensor:
        norm = local(super()._measure_norm(gradients))
        if uses_pipeline(self.mesh):
            squared = norm**2
            dist.all_reduce(squared, group=self.mesh["pipeline"].get_group())
            norm = squared**0.5
        return norm

    def whole(self) -> nn.Sequential:
        """Return the whole network, in every process, with the statistics of batches that this one has seen."""
        here = {name: local(value) for part in self.parts for name, value in part.state_dict().items()}
        model = self.recipe.model().to(self.device)
        for name, target in model.state_dict().items():
            value = here[name].clone() if name in here else torch.zeros_like(target)
            if uses_pipeline(self.mesh):  # each value lies in one stage
                dist.all_reduce(value, group=self.mesh["pipeline"].get_group())
            target.copy_(value)
        return model


def uses_pipeline(mesh: DeviceMesh) -> bool:
    """Return whether the network is cut into stages, which average gradients over replicas themselves."""
    return mesh["pipeline"].size() > 1


def replicate(model: nn.Module, mesh: DeviceMesh, trainer: Trainer) -> DistributedDataParallel:
    """Have gradients averaged over replicas of a whole network."""
    module = DistributedDataParallel(
        model, process_group=mesh.get_group(), gradient_as_bucket_view=True, bucket_cap_mb=trainer.bucket_mb
    )
    module.broadcast_buffers = False  # no step needs the statistics of batches, and the first process's are written
    if trainer.compression is Compression.BF16:
        module.register_comm_hook(mesh.get_group(), as_bf16)
    return module


def shard(value: Tensor) -> Tensor:
    """Return what of a tensor lies in this process."""
    return value.to_local() if isinstance(value, DTensor) else value


def local(value: Tensor) -> Tensor:
    """Return the whole of a tensor that may be spread over processes."""
    return value.full_tensor() if isinstance(value, DTensor) else value
