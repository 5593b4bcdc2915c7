"""Measure the MLP's training loop: first as it is, then split into its parts, then with the profiler attached."""

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from components.tabular import mlp
from components.tabular.mlp import Loop, Parameters
from components.tabular.scaler import Matrix, Scaler

WARM_UP_STEPS = 20
MEASURED_STEPS = 500
PROFILED_STEPS = 60
TOP = 10
MUCH_WAITING = 0.2

Labels = npt.NDArray[np.int8]
Batches = Iterator[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Operation:
    """An operation's own time, without that of the operations it calls.

    Attributes:
        name: PyTorch's name of it.
        calls: how often it ran in the profiled steps.
        self_cpu_ms: milliseconds on the CPU.
        self_device_ms: milliseconds on the GPU, 0 without one.
        share: of the time of all operations, on the GPU if there is one; 0..1.
    """

    name: str
    calls: int
    self_cpu_ms: float
    self_device_ms: float
    share: float


@dataclass(frozen=True)
class Profile:
    """What was measured.

    Attributes:
        device: `cpu` or `cuda`.
        model: the kind of model whose training was measured.
        steps: steps taken in `seconds`, an epoch over the rows or its first `MEASURED_STEPS` batches.
        batch_size: rows of a step.
        rows_per_second: without any instrument attached.
        seconds: of those steps.
        data_wait_share: see `waiting`; 0..1.
        peak_memory_bytes: of the process on the CPU, of PyTorch's allocations on the GPU.
        flops_per_second: counted by PyTorch for matrix products, forward and backward.
        top_operations: those with the most time of their own.
        diagnosis: what the figures say, in a sentence.
    """

    device: str
    model: str
    steps: int
    batch_size: int
    rows_per_second: float
    seconds: float
    data_wait_share: float
    peak_memory_bytes: int
    flops_per_second: float
    top_operations: list[Operation]
    diagnosis: str


class Clock:
    """Seconds between laps; on the GPU a lap ends when all work handed to it is done."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the lap before."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        before, self._last = self._last, time.perf_counter()
        return self._last - before


def measure(matrix: Matrix, labels: Labels, parameters: Parameters, device: torch.device) -> tuple[Profile, profile]:
    """Measure the training loop.

    Args:
        matrix: inputs of the training rows, float32 (n, d).
        labels: 0 or 1, int8 (n,).
        parameters: of the MLP.
        device: where to train.

    Returns:
        the measurements, and PyTorch's profiler, whose trace can be exported.
    """
    rows = parameters.batch_size * MEASURED_STEPS
    scaled = Scaler.fitted(matrix).apply(matrix[:rows])
    with mlp.reproducible(0, parameters.threads):
        clock = Clock(device)
        data = mlp.resident(scaled, labels[:rows], device)
        copying = clock.lap()
        loop = Loop(mlp.network(matrix.shape[1], parameters).to(device), parameters, 3 * MEASURED_STEPS)
        _run(loop, _first(data, parameters, WARM_UP_STEPS))
        clock.lap()
        steps = _run(loop, mlp.batches(*data, parameters.batch_size))
        seconds = clock.lap()
        share = waiting(loop, data, parameters, copying / parameters.epochs)
        profiler = profiled(loop, _first(data, parameters, PROFILED_STEPS), device)
        flops = flops_of(loop, _first(data, parameters, 1))
    operations = top_operations(profiler, device)
    found = Profile(
        device=device.type,
        model="mlp",
        steps=steps,
        batch_size=parameters.batch_size,
        rows_per_second=len(scaled) / seconds,
        seconds=seconds,
        data_wait_share=share,
        peak_memory_bytes=peak_memory(device),
        flops_per_second=flops * steps / seconds,
        top_operations=operations,
        diagnosis=diagnosis(share, operations),
    )
    return found, profiler


def waiting(loop: Loop, data: tuple[Tensor, Tensor], parameters: Parameters, copying: float) -> float:
    """Return the share of an epoch in which no step can run because its rows are not there yet.

    That is the time to permute the rows, to cut them into batches and, spread over all epochs, to copy them to the
    device once. The rest is the steps: forward, backward, update. On the GPU each part is waited for, so that
    it is not counted with the next one.

    Args:
        loop: takes the steps.
        data: resident inputs and labels.
        parameters: the batch size is read from them.
        copying: seconds of the copy that fall on one epoch.
    """
    waited, worked, clock = copying, 0.0, Clock(data[0].device)
    for batch in mlp.batches(*data, parameters.batch_size):
        waited += clock.lap()
        loop.step(*batch)
        worked += clock.lap()
    return waited / (waited + worked)


def profiled(loop: Loop, batches: Batches, device: torch.device) -> profile:
    """Return PyTorch's profiler after some steps."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    profiler = profile(activities=activities, acc_events=True)
    with profiler:
        _run(loop, batches)
    return profiler


def flops_of(loop: Loop, batches: Batches) -> int:
    """Return the floating-point operations of some steps' matrix products, as PyTorch counts them."""
    with FlopCounterMode(display=False) as counter:
        _run(loop, batches)
    return int(counter.get_total_flops())


def top_operations(profiler: profile, device: torch.device) -> list[Operation]:
    """Return the operations with the most time of their own on the device, at most `TOP`."""
    events = [event for event in profiler.key_averages() if event.device_type.name == device.type.upper()]
    if device.type == "cuda":
        # PyTorch's own annotations span kernels that are counted already
        events = [event for event in events if not event.is_user_annotation]
    total = sum(_self_time(event, device) for event in events)
    events.sort(key=lambda event: -_self_time(event, device))
    return [
        Operation(
            name=event.key,
            calls=event.count,
            self_cpu_ms=round(event.self_cpu_time_total / 1000, 3),
            self_device_ms=round(event.self_device_time_total / 1000, 3),
            share=round(_self_time(event, device) / total, 4),
        )
        for event in events[:TOP]
    ]


def peak_memory(device: torch.device) -> int:
    """Return the highest memory use so far, in bytes."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def diagnosis(share: float, operations: list[Operation]) -> str:
    """Say what the figures mean, and what would help."""
    if share > MUCH_WAITING:
        return f"{share:.0%} of the time passes waiting for rows; a larger batch_size would cut the number of batches."
    most = operations[0]
    return (
        f"The loop computes: {share:.1%} of the time passes waiting for rows; {most.name} takes most, {most.share:.0%}."
    )


def _self_time(event: Any, device: torch.device) -> float:
    return float(event.self_device_time_total if device.type == "cuda" else event.self_cpu_time_total)


def _first(data: tuple[Tensor, Tensor], parameters: Parameters, steps: int) -> Batches:
    """Return the batches of at most `steps` steps."""
    rows = steps * parameters.batch_size
    return mlp.batches(data[0][:rows], data[1][:rows], parameters.batch_size)


def _run(loop: Loop, batches: Batches) -> int:
    """Take all steps; return how many."""
    steps = 0
    for batch in batches:
        loop.step(*batch)
        steps += 1
    return steps
