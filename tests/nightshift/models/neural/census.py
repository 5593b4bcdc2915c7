"""What processes hold, tensor by tensor, and how long stages of a pipeline wait, beside the planner.

Started by torchrun with the names of layouts; prints a line of JSON for each, in rank 0. Nothing is timed: bytes are
those of live tensors, and a schedule's actions take 1 forward and 2 backward.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import figures, planned
from nightshift.config.neural import Trainer
from nightshift.models.neural import devices, processes
from nightshift.models.neural.parallel import shard
from nightshift.models.neural.pipeline import PipelineReplica
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift_llm.recipes import llama
from nightshift_llm.recipes.llama import Llama
from nightshift_perf import bubbles, hardware
from nightshift_perf.bubbles import Piece
from nightshift_perf.planning.layout import Cluster

CPU = torch.device("cpu")
SHAPE = {"vocabulary": 512, "start": 0, "length": 64}
SIZES = {"depth": 6, "width": 256, "heads": 4, "kv_heads": 2, "precision": "bf16"}
LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "FSDP 8": ({"shard": 8}, {"batch_size": 128}),
    "HSDP 2 x 4, all recomputed": ({"shard": 4}, {"batch_size": 128, "recompute": "full"}),
    "PP 2 x FSDP 4, half recomputed": (
        {"shard": 4, "pipeline": 2},
        {"batch_size": 256, "microbatches": 4, "recompute": "selective"},
    ),
    "PP 2 x DP 2 x TP 2": ({"pipeline": 2, "tensor": 2}, {"batch_size": 128, "microbatches": 4}),
    "PP 2 x DP 4, interleaved": ({"pipeline": 2, "schedule": "interleaved"}, {"batch_size": 256, "microbatches": 4}),
    "DP 2 x FSDP 2 x CP 2": ({"shard": 4, "context": 2}, {"batch_size": 128, "recompute": "selective"}),
}
SECONDS = {"forward": 1.0, "backward": 2.0}  # units of time


class Census(TorchDispatchMode):
    """Counts the bytes of tensors that are there, and of those that operations make while somebody holds them.

    Attributes:
        peak: the most at once.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()
        self.peak = self._bound = self._operations = 0
        self._storages: dict[int, StorageWeakRef] = {}
        self._add(tensors)

    def _add(self, tensors: Iterable[Tensor]) -> None:
        for storage in (shard(tensor).untyped_storage() for tensor in tensors):
            if self._storages.setdefault(storage._cdata, reference := StorageWeakRef(storage)) is reference:
                self._bound += storage.nbytes()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._add(value for value in tree_leaves(result) if isinstance(value, Tensor))
        self._operations += 1
        # FSDP fills storages again outside of operations
        if self._bound > self.peak or self._operations % 10 == 0:
            self._bound = self.count_bytes()
            self.peak = max(self.peak, self._bound)
        return result

    def count_bytes(self) -> int:
        """Return the bytes of the storages that are still there, which FSDP empties and fills again."""
        self._storages = {key: storage for key, storage in self._storages.items() if not storage.expired()}
        alive = [torch.UntypedStorage._new_with_weak_ptr(key) for key in self._storages]
        return sum(
            storage.nbytes() for storage in alive if storage is not None
        )  # another thread may have freed one by now


def measure(name: str) -> figures.Row:
    """Count a layout of 8 processes: the bytes of the fullest, and the bubble of a pipeline."""
    shared, fit = LAYOUTS.get(name) or json.loads(name)
    recipe, trainer = build(**fit), Trainer.parse_value(shared)
    with devices.reproducible(0, 1):
        replica = processes.replica(recipe, trainer, CPU)
        actions = record_actions(replica) if isinstance(replica, PipelineReplica) else []
        counted = max(gather(count_peak(replica)))
    planned_bytes = plan_bytes(recipe, trainer, dist.get_world_size())
    row: figures.Row = {"layout": name, "counted MB": counted / 1e6, "planned MB": planned_bytes / 1e6}
    row["off by"] = f"{planned_bytes / counted - 1:+.1%}"
    if isinstance(replica, PipelineReplica):
        orders: list[Any] = [None] * trainer.pipeline
        dist.all_gather_object(orders, actions[len(actions) // 2 :], group=replica.mesh["pipeline"].get_group())
        idle = bubbles.measure_bubble(orders)
        row |= {"bubble": f"{idle:.1%}", "formula": f"{bubbles.formula(trainer, fit['microbatches']):.1%}"}
    return row


def build(**fit: Any) -> Llama:
    """Return a small Llama."""
    return llama.build("parameters", SHAPE, SIZES | fit)


def plan_bytes(recipe: Llama, trainer: Trainer, count: int) -> float:
    """Return what the planner expects in the fullest of so many processes, without what CUDA itself takes."""
    memory = planned.plan_training(recipe, trainer, Cluster(hardware.gpu("h100-80gb"), 1, count, 50e9)).memory
    return memory.states + memory.activations


def count_peak(replica: Replica) -> int:
    """Return the most bytes that a process holds in the second step of a training; call it once."""
    rows = replica.recipe.random_rows(3 * replica.fit.batch_size, CPU)
    rows.hold_out(replica.fit.validation)
    training = NetworkTraining(replica, rows)
    batches = training.batches()
    training.step(next(batches))
    replica.clear()
    with Census([*list_states(training), *list_buffers(replica)]) as census:
        replica.backward(next(batches), lambda loss: loss)
    return census.peak


def list_states(training: NetworkTraining) -> list[Tensor]:
    """Return this process's parameters, their moments and copies; gradients come and go."""
    moments = [value for state in training.optimizer.state.values() for value in state.values()]
    copies = [kept for name, kept in training.state().items() if name.startswith(("best.", "ema."))]
    return [*(weight for part in training.replica.parts for weight in part.parameters()), *moments, *copies]


def list_buffers(replica: Replica) -> list[Tensor]:
    """Return the tensors in which stages of this process receive: one for each piece of a batch, from the start on."""
    kinds = [kind for stage in getattr(replica, "stages", []) for kind in (stage.args_recv_info, stage.grad_recv_info)]
    messages = [message for kind in kinds for piece in kind.values() for message in piece]
    return [message.buffer for message in messages if message.buffer is not None]


def gather(value: int) -> list[int]:
    """Return what each process has counted."""
    values = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(values, torch.tensor([value]))
    return [int(item) for item in values]


def record_actions(replica: PipelineReplica) -> list[Piece]:
    """Return a list to which every piece is added that a stage of this process computes from now on."""
    actions: list[Piece] = []
    for stage in replica.stages:  # PyTorch's own table of 1F1B leaves out the last stage's first piece
        for work in SECONDS:
            name = f"{work}_one_chunk"
            setattr(stage, name, partial(_record, actions, (work, stage.stage_index), getattr(stage, name)))
    return actions


def _record(actions: list[Piece], kind: tuple[str, int], call: Any, number: int, *args: Any, **kwargs: Any) -> Any:
    actions.append(Piece(*kind, number, SECONDS[kind[0]]))
    return call(number, *args, **kwargs)


def count_layouts(*names: str) -> list[figures.Row]:
    """Count layouts, all without names, in 8 processes."""
    module = [
        "--standalone",
        "--nproc-per-node",
        "8",
        "-m",
        "tests.nightshift.models.neural.census",
        *(names or LAYOUTS),
    ]
    command = [sys.executable, "-m", "torch.distributed.run", *module]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main(*names: str) -> None:
    with processes.join_processes(CPU):
        for name in names:
            row = measure(name)
            if dist.get_rank() == 0:
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
