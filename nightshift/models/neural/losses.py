"""The course of a training's loss, from its first step to its last."""

import math
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

POINTS = 100  # at most so many parts of a training have a point each

SECONDS = 5.0  # between two fetches, about

Points = list[tuple[int, float]]


class DivergedError(RuntimeError):
    """A training has values that are not finite; all of its processes raise it after the same step."""


class Losses:
    """Mean losses of equal parts of a training.

    They are fetched from the device, and averaged over processes, at a point and every few seconds. Between nothing is
    computed: on a CPU to add two numbers with PyTorch takes up to a fiftieth of a small network's step.

    Args:
        steps: of the whole training.
        may_overflow: whether a loss may be infinite for a while, as that of half precision.

    Attributes:
        points: (number of the step that ends a part, mean loss of the batches in it), where that is finite.
        newest: mean loss of the batches that were fetched last; the same in every process, whatever lies there.
    """

    def __init__(self, steps: int, may_overflow: bool = False) -> None:
        self.points: Points = []
        self._may_overflow, self._done = may_overflow, 0
        self._steps, self._every = steps, math.ceil(steps / POINTS)
        self._new: list[Tensor] = []  # since they were fetched
        self._sum, self._count = 0.0, 0  # sum and count of the part's earlier losses
        self.newest = math.nan
        self._next, self._fetched = 0, time.monotonic()  # step of the next fetch, time of the last one

    def add(self, done: int, loss: Tensor) -> None:
        """Take in the loss of a step; all processes do so after the same one.

        Raises:
            DivergedError: when a loss since the last point is not finite.
        """
        self._new.append(loss)
        self._done = done
        is_point = done % self._every == 0 or done >= self._steps
        if is_point or done >= self._next:
            self._fetch()
        if not is_point:
            return
        mean = self._sum / self._count
        if math.isfinite(mean):  # JSON has no other number
            self.points.append((done, mean))
        self._sum, self._count = 0.0, 0

    def state(self) -> dict[str, Any]:
        """Return what `load` goes on from, as JSON has it; all processes call it after the same step.

        Raises:
            DivergedError: when a loss since the last point is not finite.
        """
        self._fetch()
        return {"points": self.points.copy(), "sum": self._sum, "count": self._count}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` has returned in any of the processes."""
        self.points = [(step, loss) for step, loss in state["points"]]
        self._sum, self._count = state["sum"], state["count"]

    def _fetch(self) -> None:
        if not self._new:
            return
        now = time.monotonic()
        losses, seconds = average_losses(self._new, now - self._fetched)
        self._next = self._done + max(1, int(len(losses) * SECONDS / max(seconds, 1e-6)))  # the same in every process
        self._fetched, self.newest = now, math.fsum(losses) / len(losses)
        # one after the other, as without a checkpoint inside the part
        for step, loss in enumerate(losses, self._done - len(losses) + 1):
            if not (self._may_overflow or math.isfinite(loss)):
                raise DivergedError(f"the loss of step {step:,} is {loss}")
            self._sum += loss
        self._count += len(self._new)
        self._new.clear()


def average_losses(losses: list[Tensor], seconds: float) -> tuple[list[float], float]:
    """Return the means of losses () and of the seconds that they took over the processes that know them.

    In a pipeline its last stage knows the losses, in the others they are not a number.
    """
    if not dist.is_initialized():
        return torch.stack(losses).tolist(), seconds
    stacked = torch.stack([*losses, torch.tensor(seconds).to(losses[0])])
    is_known = ~stacked.isnan()
    known = torch.stack([stacked.where(is_known, 0), is_known.to(stacked.dtype)])
    dist.all_reduce(known)
    *means, mean_seconds = (known[0] / known[1]).tolist()
    return means, mean_seconds
