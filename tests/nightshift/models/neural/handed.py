"""Two processes: a training that is told to end again and again, and each time resumes in another layout.

Flag: a folder, for its checkpoints and the weights and losses that it ends with. Prints after which steps it resumed.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from nightshift.config.neural import Trainer
from nightshift.models.neural import checkpoints, devices, processes
from nightshift.models.neural.checkpoints import Checkpoints
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes.mlp import MLP
from nightshift.runtime import step
from nightshift.runtime.errors import PreemptedError
from tests.nightshift.models.neural import forked, resumable
from tests.nightshift.models.neural.resumable import CPU, PARAMETERS

WHOLE = None  # each process has all of it, as one alone has
LAYOUTS: list[dict[str, Any] | None] = [WHOLE, {"zero": 3}, {"shard": 2}, {"zero": 2}, {"zero": 3}, WHOLE]
STEPS = 6


class Ending:
    """Checkpoints of a training whose first process gets SIGTERM after some steps."""

    def __init__(self, inner: Checkpoints) -> None:
        self.inner = inner

    def resume(self, training: NetworkTraining) -> None:
        self.inner.resume(training)
        self.end = training.done + STEPS
        if step.is_first():
            print(training.done, flush=True)

    def after(self, training: NetworkTraining) -> None:
        if training.done == self.end and step.is_first():
            os.kill(os.getpid(), signal.SIGTERM)
        self.inner.after(training)

    def finish(self) -> None:
        self.inner.finish()


def replica(layout: dict[str, Any] | None) -> Replica:
    recipe = MLP(5, PARAMETERS)
    return Replica(recipe, CPU) if layout is WHOLE else processes.replica(recipe, Trainer.model_validate(layout), CPU)


@contextmanager
def kept_in(folder: Path) -> Iterator[Checkpoints]:
    with checkpoints.open_checkpoints(str(folder / "kept"), 1000) as kept, devices.reproducible(0, threads=1):
        yield kept


def main() -> None:
    folder = Path(sys.argv[1])
    with processes.join_processes(CPU):
        *others, last = LAYOUTS
        for layout in others:
            with suppress(PreemptedError), kept_in(folder) as kept:
                resumable.fitted(replica(layout), Ending(kept))
        with kept_in(folder) as kept:
            weights = resumable.left(resumable.fitted(replica(last), kept))
        if step.is_first():
            torch.save(weights, folder / "weights.pt")


if __name__ == "__main__":
    forked.run(2, main)
