"""How processes share a network's training: which rows, parameters, layers and stages each one has.

`replicate` x `shard` processes share the rows of a batch, `tensor` the layers' units, `pipeline` the layers. Whatever
the layout, a step is that of one process that has the whole batch.
"""

from contextlib import AbstractContextManager, ExitStack

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel

from nightshift.config.neural import Compression, Trainer
from nightshift.models.neural.blocks import ConditionedBlocks
from nightshift.models.neural.hangs import HangWatch
from nightshift.models.neural.replica import Replica
from nightshift.models.recipes import Recipe
from nightshift.runtime.errors import UserError


class ParallelReplica(Replica):
    """A network whose rows, parameters or layers are shared, in one stage."""

    def __init__(self, recipe: Recipe, trainer: Trainer, device: torch.device, mesh: DeviceMesh) -> None:
        self.mesh, self.trainer = mesh, trainer
        self.processes = mesh["replicate"].size() * mesh["rows"].size()
        self.index = mesh["replicate"].get_local_rank() * mesh["rows"].size() + mesh["rows"].get_local_rank()
        super().__init__(recipe, device)
        if trainer.context > 1:
            self._share_rows(self.model)
        self._distribute()

    def _distribute(self) -> None:
        self._split(self.model)
        if self.mesh["replicate"].size() == self.mesh.size():
            self.module = replicate(self.model, self.mesh["replicate"], self.trainer)

    def _share_rows(self, model: nn.Sequential) -> None:
        if not isinstance(model, ConditionedBlocks):
            raise UserError("task.trainer.context: only rows of documents are shared; write context: 1")
        model.sharing = self.mesh["context"]

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

    def clip(self, limit: float) -> None:
        """Scale the gradients of all processes down to one norm."""
        parameters = [parameter for part in self.parts for parameter in part.parameters()]
        norm = local(
            nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
        )
        if uses_pipeline(self.mesh):
            squared = norm**2
            dist.all_reduce(squared, group=self.mesh["pipeline"].get_group())
            norm = squared**0.5
        nn.utils.clip_grads_with_norm_(parameters, limit, norm)

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
    if trainer.compression is Compression.POWER_SGD:
        module.register_comm_hook(
            power_sgd.PowerSGDState(mesh.get_group(), start_powerSGD_iter=2), power_sgd.powerSGD_hook
        )
    return module


def as_bf16(
    group: dist.ProcessGroup,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[Tensor]:
    """Average gradients as bf16; PyTorch takes its own hook by this name on GPUs only, though gloo can do it."""
    return default_hooks.bf16_compress_hook(group, bucket)


def local(value: Tensor) -> Tensor:
    """Return the whole of a tensor that may be spread over processes."""
    return value.full_tensor() if isinstance(value, DTensor) else value
