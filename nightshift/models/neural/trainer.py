"""The training loop, one for every model family, over one process or many."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from nightshift.config.neural import Decay, Fit, Precision
from nightshift.models.neural.data import Batch, TrainingDataset
from nightshift.models.neural.ema import Average
from nightshift.models.neural.losses import Losses, Points
from nightshift.models.neural.progress import TrainingProgress
from nightshift.models.neural.replica import Replica, Values


class NetworkTraining:
    """A network, its optimizer, its rows, and how far it is.

    Attributes:
        replica: the network in this process.
        rows: what it is trained on.
        steps: how many steps the whole training takes.
        done: how many of them it has taken.
        losses: of those.
    """

    def __init__(self, replica: Replica, rows: TrainingDataset) -> None:
        self.replica, self.rows, self.fit = replica, rows, replica.fit
        self.steps, self.done = self.fit.epochs * len(rows), 0
        self.losses = Losses(self.steps)
        self.optimizer = replica.optimizer()
        self._peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.scaler = torch.amp.GradScaler(replica.device.type, enabled=self.fit.precision is Precision.FP16)
        self._ema = Average(replica.weights(), self.fit.ema_decay) if self.fit.ema_decay else None

    def batches(self) -> Iterator[Batch]:
        """Yield what is left of all epochs."""
        while self.done < self.steps:
            yield from self.rows.epoch(skip=self.done % len(self.rows))

    def step(self, batch: Batch) -> Tensor:
        """Take one step: forward, backward, update; return the loss."""
        for group, peak in zip(self.optimizer.param_groups, self._peaks, strict=True):
            group["lr"] = learning_rate(peak, self.fit, self.done, self.steps)
        self.replica.clear()
        loss = self.replica.backward(batch, self.scaler.scale)
        if self.fit.clip:
            self.scaler.unscale_(self.optimizer)
            self.replica.clip(self.fit.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.done += 1
        if self._ema:
            self._ema.update(self.done)
        return loss

    def finish(self) -> None:
        """Have the network take what is kept of its weights."""
        if self._ema:
            self._ema.take()

    def state(self) -> Values:
        """Return parameters, their average, optimizer and order of rows, by names that no layout changes."""
        if not self.optimizer.state:
            self._allocate()
        state = {"rows": self.rows.state()}
        state |= {f"model.{name}": weight for name, weight in self.replica.weights().items()}
        state |= {f"optimizer.{name}": moment for name, moment in self.replica.moments(self.optimizer).items()}
        if self._ema:
            state |= {f"ema.{name}": average for name, average in self._ema.values.items()}
        return state

    def notes(self) -> dict[str, Any]:
        """Return what there is to save beside tensors, as JSON has it; all processes call it after the same step."""
        return {"step": self.done, "scaler": self.scaler.state_dict(), "losses": self.losses.state()}

    def load(self, state: Values, notes: dict[str, Any]) -> None:
        """Go on after the step that the notes name; `state` is that of `state()`, filled in place."""
        self.rows.load(state["rows"])
        self.done = notes["step"]
        self.scaler.load_state_dict(notes["scaler"])
        self.losses.load(notes["losses"])

    def _allocate(self) -> None:
        """Have the optimizer make its state, by a step that changes nothing."""
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.replica.clear()


def learning_rate(peak: float, fit: Fit, done: int, steps: int) -> float:
    """Return the learning rate of the step after `done` of `steps`; `peak` is the highest.

    It rises in equal parts over the steps of the warm-up (Goyal et al., Accurate, Large Minibatch SGD, 2017) and falls
    to 0 in a line or half a period of the cosine (Loshchilov & Hutter, SGDR, 2017).
    """
    rising = round(fit.warmup * steps)
    if done < rising:
        return peak * (done + 1) / rising
    share = (done - rising) / (steps - rising)
    left = 1 - share if fit.decay is Decay.LINEAR else (1 + math.cos(math.pi * share)) / 2
    return peak * left


@dataclass(frozen=True)
class TrainedNetwork:
    """What a training leaves, in every process: the whole network, and the course of its loss."""

    model: nn.Sequential
    losses: Points


class Checkpointer(Protocol):
    """Saves a training now and then: `nightshift.models.neural.checkpoints`."""

    def resume(self, training: NetworkTraining) -> None:
        """Take a training to where it was saved."""

    def after(self, training: NetworkTraining) -> None:
        """Save a training after a step, when it is time."""

    def finish(self) -> None:
        """Wait until what has begun is written."""


def fit(replica: Replica, rows: TrainingDataset, checkpoints: Checkpointer | None = None) -> TrainedNetwork:
    """Train a network; call it inside `devices.reproducible`, after the replica is made.

    Raises:
        PreemptedError: when the machine is about to be taken away, after a checkpoint has been saved.
    """
    rows.seed()
    training = NetworkTraining(replica, rows)
    if checkpoints:
        checkpoints.resume(training)
    progress = TrainingProgress(training.steps, rows.size, replica.recipe.flops(), training.done)
    with replica.watch() as watch:
        for batch in training.batches():
            loss = training.step(batch)
            training.losses.add(training.done, loss)
            progress.advance(training.done, loss)
            if checkpoints:
                with watch.saving() if watch else nullcontext():
                    checkpoints.after(training)
    if checkpoints:
        checkpoints.finish()
    training.finish()
    return TrainedNetwork(replica.whole(), training.losses.points)
