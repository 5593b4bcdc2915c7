"""What processes hold, tensor by tensor, and how long stages of a pipeline wait, beside the planner.

Started by torchrun with the names of layouts; prints a line of JSON for each, in rank 0. Nothing is timed: bytes are
those of live tensors, and a schedule's actions take 1 forward and 2 backward.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import figures, planned
from nightshift.config.neural import Trainer
from nightshift.models.neural import devices, processes
from nightshift.models.neural.pipeline import PipelineReplica
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift_llm.recipes import llama
from nightshift_llm.recipes.llama import Llama
from nightshift_perf import hardware
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
FORWARD, BACKWARD = 1, 2  # units of time

Action = tuple[bool, int, int]  # whether it is forward, the stage, the piece of the batch


class Census(TorchDispatchMode):
    """Counts the bytes of the tensors that operations make and somebody still holds.

    Attributes:
        peak: the most at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._bound = self._operations = 0
        self._storages: dict[int, StorageWeakRef] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for storage in (local(value).untyped_storage() for value in tree_leaves(result) if isinstance(value, Tensor)):
            if self._storages.setdefault(storage._cdata, reference := StorageWeakRef(storage)) is reference:
                self._bound += storage.nbytes()
        self._operations += 1
        # FSDP fills storages again outside of operations
        if self._bound > self.peak or self._operations % 10 == 0:
            self._bound = self.count_bytes()
            self.peak = max(self.peak, self._bound)
        return result

    def count_bytes(self) -> int:
        """Return the bytes of the storages that are still there, which FSDP empties and fills again."""
        self._storages = {key: storage for key, storage in self._storages.items() if not storage.expired()}
        return sum(torch.UntypedStorage._new_with_weak_ptr(key).nbytes() for key in self._storages)


def local(tensor: Tensor) -> Tensor:
    """Return this process's part of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def measure(name: str) -> figures.Row:
    """Count a layout of 8 processes: the bytes of the fullest, and the bubble of a pipeline."""
    shared, fit = LAYOUTS[name]
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
        idle = measure_bubble(orders)
        row |= {"bubble": f"{idle:.1%}", "formula": f"{formula(trainer, fit['microbatches']):.1%}"}
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
    training = NetworkTraining(replica, replica.recipe.random_rows(2 * replica.fit.batch_size, CPU))
    batches = training.batches()
    training.step(next(batches))
    kept = count_states(training)
    replica.clear()
    with Census() as census:
        replica.backward(next(batches), lambda loss: loss)
    return kept + census.peak


def count_states(training: NetworkTraining) -> int:
    """Return the bytes of this process's parameters and moments; gradients come and go."""
    moments = [value for state in training.optimizer.state.values() for value in state.values()]
    tensors = [*(weight for part in training.replica.parts for weight in part.parameters()), *moments]
    return sum(local(tensor).nbytes for tensor in tensors)


def gather(value: int) -> list[int]:
    """Return what each process has counted."""
    values = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(values, torch.tensor([value]))
    return [int(item) for item in values]


def record_actions(replica: PipelineReplica) -> list[Action]:
    """Return a list to which every piece is added that a stage of this process computes from now on."""
    actions: list[Action] = []
    schedule: Any = replica._schedule  # PyTorch's own table of 1F1B leaves out the last stage's first piece
    for stage in getattr(schedule, "_stages", None) or [schedule._stage]:
        for is_forward, name in ((True, "forward_one_chunk"), (False, "backward_one_chunk")):
            setattr(stage, name, partial(_record, actions, (is_forward, stage.stage_index), getattr(stage, name)))
    return actions


def _record(actions: list[Action], kind: tuple[bool, int], call: Any, piece: int, *args: Any, **kwargs: Any) -> Any:
    actions.append((*kind, piece))
    return call(piece, *args, **kwargs)


def measure_bubble(orders: list[list[Action]]) -> float:
    """Return the share of the time in which processes of a pipeline wait, by the order of what each computes."""
    stages = 1 + max(stage for actions in orders for _, stage, _ in actions)
    ends: dict[Action, int] = {}
    clocks, queues = [0] * len(orders), [list(actions) for actions in orders]
    while any(queues):
        waiting = sum(map(len, queues))
        for rank, queue in enumerate(queues):
            while queue and (began := find_start(queue[0], stages, ends)) is not None:
                action = queue.pop(0)
                clocks[rank] = max(clocks[rank], began) + (FORWARD if action[0] else BACKWARD)
                ends[action] = clocks[rank]
        assert sum(map(len, queues)) < waiting, queues
    return 1 - len(ends) * (FORWARD + BACKWARD) / 2 / len(orders) / max(clocks)


def find_start(action: Action, stages: int, ends: Mapping[Action, int]) -> int | None:
    """Return when what an action waits for has ended; None while it has not."""
    is_forward, stage, piece = action
    if is_forward:
        return 0 if stage == 0 else ends.get((True, stage - 1, piece))
    last = (True, stage, piece) if stage == stages - 1 else (False, stage + 1, piece)
    return ends.get(last)


def formula(trainer: Trainer, pieces: int) -> float:
    """Return (p - 1) / (v m + p - 1) for v chunks per stage (Narayanan et al., 2021)."""
    chunks = 1 if trainer.schedule == "1f1b" else 2
    return (trainer.pipeline - 1) / (chunks * pieces + trainer.pipeline - 1)


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
    assert done.returncode == 0, done.stderr[-5000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main(*names: str) -> None:
    with processes.join_processes(CPU):
        for name in names:
            row = measure(name)
            if dist.get_rank() == 0:
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
