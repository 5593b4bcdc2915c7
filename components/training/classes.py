"""Models that tell classes of images or texts apart: chosen on the validation fold, fitted again on newest labels."""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from components.classes import preprocessing, scorer, watched
from components.classes.metrics import Metrics, evaluate
from components.classes.shards import Array, Items, labels
from components.common.config.classes import Classes, Images, Texts
from components.common.contracts.artifact import LabeledWindow, Window
from components.common.contracts.package import Candidate as Entry
from components.common.contracts.package import DecisionRule, File, Format, Lineage, ModelPackage, Signature
from components.common.errors import UserError
from components.common.graph import Graph
from components.common.splits import Days, Fold, Plan
from components.neural.recipes import Recipe
from components.training import images, texts
from components.training.core import Candidate, Fits, Trained, accepted, select
from components.training.estimators import Fitted
from components.training.networks import Scores, Setting

log = logging.getLogger("nightshift")

CHECKED = 512  # rows on which a graph is compared with the model it was made of
TOLERANCE = 1e-4


class Family(Protocol):
    """What differs between images and texts: a module of each."""

    def signature(self, task: Any, /) -> Signature:
        """Return what every graph takes and gives."""

    def files(self, task: Any, /) -> Mapping[str, bytes]:
        """Return what a package holds beside its graphs."""

    def fit(self, setting: Setting, name: str, items: Items, rows: pd.DataFrame, /) -> Fitted:
        """Fit one candidate of the config."""

    def recipe(self, task: Any, name: str, /) -> Recipe:
        """Return the recipe of a network among the candidates."""

    def is_network(self, task: Any, name: str, /) -> bool:
        """Return whether several processes train a candidate together."""


FAMILIES: dict[type[Classes], Family] = {Images: images, Texts: texts}


@dataclass(frozen=True)
class Validation:
    """What the validation fold says of each candidate that can be used.

    Attributes:
        metrics: candidate -> metrics on the fold's test rows.
        window: the fold's test days and rows.
        dropped: candidate -> why it cannot be used, a sentence.
    """

    metrics: dict[str, Metrics]
    window: LabeledWindow
    dropped: dict[str, str]


def train(setting: Setting, plan: Plan, items: Items, lineage: Mapping[str, str]) -> Trained:
    """Choose a model and fit it.

    Args:
        setting: task and device.
        plan: the windows of the logical date.
        items: the days from the first training day of the validation fold to the last training day of the test fold.
        lineage: hashes of the tables and version of the code, kept in the package's lineage.

    Raises:
        UserError: when a window has no rows, or a candidate's parameters are refused.
    """
    task, family = setting.task, FAMILIES[type(setting.task)]
    seen = items.seen(plan.test)  # before hours of work on the other days
    for name in task.candidates:
        family.is_network(task, name)  # each recipe refuses what it does not know
    validation = validate(setting, plan.validation, items)
    measured = validation.metrics
    unlearned = unlearned_classes(seen, task.classes, plan.test.train)
    fits = fit_all(setting, items, seen, measured)
    usable = {name: measured[name] for name in fits.candidates}
    selected, reason = select(usable, task.select_by, plan.validation.test)
    log.info("%s", reason)
    graphs, others = {name: candidate.graph for name, candidate in fits.candidates.items()}, family.files(task)
    unseen, made_by = watched.unseen(items, plan, seen, task.seed), preprocessing.of(task)
    reference = watched.reference(unseen, items, made_by, Graph(graphs[selected]))
    made = ModelPackage(
        files=[
            *(File.of(f"{name}.onnx", graph, Format.ONNX) for name, graph in graphs.items()),
            *(File.of(name, content, Format.JSON) for name, content in others.items()),
        ],
        signature=family.signature(task),
        preprocessing=made_by,
        decision=DecisionRule(threshold=None),
        selected=selected,
        candidates={name: _entry(setting, name, found, measured[name]) for name, found in fits.candidates.items()},
        dropped=validation.dropped | fits.dropped,
        lineage=Lineage(
            train=window(seen, plan.test.train),
            validation=validation.window,
            reference=Window(first=plan.before.first, last=plan.before.last, rows=len(reference)),
            selected_by=task.select_by,
            reason=reason,
            constant=[],
            unlearned=unlearned,
            device=setting.device,
            seed=task.seed,
            **lineage,
        ),
    )
    return Trained(made, graphs, reference, others)


def unlearned_classes(rows: pd.DataFrame, classes: list[str], days: Days) -> list[str]:
    """Return the classes that no training row has.

    Raises:
        UserError: when all rows are of one class.
    """
    present = set(rows["label"])
    if len(present) < 2:
        raise UserError(
            f"{days}: all {len(rows)} rows are of class {present.pop()!r}, and a model needs two or more; "
            "choose another --date, or widen protocol.train_days"
        )
    missing = [name for name in classes if name not in present]
    if missing:
        log.warning("no training row is of %s, so the model cannot tell them", ", ".join(map(repr, missing)))
    return missing


def validate(setting: Setting, fold: Fold, items: Items) -> Validation:
    """Fit every candidate on a fold's training days, and measure it on the fold's test rows."""
    task, unseen = setting.task, items.unseen(fold)
    fits = fit_all(setting, items, items.seen(fold), task.candidates)
    inputs, true = items.inputs(unseen), labels(unseen, task.classes)
    metrics = {name: evaluate(true, scored(candidate.graph, inputs)) for name, candidate in fits.candidates.items()}
    for name, found in metrics.items():
        log.info("%s: validation accuracy %.4f", name, found["accuracy"])
    return Validation(metrics, window(unseen, fold.test), fits.dropped)


def fit_all(setting: Setting, items: Items, rows: pd.DataFrame, names: Iterable[str]) -> Fits:
    """Fit candidates on some labeled rows, and leave out those that ONNX does not give right.

    Raises:
        UserError: when no candidate is left.
    """
    fits = Fits({}, {})
    for name in names:
        log.info("%s: fitting %d rows", name, len(rows))
        started = time.perf_counter()
        fitted = FAMILIES[type(setting.task)].fit(setting, name, items, rows)
        seconds = round(time.perf_counter() - started, 3)
        log.info("%s: fitted in %.1f s", name, seconds)
        sample = items.inputs(rows.iloc[:: -(-len(rows) // CHECKED)])
        gap = float(np.abs(scored(fitted.graph, sample) - fitted.predict(sample)).max())
        accepted(fits, name, Candidate(fitted.graph, seconds, fitted.losses), gap, TOLERANCE)
    return fits.usable()


def scored(graph: bytes, inputs: Array) -> Scores:
    """Return a graph's probabilities of each class, (n, classes), of what it takes, (n, ...)."""
    return scorer.scores(Graph(graph), inputs)


def window(rows: pd.DataFrame, days: Days) -> LabeledWindow:
    """Describe some rows: first and last day, and how many."""
    return LabeledWindow(first=days.first, last=days.last, rows=len(rows))


def _entry(setting: Setting, name: str, candidate: Candidate, metrics: Metrics) -> Entry:
    model = setting.task.candidates[name]
    return Entry(
        kind=model.kind,
        parameters=model.parameters,
        file=f"{name}.onnx",
        validation={**metrics},
        seconds=candidate.seconds,
        losses=candidate.losses,
    )
