"""Two processes whose gradients PowerSGD compresses: a training that stops and resumes beside one that does not.

Flags: a folder for checkpoints, and the step after which it stops. Every process fails where a bit differs.
"""

import os
import signal
import sys
from contextlib import suppress

import torch

from nightshift.config.neural import Trainer
from nightshift.models.neural import checkpoints, devices, processes
from nightshift.models.recipes.mlp import MLP
from nightshift.runtime.errors import PreemptedError
from tests.nightshift.models.neural import forked, resumable
from tests.nightshift.models.neural.handed import Ending
from tests.nightshift.models.neural.resumable import CPU, PARAMETERS

POWER_SGD = Trainer.model_validate({"compression": "powersgd"})


class EndingAt(Ending):
    """Checkpoints of a training that is told to end after a step, in every process."""

    def __init__(self, inner: checkpoints.Checkpoints, end: int) -> None:
        super().__init__(inner)
        self.end = end

    def resume(self, training):
        self.inner.resume(training)

    def after(self, training):
        if training.done == self.end:
            os.kill(os.getpid(), signal.SIGTERM)
        self.inner.after(training)


def fitted(folder: str, end: int) -> dict[str, torch.Tensor]:
    """What a training leaves that goes on from a folder's checkpoints; it is told to end after a step."""
    with checkpoints.open_checkpoints(folder, 1000) as kept, devices.reproducible(0, threads=1):
        replica = processes.replica(MLP(5, PARAMETERS), POWER_SGD, CPU)
        return resumable.left(resumable.fitted(replica, EndingAt(kept, end)))


def main(folder: str, *ends: str) -> None:
    with processes.join_processes(CPU):
        undisturbed = fitted(f"{folder}/none", 0)
        for end in ends:
            with suppress(PreemptedError):
                fitted(f"{folder}/{end}", int(end))
            resumed = fitted(f"{folder}/{end}", 0)
            assert all(torch.equal(value, undisturbed[name]) for name, value in resumed.items()), f"after step {end}"


if __name__ == "__main__":
    forked.run(2, main, *sys.argv[1:])
