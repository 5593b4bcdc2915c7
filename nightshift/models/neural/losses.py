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

    Between two points nothing is computed or fetched from the device: on a CPU to add two numbers with PyTorch takes up
    to a fiftieth of a small network's step.

    Args:
        steps: of the whole training.

    Attributes:
        points: (number of the step that ends a part, mean loss of the batches in it), where that is finite.
    """

    def __init__(self, steps: int) -> None:
        self.points: Points = []
        self._steps, self._every = steps, math.ceil(steps / POINTS)
        self._new: list[Tensor] = []  # since they were fetched
        self._sum, self._count = 0.0, 0  # sum and count of the part's earlier losses

    def add(self, done: int, loss: Tensor) -> None:
        """Take in the loss of a step; all processes do so after the same one."""
        self._new.append(loss)
        if done % self._every and done < self._steps:
            return
        self._fetch()
        mean = self._sum / self._count
        if math.isfinite(mean):  # that of half precision may overflow, and JSON has no such number
            self.points.append((done, mean))
        self._sum, self._count = 0.0, 0

    def state(self) -> dict[str, Any]:
        """Return what `load` goes on from, as JSON has it; all processes call it after the same step."""
        self._fetch()
        return {"points": self.points.copy(), "sum": self._sum, "count": self._count}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` has returned in any of the processes."""
        self.points = [(step, loss) for step, loss in state["points"]]
        self._sum, self._count = state["sum"], state["count"]

    def _fetch(self) -> None:
        # one after the other, as without a checkpoint inside the part
        for loss in average_losses(self._new):
            self._sum += loss
        self._count += len(self._new)
        self._new.clear()


def average_losses(losses: list[Tensor]) -> list[float]:
    """Return the means of losses () over the processes that know them: of a pipeline, those of its last stage."""
    if not dist.is_initialized() or not losses:
        return [loss.item() for loss in losses]
    stacked = torch.stack(losses)
    is_known = ~stacked.isnan()
    known = torch.stack([stacked.where(is_known, 0), is_known.to(stacked.dtype)])
    dist.all_reduce(known)
    mean: list[float] = (known[0] / known[1]).tolist()
    return mean
