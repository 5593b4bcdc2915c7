"""`python -m components.neural.trial REQUEST`: trains a network on request, for `components/profiling/tuning.py`.

REQUEST is what `components/neural/simulated.py` takes. The program says what it has found, then answers each line of
its input with what a stretch of steps took.
"""

import signal
import sys
import time

import torch
import torch.distributed as dist

from components.common import step
from components.neural import simulated
from components.neural.simulated import Request
from components.neural.trainer import Training

SECONDS = 0.05  # of a stretch
FIRST = 3  # stretches that do not count: memory is allocated, kernels are chosen, blocks are compiled


class Trial:
    """A training that goes on from stretch to stretch."""

    def __init__(self, training: Training) -> None:
        self._training, self._device = training, training.replica.device
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


def measured(asked: Request, device: torch.device) -> None:
    """Answer until the input ends."""
    with simulated.training(asked, device) as training:
        trial = Trial(training)
        gpu = torch.cuda.get_device_name() if device.type == "cuda" else ""
        simulated.say({"flops": training.replica.recipe.flops(), "gpu": gpu})
        while _is_asked():
            simulated.say(trial.stretch())


def _is_asked() -> bool:
    """Return whether there is another line, which only the first process sees."""
    more = torch.tensor(int(step.is_first() and bool(sys.stdin.readline())))
    if dist.is_initialized():
        dist.broadcast(more, 0)
    return bool(more)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # where nobody waits for the answer any more, it ends without a word
    simulated.answer(sys.argv[1], measured)
