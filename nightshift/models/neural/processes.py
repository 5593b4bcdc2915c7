"""The processes that torchrun has started, as one group."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from nightshift.config.neural import Trainer
from nightshift.models.neural import hangs
from nightshift.models.neural.replica import Replica
from nightshift.models.recipes import Recipe

# one process may fit what is not a network while the others wait
PATIENCE = timedelta(hours=6)


@contextmanager
def join_processes(device: torch.device) -> Iterator[None]:
    """Join the other processes of torchrun, if there are any: gloo on the CPU, NCCL on GPUs."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", str(hangs.REMEMBERED))
    # checkpoints and signals are exchanged on the CPU
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, store=_store(), rank=rank, world_size=size, timeout=PATIENCE)
    yield
    dist.destroy_process_group()  # not after a failure, in which the others may hang


def replica(recipe: Recipe, trainer: Trainer, device: torch.device) -> Replica:
    """Return this process's part in the training of a network: all of it, where there is one process.

    Raises:
        UserError: when the processes cannot share it as the config says.
    """
    if not dist.is_initialized():
        return Replica(recipe, device)
    from nightshift.models.neural import mesh  # torch.distributed's layouts, which one process does without

    return mesh.parallelize(recipe, trainer, device)


def _store(environment: Mapping[str, str] = os.environ) -> Any:
    """Return a store of this attempt alone: the last one's addresses are stale.

    Under our launcher on several machines the first process keeps one, at a port of its own each time. Else it is the
    agent's, which outlives an attempt: which attempt this is, each agent counts for itself, so this is for one machine.
    """
    host, port = environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") == "False":
        return dist.TCPStore(host, port, is_master=environment["RANK"] == "0")  # type: ignore[attr-defined]
    attempt = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    shared = dist.TCPStore(host, port, is_master=False)  # type: ignore[attr-defined]
    return dist.PrefixStore(f"attempt_{attempt}", shared)  # type: ignore[attr-defined]
