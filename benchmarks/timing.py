"""How long calls take, beside each other."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TypeVar

from torch import cuda

ROUNDS = 20

T = TypeVar("T")


def in_turn(calls: Mapping[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the median seconds of each call; they take turns, so that noise meets all. The first round is left out."""
    durations: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            durations[name].append(time.perf_counter() - began)
    return {name: median(seconds[1:]) for name, seconds in durations.items()}


def wait_for_gpu(work: Callable[[], T]) -> T:
    """Return what work gives once the GPU is done with it."""
    outcome = work()
    if cuda.is_available():
        cuda.synchronize()
    return outcome
