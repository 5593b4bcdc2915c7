"""Started by torchrun: a training in whose fifth step one process stops; says when."""

import sys
import time

import torch
import torch.distributed as dist

from nightshift.config.neural import Trainer
from nightshift.models.neural import devices, processes, trainer
from nightshift.models.neural.data import ResidentDataset
from nightshift.models.recipes.mlp import MLP, MLPParameters

CPU = torch.device("cpu")


class StoppingDataset(ResidentDataset):
    """Rows of which one process waits forever for a batch."""

    def _batches(self, epoch):
        for number, batch in enumerate(super()._batches(epoch)):
            if number == 4 and dist.get_rank() == int(sys.argv[1]):
                time.sleep(3600)
            yield batch


def main() -> None:
    recipe = MLP(5, MLPParameters(hidden=8, batch_size=8))
    with processes.join_processes(CPU), devices.reproducible(0, threads=1):
        replica = processes.replica(recipe, Trainer(hang_seconds=2, shard=2), CPU)
        trainer.fit(replica, StoppingDataset(torch.randn(80, 5), torch.ones(80), 8))


if __name__ == "__main__":
    main()
