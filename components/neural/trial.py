"""`python -m components.neural.trial VARIANT`: trains a network on request, for `components/profiling/tuning.py`.

VARIANT is JSON: `device`, the network's `kind`, `shape` and `parameters`, how many `rows`, and `trainer`, how processes
share it. The program says what it has found, then answers each line of its input with what a stretch of
steps took. Rows are drawn at random, since speed depends on their shape. Where torchrun has started several processes,
the first one reads and answers.
"""

import json
import signal
import sys
import time
from typing import Any

import torch
import torch.distributed as dist

from components.common import step
from components.common.config.neural import Trainer
from components.common.errors import UserError
from components.neural import devices, processes, simulated
from components.neural.data import Resident
from components.neural.recipes import Recipe
from components.neural.trainer import Training

SECONDS = 0.05  # of a stretch
FIRST = 3  # stretches that do not count: memory is allocated, kernels are chosen, blocks are compiled
ENDLESS = 10**9  # epochs
LENGTH = 300  # of a reason


class Trial:
    """A training that goes on from stretch to stretch.

    Args:
        recipe: what is trained.
        trainer: how the processes share it.
        rows: what it is trained on.

    Raises:
        UserError: when the processes cannot share it so.
    """

    def __init__(self, recipe: Recipe, trainer: Trainer, rows: Resident) -> None:
        self._device = rows.labels.device
        self._training = Training(processes.replica(recipe, trainer, self._device), rows)
        self._batches = self._training.batches()
        self.steps = 1
        taken = [self.stretch()["seconds"] for _ in range(2 * FIRST)]
        self.steps = max(1, round(SECONDS / min(taken[FIRST:])))

    def stretch(self) -> dict[str, float]:
        """Take some steps; return their rows, and in the mean of all processes seconds, and CPU seconds of them all."""
        self._wait()
        wall, cpu = time.perf_counter(), time.process_time()
        rows = sum(self._step() for _ in range(self.steps))
        self._wait()
        taken = torch.tensor([time.perf_counter() - wall, time.process_time() - cpu], dtype=torch.float64)
        if dist.is_initialized():
            dist.all_reduce(taken)
            taken[0] /= dist.get_world_size()
        seconds, cpu_seconds = taken.tolist()
        return {"rows": rows, "seconds": seconds, "cpu_seconds": cpu_seconds}

    def _step(self) -> int:
        batch = next(self._batches)
        self._training.step(batch)
        return len(batch[1])

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()


def main(variant: str) -> None:
    """Answer until the input ends."""
    asked = json.loads(variant)
    try:
        _answer(asked, devices.torch_device(asked["device"]))
    except (UserError, RuntimeError) as error:  # the latter: out of memory, no compiler
        _say({"refused": " ".join((str(error) or type(error).__name__).split())[:LENGTH]})
        sys.exit(step.USER_ERROR)


def _answer(asked: dict[str, Any], device: torch.device) -> None:
    recipe = simulated.recipe(asked["kind"], asked["shape"], {**asked["parameters"], "epochs": ENDLESS})
    with processes.joined(device), devices.reproducible(0, recipe.fit.threads):
        rows = simulated.rows(recipe, asked["rows"], device)
        trial = Trial(recipe, Trainer.model_validate(asked["trainer"]), rows)
        gpu = torch.cuda.get_device_name() if device.type == "cuda" else ""
        _say({"flops": recipe.flops(), "gpu": gpu})
        while _is_asked():
            _say(trial.stretch())


def _is_asked() -> bool:
    """Return whether there is another line, which only the first process sees."""
    more = torch.tensor(int(step.is_first() and bool(sys.stdin.readline())))
    if dist.is_initialized():
        dist.broadcast(more, 0)
    return bool(more)


def _say(found: dict[str, Any]) -> None:
    if step.is_first():
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # where nobody waits for the answer any more, it ends without a word
    main(sys.argv[1])
