"""`python -m nightshift.models.neural.shares REQUEST`: what the processes of a training do in the time of a step.

REQUEST is what `simulated.py` takes, and an injected `fault`, empty for none. On the CPU each process stays on one
core, which it shares with others where there are more processes than cores. The answer is what all of them have
measured, for `packages/perf/nightshift_perf/replicas.py`.
"""

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from nightshift.models.neural import devices, simulated
from nightshift.models.neural.data import BatchShare
from nightshift.models.neural.pipeline import PipelineReplica
from nightshift.models.neural.simulated import Request
from nightshift.models.neural.trainer import NetworkTraining

FIRST, LEAST, SECONDS = 2, 7, 3.0  # steps that do not count, steps that do at least, and how long those take
TRACED = 3  # steps of a GPU's trace
SLOW_PROCESS, STARVED_LOADER = "slow-process", "starved-loader"
DELAY = 0.5  # share of a step by which a fault delays it
SCHEDULER = Path("/proc/thread-self/schedstat")  # of Linux: nanoseconds on a core, ready without a core, turns
PASSES = {"forward": "forward_one_chunk", "backward": "backward_one_chunk", "weight": "backward_weight_one_chunk"}


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a step in one process.

    Attributes:
        loading: waiting for rows.
        computing: of the thread that trains on its core, or of a GPU's kernels that do not communicate.
        queued: in which that thread was ready and had no core; 0 where the system does not say.
        step: all of it.
    """

    loading: float
    computing: float
    queued: float
    step: float

    @classmethod
    def median(cls, steps: Iterable["StepTimes"]) -> "StepTimes":
        """Return the median of each part."""
        return cls(*map(median, zip(*map(astuple, steps), strict=True)))


@dataclass
class PieceTimer:
    """Times what stages of a pipeline compute in this process, piece by piece.

    Attributes:
        device: where they do.
        steps: of each step its pieces, in order: pass, stage, number, and marks of the clock before and after.
    """

    device: torch.device
    steps: list[list[tuple[str, int, int, Any, Any]]] = field(default_factory=list)

    def watch(self, replica: PipelineReplica) -> None:
        """Time every piece from now on."""
        for stage in replica.stages:
            for work, name in PASSES.items():
                setattr(stage, name, partial(self._time, (work, stage.stage_index), getattr(stage, name)))

    def pieces(self) -> list[tuple[str, int, int, float]]:
        """Return the pieces of a step, each with the median of its seconds."""
        return [
            (*pieces[0][:3], median(self._seconds(*piece[3:]) for piece in pieces))
            for pieces in zip(*self.steps, strict=True)
        ]

    def _time(self, kind: tuple[str, int], call: Callable[..., Any], number: int, *args: Any, **options: Any) -> Any:
        before = self._mark()
        result = call(number, *args, **options)
        self.steps[-1].append((*kind, number, before, self._mark()))
        return result

    def _mark(self) -> Any:
        if self.device.type == "cpu":
            return time.thread_time()
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _seconds(self, before: Any, after: Any) -> float:
        return float(after - before if self.device.type == "cpu" else before.elapsed_time(after) / 1e3)


class TimedTraining:
    """A training whose steps are timed in parts.

    Args:
        training: what is trained.
        fault: delays the last of several processes' computation, or everybody's rows; empty for none.
    """

    def __init__(self, training: NetworkTraining, fault: str) -> None:
        self._training, self._batches, self._device = training, training.batches(), training.replica.device
        self._spinning = self._sleeping = 0.0
        self.timer = PieceTimer(self._device)
        if isinstance(training.replica, PipelineReplica):
            self.timer.watch(training.replica)
        for _ in range(FIRST):
            seconds = self._time_step().step
        # the slowest process decides, so that all take equally many
        slowest = max(gather(seconds))
        self._steps = max(LEAST, math.ceil(SECONDS / slowest))
        if fault == STARVED_LOADER:
            self._sleeping = DELAY * slowest
        elif fault == SLOW_PROCESS and 0 < _rank() == _processes() - 1:
            self._spinning = DELAY * slowest

    def measure(self) -> StepTimes:
        """Return the seconds of a step."""
        self.timer.steps.clear()
        meet()
        times = StepTimes.median([self._time_step() for _ in range(self._steps)])
        return times if self._device.type == "cpu" else StepTimes(**asdict(times) | {"computing": self._trace()})

    def _time_step(self) -> StepTimes:
        began, queued = time.perf_counter(), read_queued()
        batch = self._next()
        loaded, on_core, queued_before = time.perf_counter(), time.thread_time(), read_queued()
        self._step(batch)
        return StepTimes(
            loading=max(loaded - began - (queued_before - queued), 0.0),
            computing=time.thread_time() - on_core,
            queued=read_queued() - queued,
            step=time.perf_counter() - began,
        )

    def _trace(self) -> float:
        """Return the seconds of a step in which a GPU's kernels compute."""
        with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
            for _ in range(TRACED):
                self._step(self._next())
        events: Any = profiler.events()
        kernels = (event for event in events if event.device_type.name == "CUDA" and "nccl" not in event.name)
        return merge_intervals((event.time_range.start, event.time_range.end) for event in kernels) / 1e6 / TRACED

    def _next(self) -> BatchShare:
        time.sleep(self._sleeping)
        batch = next(self._batches)
        devices.wait(self._device)
        return batch

    def _step(self, batch: BatchShare) -> None:
        self.timer.steps.append([])
        spin(self._spinning)
        self._training.step(batch)
        devices.wait(self._device)


def merge_intervals(intervals: Iterable[tuple[float, float]]) -> float:
    """Return how much lies in one of several intervals at least."""
    total, end = 0.0, -math.inf
    for first, last in sorted(intervals):
        total += max(last - max(first, end), 0.0)
        end = max(end, last)
    return total


def read_queued() -> float:
    """Return for how many seconds this thread has been ready and had no core; 0 where the system does not say."""
    with suppress(OSError):
        return int(SCHEDULER.read_text().split()[1]) / 1e9
    return 0.0


def spin(seconds: float) -> None:
    """Keep the core busy."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


def gather(value: Any) -> list[Any]:
    """Return what each process has found, in their order."""
    values: list[Any] = [value] * _processes()
    if dist.is_initialized():
        dist.all_gather_object(values, value)
    return values


def measure_gradients(module: nn.Module, device: torch.device) -> dict[str, Any]:
    """Measure the exchange of gradients where processes replicate the whole network.

    Returns:
        `bytes`, in how many `buckets` they are exchanged, and the seconds of a sum of all in one piece, `exchange`,
        and of half of them, `half_exchange`; empty for other layouts.
    """
    if not isinstance(module, DistributedDataParallel):
        return {}
    size = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
    logging_data = module._get_ddp_logging_data()  # type: ignore[no-untyped-call]  # noqa: SLF001 nothing else tells
    buckets = len(str(logging_data["rebuilt_bucket_sizes"] or logging_data["bucket_sizes"]).split(","))
    answer = {"exchange": time_sum(size, device), "half_exchange": time_sum(size // 2, device)}
    return answer | {"buckets": buckets, "bytes": 4 * size}


def time_sum(size: int, device: torch.device) -> float:
    """Return the seconds in which processes sum so many float32 in one piece."""
    buffer = torch.zeros(size, device=device)
    return median(_time_call(lambda: dist.all_reduce(buffer)) for _ in range(FIRST + LEAST))


def measure_shares(request: Request, device: torch.device) -> None:
    """Measure a training with random rows, and say it."""
    with one_core(device), simulated.training(request, device) as training:
        report_shares(request["fault"], training)


def report_shares(fault: str, training: NetworkTraining) -> None:
    """Measure a training, and say it; its processes have a core each, if there are as many."""
    timed = TimedTraining(training, fault)
    times = timed.measure()
    answer: dict[str, Any] = {"processes": gather(asdict(times) | {"pieces": timed.timer.pieces()})}
    answer |= {"gradients": measure_gradients(training.replica.module, training.replica.device)}
    simulated.say(answer | {"rows": training.fit.batch_size})


@contextmanager
def one_core(device: torch.device) -> Iterator[None]:
    """Keep this process on one core, where it computes there."""
    cores = sorted(os.sched_getaffinity(0))
    if device.type == "cpu":
        os.sched_setaffinity(0, {cores[int(os.environ.get("LOCAL_RANK", "0")) % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def meet() -> None:
    """Wait for the other processes."""
    if dist.is_initialized():
        dist.barrier()


def _time_call(call: Callable[[], object]) -> float:
    meet()
    began = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _processes() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


if __name__ == "__main__":
    simulated.answer(sys.argv[1], measure_shares)
