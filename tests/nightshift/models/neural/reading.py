"""Four processes: which rows of an epoch each of them gathers, in every kind of layout.

Prints a line a layout: its name, and what part of all bytes each process has gathered. Processes have gathered all rows
once, each part of them as often as processes share a part.
"""

from collections import Counter
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from nightshift.config.neural import Trainer
from nightshift.models.neural import devices, mesh, pipeline, processes  # noqa: F401 once, for every process
from nightshift.models.neural.blocks import ConditionedBlocks
from nightshift.models.neural.data import GatherDataset, gather_streamed
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes.mlp import MLP, MLPParameters
from tests.nightshift.models.neural import forked

CPU = torch.device("cpu")
# name -> how many parts the rows have, and the layout
LAYOUTS: dict[str, tuple[int, dict[str, Any]]] = {
    "ddp": (4, {}),
    "zero-3": (4, {"zero": 3}),
    "hsdp 2 x 2": (4, {"shard": 2}),
    "fsdp 2 x tp 2": (2, {"shard": 2, "tensor": 2}),
    "pp 2 x fsdp 2": (2, {"pipeline": 2, "shard": 2}),
    "dp 2 x cp 2": (2, {"shard": 2, "context": 2}),
    "tp 4": (1, {"tensor": 4}),
    "pp 2 x tp 2": (1, {"pipeline": 2, "tensor": 2}),
}
PROCESSES, ROWS, BATCH = 4, 96, 32


class Conditioned(MLP):
    """Its blocks may share the tokens of a row."""

    def model(self) -> nn.Sequential:
        return ConditionedBlocks(*super().model())


def gather_rows(layout: dict[str, Any]) -> list[int]:
    """Return the numbers of the rows that this process gathers in an epoch."""
    parameters = MLPParameters(hidden=8, layers=3, batch_size=BATCH, epochs=1, microbatches=4)
    recipe = (Conditioned if "context" in layout else MLP)(5, parameters)
    inputs, gathered = np.zeros((ROWS, 5), np.float32), list[int]()

    def take(rows: np.ndarray) -> np.ndarray:
        gathered.extend(rows.tolist())
        return inputs[rows]

    with devices.reproducible(0, threads=1):
        dataset = GatherDataset(gather_streamed(take, inputs[0].nbytes, CPU), torch.zeros(ROWS), BATCH)
        training = NetworkTraining(processes.replica(recipe, Trainer.model_validate(layout), CPU), dataset)
        for _ in training.batches():
            training.done += 1
    return gathered


def main() -> None:
    with processes.join_processes(CPU):
        for name, (parts, layout) in LAYOUTS.items():
            gathered: list[Any] = [None] * PROCESSES
            dist.all_gather_object(gathered, gather_rows(layout))
            copies = PROCESSES // parts
            assert set(Counter(map(tuple, gathered)).values()) == {copies}, name
            assert Counter(row for rows in gathered for row in rows) == dict.fromkeys(range(ROWS), copies), name
            if dist.get_rank() == 0:
                print(f"{name}: {' '.join(str(len(rows) / ROWS) for rows in gathered)}", flush=True)


if __name__ == "__main__":
    forked.run(PROCESSES, main)
