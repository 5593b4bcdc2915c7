"""Started alone or by torchrun: train a network with checkpoints, and leave its weights and losses.

Flags: folder, the layout as JSON, seconds between checkpoints, seconds that a step takes at least, and, to do without
torchrun, the number of processes.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nightshift.config.neural import Trainer
from nightshift.models.neural import checkpoints, devices, processes, trainer
from nightshift.models.neural.data import ResidentDataset
from nightshift.models.neural.trainer import NetworkTraining, TrainedNetwork
from nightshift.models.recipes import mlp
from nightshift.models.recipes.mlp import MLP, MLPParameters
from nightshift.runtime import step
from nightshift.runtime.errors import PreemptedError
from tests.nightshift.models.neural import forked

CPU = torch.device("cpu")
PARAMETERS = MLPParameters(
    hidden=8,
    layers=3,
    epochs=4,
    batch_size=10,
    learning_rate=0.02,
    weight_decay=0.5,
    microbatches=2,
    ema_decay=0.9,
)
STEPS = 44  # 103 rows


def rows(size: int = PARAMETERS.batch_size) -> ResidentDataset:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(103, 5)).astype(np.float32)
    labels = (matrix[:, 0] * matrix[:, 1] > 0).astype(np.int8)
    return ResidentDataset(*mlp.resident(matrix, labels, CPU), size)


def fitted(replica: Any, keeper: Any = None) -> TrainedNetwork:
    return trainer.fit(replica, rows(), keeper)


def left(trained: TrainedNetwork) -> dict[str, torch.Tensor]:
    """Everything that a training leaves."""
    kept = torch.tensor([*trained.choices.values()], dtype=torch.float64)
    losses = torch.tensor(trained.losses, dtype=torch.float64)
    return trained.model.state_dict() | {"losses": losses} | ({"kept": kept} if len(kept) else {})


class Slow:
    """Checkpoints that leave a line a step."""

    def __init__(self, inner: checkpoints.Checkpoints, folder: Path, seconds: float) -> None:
        self.inner, self.folder, self.seconds = inner, folder, seconds

    def resume(self, training: NetworkTraining) -> None:
        self.inner.resume(training)
        (self.folder / f"{os.environ.get('RANK', '0')}.pid").write_text(str(os.getpid()))
        self._note(f"resumed {training.done}")

    def after(self, training: NetworkTraining) -> None:
        self._note(f"step {training.done}")
        time.sleep(self.seconds)
        self.inner.after(training)

    def finish(self) -> None:
        self.inner.finish()

    def _note(self, line: str) -> None:
        if step.is_first():
            with (self.folder / "steps.txt").open("a") as file:
                print(line, file=file)


def main() -> None:
    folder, shared = Path(sys.argv[1]), Trainer.model_validate(json.loads(sys.argv[2]))
    every, pause = (float(word) for word in sys.argv[3:5])
    try:
        with processes.join_processes(CPU), checkpoints.open_checkpoints(str(folder / "kept"), every) as kept:
            with devices.reproducible(0, threads=1):
                replica = processes.replica(MLP(5, PARAMETERS), shared, CPU)
                weights = left(fitted(replica, Slow(kept, folder, pause)))
            if step.is_first():
                torch.save(weights, folder / "weights.pt")
    except PreemptedError as error:
        print(error, file=sys.stderr)
        sys.exit(step.PREEMPTED)


if __name__ == "__main__":
    forked.run(int(sys.argv[5]), main) if len(sys.argv) > 5 else main()
