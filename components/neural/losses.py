"""The course of a training's loss, from its first step to its last."""

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

POINTS = 100  # at most so many parts of a training have a point each

Points = list[tuple[int, float]]


class Losses:
    """Mean losses of equal parts of a training.

    Between two points nothing is fetched from the device.

    Args:
        steps: of the whole training.
        device: where losses are.

    Attributes:
        points: (number of the step that ends a part, mean loss of the batches in it), where that is finite.
    """

    def __init__(self, steps: int, device: torch.device) -> None:
        self.points: Points = []
        self._steps, self._every = steps, math.ceil(steps / POINTS)
        self._sum, self._count = torch.zeros((), device=device), 0

    def add(self, done: int, loss: Tensor) -> None:
        """Take in the loss of a step; all processes do so after the same one."""
        self._sum += loss
        self._count += 1
        if done % self._every and done < self._steps:
            return
        mean = averaged(self._sum).item() / self._count
        if math.isfinite(mean):  # that of half precision may overflow, and JSON has no such number
            self.points.append((done, mean))
        self._sum.zero_()
        self._count = 0

    def state(self) -> dict[str, Any]:
        """Return what `load` goes on from, as JSON has it; all processes call it after the same step."""
        self._sum = averaged(self._sum)
        return {"points": self.points.copy(), "sum": self._sum.item(), "count": self._count}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` has returned in any of the processes."""
        self.points = [(step, loss) for step, loss in state["points"]]
        self._sum, self._count = torch.full_like(self._sum, state["sum"]), state["count"]


def averaged(loss: Tensor) -> Tensor:
    """Return the mean of a loss () over the processes that know it: of a pipeline, those of its last stage."""
    if not dist.is_initialized():
        return loss
    is_known = ~loss.isnan()
    known = torch.stack([loss.where(is_known, 0), is_known.to(loss.dtype)])
    dist.all_reduce(known)
    return known[0] / known[1]
