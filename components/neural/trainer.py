"""The training loop, one for every model family, over one process or many."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from components.common.config.neural import Precision
from components.neural.data import Batch, Resident
from components.neural.progress import Progress
from components.neural.replica import Replica


class Training:
    """A network, its optimizer, its rows, and how far it is.

    Attributes:
        replica: the network in this process.
        rows: what it is trained on.
        steps: how many steps the whole training takes.
        done: how many of them it has taken.
    """

    def __init__(self, replica: Replica, rows: Resident) -> None:
        self.replica, self.rows, self.fit = replica, rows, replica.fit
        self.steps, self.done = self.fit.epochs * len(rows), 0
        parameters = [parameter for part in replica.parts for parameter in part.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=self.fit.learning_rate, fused=True)
        self.scaler = torch.amp.GradScaler(replica.device.type, enabled=self.fit.precision is Precision.FP16)

    def batches(self) -> Iterator[Batch]:
        """Yield what is left of all epochs."""
        while self.done < self.steps:
            yield from self.rows.epoch(skip=self.done % len(self.rows))

    def step(self, batch: Batch) -> Tensor:
        """Take one step: forward, backward, update; return the loss."""
        self.optimizer.param_groups[0]["lr"] = self.fit.learning_rate * (1 - self.done / self.steps)
        self.optimizer.zero_grad()
        loss = self.replica.backward(batch, self.scaler.scale)
        if self.fit.clip:
            self.scaler.unscale_(self.optimizer)
            self.replica.clip(self.fit.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.done += 1
        return loss


def fit(replica: Replica, rows: Resident) -> nn.Sequential:
    """Train a network; call it inside `devices.reproducible`, after the replica is made.

    Returns:
        the whole network, in every process.
    """
    rows.seed()
    training = Training(replica, rows)
    progress = Progress(training.steps, rows.size, replica.recipe.flops())
    for batch in training.batches():
        loss = training.step(batch)
        progress.advance(training.done, loss)
    return replica.whole()
