"""The training loop, one for every model family, over one process or many."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.profiler import record_function

from nightshift.config.neural import Decay, Fit, Precision
from nightshift.models.neural.data import BatchShare, TrainingDataset
from nightshift.models.neural.ema import Average
from nightshift.models.neural.losses import DivergedError, Losses, Points
from nightshift.models.neural.progress import TrainingProgress
from nightshift.models.neural.replica import Replica, Values, are_finite
from nightshift.models.neural.validation import HoldoutLoss
from nightshift.runtime.errors import UserError

COMPRESSION = "compression."
NEXT_BATCH = "nightshift.next_batch"  # packages/perf/nightshift_perf/traces/gaps.py finds it in traces
LEAST_SCALE = 1e-4  # of a loss in half precision, as in fairseq: each step whose gradients overflow halves it


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
        self.optimizer = replica.optimizer()
        self._peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.scaler = torch.amp.GradScaler(replica.device.type, enabled=self.fit.precision is Precision.FP16)
        self.losses = Losses(self.steps, may_overflow=self.scaler.is_enabled())
        self._ema = Average(replica.weights(), self.fit.ema_decay) if self.fit.ema_decay else None
        self.validation = HoldoutLoss(replica, rows, self.steps) if rows.held_out else None

    def batches(self) -> Iterator[BatchShare]:
        """Yield this process's share of what is left of all epochs."""
        while self.done < self.steps:
            yield from name_waits(self.rows.epoch(self.done % len(self.rows), self.replica.share))

    def step(self, batch: BatchShare) -> Tensor:
        """Take one step: forward, backward, update; return the loss."""
        for group, peak in zip(self.optimizer.param_groups, self._peaks, strict=True):
            group["lr"] = learning_rate(peak, self.fit, self.done, self.steps)
        self.replica.clear()
        loss = self.replica.backward(batch, self.scaler.scale)
        self.replica.tie()
        if self.fit.clip:
            self.scaler.unscale_(self.optimizer)
            self.replica.clip(self.fit.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.done += 1
        if self._ema:
            self._ema.update(self.done)
        return loss

    def validate(self) -> bool:
        """Measure the validation loss after a step, when it is time; return whether the training goes on."""
        if not self.validation:
            return True
        if self.validation.is_due(self.done):
            with self._ema.use_average() if self._ema else nullcontext():
                self.validation.measure(self.done)
        return not self.validation.is_exhausted

    def finish(self) -> None:
        """Have the network take what is kept of its weights."""
        if self.validation and self.validation.best:
            self.validation.take()
        elif self._ema:
            self._ema.take()

    def state(self) -> Values:
        """Return parameters, their average, optimizer and order of rows, by names that no layout changes.

        Under `COMPRESSION` lies what each process remembers of its own gradients.
        """
        if not self.optimizer.state:
            self._allocate()
        state = {"rows": self.rows.state()}
        state |= {f"model.{name}": weight for name, weight in self.replica.weights().items()}
        state |= {f"optimizer.{name}": moment for name, moment in self.replica.moments(self.optimizer).items()}
        if self._ema:
            state |= {f"ema.{name}": average for name, average in self._ema.values.items()}
        if self.validation:
            state |= {f"best.{name}": value for name, value in self.validation.best.items()}
        return state | {f"{COMPRESSION}{name}": value for name, value in self.replica.compression().items()}

    def notes(self) -> dict[str, Any]:
        """Return what there is to save beside tensors, as JSON has it; all processes call it after the same step.

        Raises:
            DivergedError: when the losses are not finite, or gradients overflow at any scale.
        """
        self.check_scale()
        validation = self.validation.state() if self.validation else []
        return {
            "step": self.done,
            "scaler": self.scaler.state_dict(),
            "losses": self.losses.state(),
            "validation": validation,
        }

    def check_scale(self) -> None:
        """Refuse to go on where gradients of half precision overflow step after step.

        Raises:
            DivergedError: when halving the loss's scale has not helped.
        """
        if self.scaler.is_enabled() and (scale := self.scaler.get_scale()) < LEAST_SCALE:
            raise DivergedError(f"gradients still overflow in step {self.done:,}, with a loss scaled by {scale:.1g}")

    def advise(self) -> str:
        """Return what may keep it from diverging."""
        clip = f"a clip below {self.fit.clip:g}" if self.fit.clip else "clip: 1"
        return f"write a learning_rate below {max(self._peaks):g}, or {clip}"

    def load(self, state: Values, notes: dict[str, Any]) -> None:
        """Go on after the step that the notes name; `state` is that of `state()`, filled in place."""
        self.rows.load(state["rows"])
        self.done = notes["step"]
        self.scaler.load_state_dict(notes["scaler"])
        self.losses.load(notes["losses"])
        if self.validation:
            self.validation.load(notes["validation"])
        self.replica.resume(self.done)

    def _allocate(self) -> None:
        """Have the optimizer make its state, by a step that changes nothing."""
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.replica.clear()


def name_waits(batches: Iterator[BatchShare]) -> Iterator[BatchShare]:
    """Yield batches; a profiler shows the wait for each by name."""
    while True:
        # a range that nobody records takes a tenth of a small network's step
        is_profiled = torch._C._autograd._profiler_enabled()  # noqa: SLF001 nothing else tells
        with record_function(NEXT_BATCH) if is_profiled else nullcontext():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


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
    """What a training leaves, in every process: the whole network, the course of losses, and which step was kept."""

    model: nn.Sequential
    losses: Points
    validation_losses: Points = field(default_factory=list)
    choices: Mapping[str, float] = field(default_factory=dict)


class Checkpointer(Protocol):
    """Saves a training now and then: `nightshift.models.neural.checkpoints`."""

    def resume(self, training: NetworkTraining) -> None:
        """Take a training to where it was saved."""

    def after(self, training: NetworkTraining) -> None:
        """Save a training after a step, when it is time."""

    def finish(self) -> None:
        """Wait until what has begun is written."""

    def newest(self) -> str:
        """Return where the newest whole one lies; empty without any."""


class MeasuredError(Exception):
    """A training that was measured is not finished."""


_MEASURE = ContextVar[Callable[[NetworkTraining], object] | None]("measure", default=None)


@contextmanager
def measure_next(measure: Callable[[NetworkTraining], object]) -> Iterator[None]:
    """Have the first network that is fitted inside be measured, with its rows; nothing after that is done."""
    token = _MEASURE.set(measure)
    try:
        with suppress(MeasuredError):
            yield
    finally:
        _MEASURE.reset(token)


def fit(replica: Replica, rows: TrainingDataset, checkpoints: Checkpointer | None = None) -> TrainedNetwork:
    """Train a network; call it inside `devices.reproducible`, after the replica is made.

    Raises:
        PreemptedError: when the machine is about to be taken away, after a checkpoint has been saved.
        UserError: when losses or weights are not finite; the last checkpoint stays.
    """
    rows.seed()
    rows.hold_out(replica.fit.validation)
    training = NetworkTraining(replica, rows)
    if measure := _MEASURE.get():
        measure(training)
        raise MeasuredError
    if checkpoints:
        checkpoints.resume(training)
    try:
        _take_steps(training, checkpoints)
        if checkpoints:
            checkpoints.finish()
        training.check_scale()
        training.finish()
        model = replica.whole()
        if not are_finite(model.parameters()):
            raise DivergedError(f"the weights after step {training.done:,} are not finite")
    except DivergedError as error:
        raise UserError(f"{error}; {training.advise()}; {_find_last(checkpoints)}") from None
    if not (validation := training.validation):
        return TrainedNetwork(model, training.losses.points)
    return TrainedNetwork(model, training.losses.points, validation.points, validation.describe())


def _take_steps(training: NetworkTraining, checkpoints: Checkpointer | None) -> None:
    replica = training.replica
    if training.validation and training.validation.is_exhausted:  # a resumed training may be at its end
        return
    progress = TrainingProgress(training.steps, training.rows.size, replica.recipe.flops(), training.done)
    with replica.watch() as watch:
        for batch in training.batches():
            loss = training.step(batch)
            training.losses.add(training.done, loss)
            progress.advance(training.done, training.losses.newest)
            goes_on = training.validate()
            if checkpoints:
                with watch.saving() if watch else nullcontext():
                    checkpoints.after(training)
            if not goes_on:
                break


def _find_last(checkpoints: Checkpointer | None) -> str:
    """Return where the last checkpoint of a training lies that has diverged."""
    if not checkpoints:
        return "no checkpoint was saved"
    checkpoints.finish()
    newest = checkpoints.newest()
    return f"the last checkpoint stays in {newest}" if newest else "no checkpoint was saved"
