"""`python -m nightshift.models.neural.shares REQUEST`: what the processes of a training do in the time of a step.

REQUEST is what `simulated.py` takes, and a `fault` to plant, empty for none. On the CPU each process
has a core of its own. The answer is what all of them have measured, for `packages/perf/nightshift_perf/replicas.py`.
"""

import math
import os
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nightshift.models.neural import simulated
from nightshift.models.neural.data import Batch
from nightshift.models.neural.simulated import Request
from nightshift.models.neural.trainer import NetworkTraining

FIRST, LEAST, SECONDS = 2, 7, 4.0  # rounds that do not count, rounds that do at least, and how long those take
SLOW_PROCESS, STARVED_LOADER = "slow-process", "starved-loader"
DELAY = 0.5  # share of a step by which a fault delays it


class TimedTraining:
    """A training whose steps are timed in parts.

    Args:
        training: what is trained.
        fault: delays the last of several processes' computation, or everybody's rows; empty for none.
    """

    def __init__(self, training: NetworkTraining, fault: str) -> None:
        self._training, self._batches = training, training.batches()
        self._computing = self._waiting = 0.0
        for _ in range(FIRST):
            seconds = self._round()
        # the slowest process decides, so that all take equally many
        slowest = max(timings[2] for timings in gather_values(seconds))
        self._rounds = max(LEAST, math.ceil(SECONDS / (2 * slowest)))
        if fault == STARVED_LOADER:
            self._waiting = DELAY * slowest
        elif fault == SLOW_PROCESS and 0 < _rank() == _processes() - 1:
            self._computing = DELAY * slowest

    def measure(self) -> list[list[float]]:
        """Return seconds of each process: waiting for rows, computing with nobody, and a step with all."""
        rounds = [self._round() for _ in range(self._rounds)]
        return gather_values([median(part) for part in zip(*rounds, strict=True)])

    def _round(self) -> list[float]:
        _meet()
        began = time.perf_counter()
        batch = self._next()
        waited = time.perf_counter() - began
        self._step(batch)
        together = time.perf_counter() - began
        batch = self._next()
        _meet()
        began = time.perf_counter()
        with self._training.replica.no_sync():
            self._step(batch)
        return [waited, time.perf_counter() - began, together]

    def _next(self) -> Batch:
        time.sleep(self._waiting)
        batch = next(self._batches)
        _finish()
        return batch

    def _step(self, batch: Batch) -> None:
        time.sleep(self._computing)
        self._training.step(batch)
        _finish()


def gather_values(values: list[float]) -> list[list[float]]:
    """Return what each process has found, in their order."""
    if not dist.is_initialized():
        return [values]
    every = [torch.zeros(len(values), dtype=torch.float64) for _ in range(_processes())]
    dist.all_gather(every, torch.tensor(values, dtype=torch.float64))
    return [timings.tolist() for timings in every]


def exchange(size: int, device: torch.device) -> float:
    """Return the seconds in which processes sum so many float32 in one piece; 0 of one process."""
    if not dist.is_initialized():
        return 0.0
    buffer = torch.zeros(size, device=device)
    return median(_time_call(lambda: dist.all_reduce(buffer)) for _ in range(FIRST + LEAST))


def pieces(module: nn.Module) -> int:
    """Return in how many pieces replicas exchange gradients."""
    if not isinstance(module, DistributedDataParallel):
        return 1
    logging_data = module._get_ddp_logging_data()  # type: ignore[no-untyped-call]  # noqa: SLF001 nothing else tells
    return len(str(logging_data["rebuilt_bucket_sizes"] or logging_data["bucket_sizes"]).split(","))


def measure_shares(request: Request, device: torch.device) -> None:
    """Measure and say it."""
    if device.type == "cpu":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(os.environ.get("LOCAL_RANK", "0")) % len(cores)]})
    with simulated.training(request, device) as training:
        size = sum(parameter.numel() for part in training.replica.parts for parameter in part.parameters())
        answer = {"processes": TimedTraining(training, request["fault"]).measure(), "exchange": exchange(size, device)}
        answer |= {
            "pieces": pieces(training.replica.module),
            "bytes": 4 * size,
            "rows": training.replica.fit.batch_size,
        }
        simulated.say(answer)


def _time_call(call: Callable[[], object]) -> float:
    _meet()
    began = time.perf_counter()
    call()
    _finish()
    return time.perf_counter() - began


def _meet() -> None:
    _finish()
    if dist.is_initialized():
        dist.barrier()


def _finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _processes() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


if __name__ == "__main__":
    simulated.answer(sys.argv[1], measure_shares)
