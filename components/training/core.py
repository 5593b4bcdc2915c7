"""Fit the candidates, choose one on the validation fold, fit all again on the newest labeled days."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from typing import Any, Self

import pandas as pd

from nightshift import tasks
from nightshift.config import Config
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.package import File, Format, Lineage, ModelPackage
from nightshift.contracts.package import PackagedCandidate as Entry
from nightshift.data.splits import Days, Fold
from nightshift.models.neural.losses import Points
from nightshift.models.weights import weight_files
from nightshift.runtime.errors import UserError
from nightshift.tasks.base.training import CandidateMetrics, Sample, TrainingRows, TrainingSetup

log = logging.getLogger("nightshift")


@dataclass(frozen=True)
class FittedCandidate:
    """A fitted candidate: its ONNX graph, the seconds its fit took, the course of its losses, its choices and files."""

    graph: bytes
    seconds: float
    losses: Points = field(default_factory=list)
    validation_losses: Points = field(default_factory=list)
    choices: Mapping[str, float] = field(default_factory=dict)
    save_files: Callable[[], Iterable[tuple[str, bytes]]] = tuple


@dataclass(frozen=True)
class Fits:
    """Fitted candidates.

    Attributes:
        candidates: name -> what can be used.
        dropped: name -> why it cannot, a sentence.
    """

    candidates: dict[str, FittedCandidate]
    dropped: dict[str, str]

    def usable(self) -> Self:
        """Return them as they are.

        Raises:
            UserError: when no candidate is left.
        """
        if not self.candidates:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.dropped.items())
            raise UserError(
                f"task.candidates: none is left ({reasons}); change their parameters, or add one of another kind"
            )
        return self


@dataclass(frozen=True)
class Validation:
    """What the validation fold says of each candidate that can be used.

    Attributes:
        measured: candidate -> metrics on the fold's test rows, and how it decides.
        window: the fold's test days and rows.
        dropped: candidate -> why it cannot be used, a sentence.
        choices: candidate -> what it has chosen by the fold's test rows.
    """

    measured: dict[str, CandidateMetrics]
    window: FoldWindow
    dropped: dict[str, str]
    choices: dict[str, Mapping[str, float]]


@dataclass(frozen=True)
class TrainedModel:
    """A model as `nightshift.contracts.package.save` takes it."""

    package: ModelPackage
    graphs: dict[str, bytes]
    reference: pd.DataFrame
    files: Iterable[tuple[str, bytes]] = ()


def train(setup: TrainingSetup[Any], rows: TrainingRows[Any], code: str) -> TrainedModel:
    """Choose a model and fit it.

    Args:
        setup: of the training.
        rows: the task's, of the training.
        code: version of the code, kept in the package's lineage.

    Raises:
        UserError: when rows cannot train or judge a model, or a candidate's parameters are refused.
    """
    config, plan, features = setup.config, setup.plan, setup.features
    task, sample = config.task, rows.sample(plan.test)  # before hours of work on the other days
    unlearned = sample.unlearned_classes
    validation = validate(config, plan.validation, rows)
    fits = fit_all(sample.prepare(None, validation.choices), validation.measured)
    usable = {name: validation.measured[name].metrics for name in fits.candidates}
    is_less_better = tasks.find(task.kind).metrics.is_lower_better(task.select_by)
    selected, reason = select(usable, task.select_by, plan.validation.test, is_less_better)
    log.info("%s", reason)
    graphs = {name: candidate.graph for name, candidate in fits.candidates.items()}
    files = chain(sample.files.items(), fits.candidates[selected].save_files())
    decision = validation.measured[selected].decision
    reference, days = rows.reference(sample, graphs[selected], decision)
    package = ModelPackage(
        files=[File.describe(f"{name}.onnx", graph, Format.ONNX) for name, graph in graphs.items()],
        signature=sample.signature,
        preprocessing=sample.preprocessing,
        decision=decision,
        selected=selected,
        candidates={name: _entry(config, name, fit, usable[name]) for name, fit in fits.candidates.items()},
        dropped=validation.dropped | fits.dropped,
        lineage=Lineage(
            train=sample.window,
            validation=validation.window,
            reference=days,
            days={date.fromisoformat(part.date): part.rows for part in features.partitions},
            selected_by=task.select_by,
            reason=reason,
            constant=sample.constant,
            unlearned=unlearned,
            device=setup.device,
            seed=task.seed,
            features_sha256=features.sha256,
            events_sha256=features.details["events_sha256"],
            code_version=code,
        ),
    )
    return TrainedModel(package, graphs, reference, files)


def validate(config: Config, fold: Fold, rows: TrainingRows[Any]) -> Validation:
    """Fit every candidate on a fold's training days, and measure it on the fold's test rows."""
    sample, by = rows.sample(fold), config.task.select_by
    holdout = rows.holdout(fold, sample)
    sample.check()
    fits = fit_all(sample.prepare(holdout, {}), config.task.candidates)
    measured = {name: holdout.measure(candidate.graph) for name, candidate in fits.candidates.items()}
    for name, result in measured.items():
        log.info("%s: validation %s %.4f", name, by.replace("_", " "), result.metrics[by])
    choices = {name: candidate.choices for name, candidate in fits.candidates.items()}
    return Validation(measured, holdout.window, fits.dropped, choices)


def fit_all(sample: Sample, names: Iterable[str]) -> Fits:
    """Fit candidates of the config on some rows, and leave out those that ONNX does not give right.

    Raises:
        UserError: when no candidate is left.
    """
    fits, count = Fits({}, {}), sample.window.rows
    for name in names:
        log.info("%s: fitting %d rows", name, count)
        started = time.perf_counter()
        fitted = sample.fit(name)
        seconds = round(time.perf_counter() - started, 3)
        log.info("%s: fitted in %.1f s", name, seconds)
        losses = fitted.losses, fitted.validation_losses
        candidate = FittedCandidate(fitted.graph, seconds, *losses, fitted.choices, fitted.save_files)
        keep_or_drop(fits, name, candidate, sample.export_error(fitted), sample.tolerance)
    return fits.usable()


def keep_or_drop(fits: Fits, name: str, candidate: FittedCandidate, gap: float, tolerance: float) -> None:
    """Add a fitted candidate, or why it is dropped: when its graph's scores are further off the library's, or NaN."""
    if gap <= tolerance:
        fits.candidates[name] = candidate
        return
    off = f"Its ONNX graph scores up to {gap:.2g} off the library, more than {tolerance:g}."
    diverged = "Its training diverged: its scores are not numbers. Try a lower learning rate."
    fits.dropped[name] = diverged if math.isnan(gap) else off
    log.warning("%s is left out: %s", name, fits.dropped[name])


def select(
    metrics: Mapping[str, Mapping[str, Any]], by: str, days: Days, is_less_better: bool = False
) -> tuple[str, str]:
    """Return the candidate with the best metric, the first one of equals, and a sentence that says so."""
    values: dict[str, float] = {name: measured[by] for name, measured in metrics.items()}
    ranking = sorted(values, key=lambda name: values[name] if is_less_better else -values[name])
    scores = ", ".join(f"{name} {values[name]:.4f}" for name in ranking)
    best = f"{'lowest' if is_less_better else 'highest'} {by.replace('_', ' ')}"
    return ranking[0], f"{ranking[0]} has the {best} on the validation days {days}: {scores}"


def _entry(config: Config, name: str, fit: FittedCandidate, metrics: Mapping[str, Any]) -> Entry:
    candidate = config.task.candidates[name]
    return Entry(
        kind=candidate.kind,
        parameters=candidate.parameters,
        choices={**fit.choices},
        file=f"{name}.onnx",
        weights=[file.name for file in weight_files(fit.graph)],
        validation={**metrics},
        seconds=fit.seconds,
        losses=fit.losses,
        validation_losses=fit.validation_losses,
        **candidate.details,
    )
