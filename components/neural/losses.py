"""The course of a training's loss, from its first step to its last."""

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

POINTS = 100  # at most so many parts of a training have a point each
AT_ONCE = 256  # losses that are fetched together

Points = list[tuple[int, float]]


class Losses:
    """Mean losses of equal parts of a training.

    They are fetched from the device now and then, many at once.

    Args:
        steps: of the whole training.
        device: where the processes exchange losses.
    """

    def __init__(self, steps: int, device: torch.device) -> None:
        self._steps, self._every, self._device = steps, math.ceil(steps / POINTS), device
        self._points: Points = []
        self._done, self._sum = 0, 0.0  # steps whose losses are fetched; the sum of those after the last point
        self._waiting: list[Tensor] = []

    def add(self, loss: Tensor) -> None:
        """Take in the loss () of the next step; all processes do so after the same one."""
        self._waiting.append(loss)
        if len(self._waiting) == AT_ONCE:
            self._fetch()

    def points(self) -> Points:
        """Return (number of the step that ends a part, mean loss of the batches in it), where that is finite.

        All processes call it after the same step.
        """
        self._fetch()
        return self._points.copy()

    def state(self) -> dict[str, Any]:
        """Return what `load` goes on from, as JSON has it; all processes call it after the same step."""
        return {"points": self.points(), "sum": self._sum, "done": self._done}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` has returned in any of the processes."""
        self._points = [(step, loss) for step, loss in state["points"]]
        self._sum, self._done = state["sum"], state["done"]

    def _fetch(self) -> None:
        if not self._waiting:
            return
        for loss in averaged(torch.stack(self._waiting).to(self._device)).tolist():
            self._take(loss)
        self._waiting.clear()

    def _take(self, loss: float) -> None:
        self._done += 1
        self._sum += loss
        if self._done % self._every and self._done < self._steps:
            return
        mean = self._sum / (self._done % self._every or self._every)
        if math.isfinite(mean):  # that of half precision may overflow, and JSON has no such number
            self._points.append((self._done, mean))
        self._sum = 0.0


def averaged(losses: Tensor) -> Tensor:
    """Return the means of losses (n,) over the processes that know them: of a pipeline, those of its last stage."""
    if not dist.is_initialized():
        return losses
    is_known = ~losses.isnan()
    known = torch.stack([losses.where(is_known, 0), is_known.to(losses.dtype)])
    dist.all_reduce(known)
    return known[0] / known[1]
