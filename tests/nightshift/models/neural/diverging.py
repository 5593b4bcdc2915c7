"""Two processes, of which one gets a weight that is not finite: leaves why each training ended.

Flag: a folder, for checkpoints and `<layout>-<process>.txt`.
"""

import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

from nightshift.config.neural import Trainer
from nightshift.models.neural import devices, processes
from nightshift.models.neural.checkpoints import Checkpoints
from nightshift.models.neural.parallel import shard
from nightshift.models.neural.preemption import PreemptionNotice
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes.mlp import MLP
from nightshift.runtime.errors import UserError
from tests.nightshift.models.neural import forked, resumable
from tests.nightshift.models.neural.resumable import CPU, PARAMETERS

LAYOUTS: list[dict[str, Any]] = [{}, {"shard": 2}, {"pipeline": 2}]


def own_part(training: NetworkTraining) -> Tensor:
    """Return what this process has of its first weight."""
    return shard(next(training.replica.parts[0].parameters()).data)


class Spoiling(Checkpoints):
    """Checkpoints after every step; one process's weight is spoiled after the sixth."""

    def after(self, training: NetworkTraining) -> None:
        if training.done == 6 and dist.get_rank() == 1:
            own_part(training).fill_(float("inf"))
        super().after(training)


def main(folder: str) -> None:
    with processes.join_processes(CPU):
        for number, layout in enumerate(LAYOUTS):
            kept = Spoiling(f"{folder}/{number}", 0, PreemptionNotice())
            try:
                with devices.reproducible(0, threads=1):
                    replica = processes.replica(MLP(5, PARAMETERS), Trainer.model_validate(layout), CPU)
                    resumable.fitted(replica, kept)
            except UserError as error:
                Path(f"{folder}/{number}-{dist.get_rank()}.txt").write_text(str(error))


if __name__ == "__main__":
    forked.run(2, main, sys.argv[1])
