"""The mesh of processes that train a network together, and this process's part of the network on it."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from nightshift.config.neural import Compile, Compression, Fit, PipelineSchedule, Precision, Trainer
from nightshift.models.neural.parallel import ParallelReplica
from nightshift.models.neural.pipeline import PipelineReplica
from nightshift.models.recipes import Recipe
from nightshift.runtime.errors import UserError

AXES = ("pipeline", "replicate", "shard", "tensor")


def parallelize(recipe: Recipe, trainer: Trainer, device: torch.device) -> ParallelReplica:
    """Return this process's part in the training of a network.

    Raises:
        UserError: when the processes cannot share it as the config says.
    """
    mesh = build_mesh(recipe.fit, trainer, device, dist.get_world_size())
    kind = PipelineReplica if trainer.pipeline > 1 else ParallelReplica
    return kind(recipe, trainer, device, mesh)


def build_mesh(fit: Fit, trainer: Trainer, device: torch.device, processes: int) -> DeviceMesh:
    """Return the mesh of processes along `AXES`; in ZeRO all processes are along `shard`.

    Raises:
        UserError: when the processes cannot share the network as the config says.
    """
    check_layout(fit, trainer, processes)
    shard = processes if trainer.zero else trainer.shard
    replicas = processes // (trainer.pipeline * shard * trainer.tensor)
    return init_device_mesh(device.type, (trainer.pipeline, replicas, shard, trainer.tensor), mesh_dim_names=AXES)


def check_layout(fit: Fit, trainer: Trainer, processes: int) -> None:
    """Refuse a layout that so many processes, or this fit, cannot have.

    Raises:
        UserError: with the fields that contradict each other.
    """
    together = trainer.sharing
    layout = f"task.trainer: shard {trainer.shard} x tensor {trainer.tensor} x pipeline {trainer.pipeline}"
    if fit.compile is Compile.CUDA_GRAPHS and processes > 1:
        # FSDP gathers parameters at other addresses each time, and beside DDP they fail (pytorch/pytorch#113809)
        raise UserError(f"compile is cuda-graphs, which {processes} processes cannot have; write compile: default")
    if trainer.compression is Compression.POWER_SGD and fit.precision is Precision.FP16:
        # an error that has overflowed once would be added to every later gradient
        raise UserError("task.trainer.compression: powersgd keeps gradients that fp16 overflows; write precision: bf16")
    if processes % together:
        raise UserError(f"{layout} is {together}, which does not divide {processes} processes; start a multiple of it")
    if trainer.zero and together > 1:
        raise UserError(f"{layout}: zero: {trainer.zero} is for all processes alike; write 1 for each, or zero: 0")
    if trainer.shard > 1 and trainer.pipeline > 1 and trainer.schedule is PipelineSchedule.ZERO_BUBBLE:
        raise UserError(f"{layout}: zero-bubble computes gradients in two parts, which FSDP does not; write shard: 1")
    if (processes if trainer.zero else trainer.shard) % trainer.context:
        raise UserError(
            f"task.trainer.context: {trainer.context} does not divide the processes that share parameters; "
            "write shard: a multiple of it"
        )
    if trainer.zero or together > 1:
        check_whole(fit, trainer, f"task.trainer: zero {trainer.zero}" if trainer.zero else layout)


def check_whole(fit: Fit, trainer: Trainer, layout: str) -> None:
    """Refuse what only processes that have a whole network each can do.

    Raises:
        UserError: that begins with the layout.
    """
    if trainer.compression is not Compression.NONE:
        raise UserError(f"{layout}: compression is for processes that only replicate; leave it out")
    if fit.precision is Precision.FP16:
        raise UserError(f"{layout}: fp16 scales the loss of whole networks only; write precision: bf16")
