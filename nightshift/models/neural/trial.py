"""`python -m nightshift.models.neural.trial REQUEST`: trains a network on request, for `nightshift perf tune`.

REQUEST is what `simulated.py` takes. The program says what it has found, then answers each line of
its input: an empty one with what a stretch of steps took, another one when the trace of a stretch lies where it says.
"""

import signal
import sys
import time
from enum import IntEnum

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function

from nightshift.models.neural import devices, simulated
from nightshift.models.neural.simulated import Request
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.runtime import step

SECONDS = 0.05  # seconds of a stretch
FIRST = 3  # stretches that do not count: memory is allocated, kernels are chosen, blocks are compiled


class Command(IntEnum):
    """What a line of the input asks all processes for."""

    END = 0
    STRETCH = 1
    TRACE = 2


class StretchTimer:
    """A training that goes on from stretch to stretch."""

    def __init__(self, training: NetworkTraining) -> None:
        self._training, self._device = training, training.replica.device
        self._batches = self._training.batches()
        self.steps = 1
        seconds = [self.stretch()["seconds"] for _ in range(2 * FIRST)]
        self.steps = max(1, round(SECONDS / min(seconds[FIRST:])))

    def stretch(self) -> dict[str, float]:
        """Take some steps; return their rows, and in the mean of all processes seconds, and CPU seconds of them all."""
        devices.wait(self._device)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(self.steps):
            self._step()
        devices.wait(self._device)
        times = torch.tensor([time.perf_counter() - wall, time.process_time() - cpu], dtype=torch.float64)
        if dist.is_initialized():
            dist.all_reduce(times)
            times[0] /= dist.get_world_size()
        seconds, cpu_seconds = times.tolist()
        # random rows come in whole batches
        return {"rows": self.steps * self._training.fit.batch_size, "seconds": seconds, "cpu_seconds": cpu_seconds}

    def trace(self, path: str) -> None:
        """Take some steps under torch.profiler; the first process writes what it has seen, `.json.gz`."""
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._device.type == "cuda" else [])]
        with profile(activities=activities, acc_events=True) as profiler:
            for number in range(self.steps):
                with record_function(f"ProfilerStep#{number}"):
                    self._step()
            devices.wait(self._device)
        if step.is_first():
            profiler.export_chrome_trace(path)

    def _step(self) -> None:
        self._training.step(next(self._batches))


def answer_commands(request: Request, device: torch.device) -> None:
    """Answer until the input ends."""
    with simulated.training(request, device) as training:
        trial = StretchTimer(training)
        gpu = torch.cuda.get_device_name() if device.type == "cuda" else ""
        arithmetic = devices.arithmetic(training.replica.model, training.replica.fit.precision)
        simulated.say({"flops": training.replica.recipe.flops(), "gpu": gpu, "arithmetic": arithmetic})
        while (asks := _next())[0] is not Command.END:
            if asks[0] is Command.TRACE:
                trial.trace(asks[1])
                simulated.say({"trace": asks[1]})
            else:
                simulated.say(trial.stretch())


def _next() -> tuple[Command, str]:
    """Return what the next line asks for, and the path it holds, both of which only the first process sees."""
    line = sys.stdin.readline() if step.is_first() else ""
    path = line.strip()
    command = torch.tensor(Command.TRACE if path else Command.STRETCH if line else Command.END)
    if dist.is_initialized():
        dist.broadcast(command, 0)
    return Command(int(command)), path


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # where nobody waits for the answer any more, it ends without a word
    simulated.answer(sys.argv[1], answer_commands)
