"""The loss of rows that a training holds out: it says which weights are kept, and when to stop."""

import logging
import math
from typing import Any

from nightshift.config.neural import Keep
from nightshift.models.neural.data import TrainingDataset
from nightshift.models.neural.losses import Points, average_losses
from nightshift.models.neural.replica import Replica, Values

log = logging.getLogger("nightshift")


class HoldoutLoss:
    """The course of the validation loss, and the weights where it was lowest.

    Every process measures its share and sees the same mean, so all decide alike.

    Args:
        replica: the network in this process.
        rows: of the training, some of which are held out.
        steps: of the whole training.

    Attributes:
        points: (step, mean loss of the held-out rows after it).
        best: the weights after the best step, which change with it; empty where the last ones are kept.
    """

    def __init__(self, replica: Replica, rows: TrainingDataset, steps: int) -> None:
        self._replica, self._rows, self._fit, self._steps = replica, rows, replica.fit, steps
        self._every = math.ceil(steps / self._fit.validations)
        self.points: Points = []
        frozen = {name for name, parameter in replica.parameters().items() if not parameter.requires_grad}
        weights = replica.weights() if self._fit.keep is Keep.BEST else {}
        self.best: Values = {name: value.clone() for name, value in weights.items() if name not in frozen}

    @property
    def kept_step(self) -> int:
        """The step whose weights are kept; 0 before the first measurement."""
        if not self.points:
            return 0
        return min(self.points, key=lambda point: point[1])[0] if self.best else self.points[-1][0]

    @property
    def is_exhausted(self) -> bool:
        """Whether the loss has not fallen for as many measurements as the config allows."""
        best = min(self.points, key=lambda point: point[1], default=(0, 0.0))
        later = sum(step > best[0] for step, _ in self.points)
        return 0 < self._fit.patience <= later

    def is_due(self, done: int) -> bool:
        """Return whether the loss is measured after a step."""
        return done % self._every == 0 or done >= self._steps

    def measure(self, done: int) -> None:
        """Measure the loss after a step; all processes do so after the same one."""
        batches = self._rows.held_out_batches(self._replica.share)
        means, _ = average_losses([self._replica.measure(batch) * batch.size for batch in batches], 0.0)
        loss = math.fsum(means) / self._rows.held_out
        lowest = min((known for _, known in self.points), default=math.inf)
        log.info("step %d of %d: validation loss %.4g%s", done, self._steps, loss, ", the lowest" * (loss < lowest))
        if not math.isfinite(loss):
            return
        self.points.append((done, loss))
        if loss < lowest:
            weights = self._replica.weights()
            for name, value in self.best.items():
                value.copy_(weights[name])

    def take(self) -> None:
        """Have the network take the best weights."""
        weights = self._replica.weights()
        for name, value in self.best.items():
            weights[name].copy_(value)

    def describe(self) -> dict[str, float]:
        """Return which step was kept, and its validation loss."""
        losses = dict(self.points)
        return {"kept_step": self.kept_step, "validation_loss": losses[self.kept_step]} if losses else {}

    def state(self) -> list[Any]:
        """Return what `load` goes on from, as JSON has it; `best` is saved beside it."""
        return list(self.points)

    def load(self, state: list[Any]) -> None:
        """Go on from what `state` has returned in any of the processes."""
        self.points = [(step, loss) for step, loss in state]
