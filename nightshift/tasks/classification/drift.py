"""What may have changed where a task has classes, beside how far columns have moved.

A window holds a thousand images where a table has a hundred thousand rows. So a limit is what the config says, or what
samples of these sizes show by chance, whichever is larger: too few rows raise nothing, and many are held to the config.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, partial

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.config.classes import ClassDriftLimits, ItemClassConfig, ItemClassDriftLimits
from nightshift.contracts import package
from nightshift.contracts.drift import PREDICTED, SCORE, Promise, Signal
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import Block
from nightshift.items import shards
from nightshift.items.labels import decode
from nightshift.runtime.errors import UserError
from nightshift.tasks.base import drift as base
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.classification import descriptors, kinds, unusual
from nightshift.tasks.items.drift import FEWEST, SHARE, beyond_chance, compare_embeddings, stack

LOSS = "accuracy lost"  # unit of a signal


def numeric(model: ModelPackage) -> list[str]:
    """Return the columns that are compared as numbers."""
    return [*descriptors.names(model.classes), SCORE]


def columns(model: ModelPackage) -> list[str]:
    """Return all columns that are read; the class that is predicted counts as an input: what there is of each."""
    return [*descriptors.names(model.classes), PREDICTED, SCORE]


def spread_predictions(rows: pd.DataFrame, model: ModelPackage) -> pd.DataFrame:
    """Return the columns of rows that are compared: of any number of labels, each class is an input of its own."""
    if not model.decision.is_multilabel:
        return rows
    names = model.classes.classes
    flags = np.where(decode(rows[PREDICTED], names), "yes", "no")
    by_class = {f"{PREDICTED} {name}": flags[:, number] for number, name in enumerate(names)}
    return pd.DataFrame({**rows.drop(columns=PREDICTED), **by_class}, rows.index)


@dataclass(frozen=True)
class DueItems:
    """What is known of the days whose labels are due.

    Attributes:
        rows: with labels.
        right: those of them whose class was predicted.
        unlearned: class that no training row has -> those of them that have it.
    """

    rows: int
    right: int
    unlearned: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ItemComparison(base.Comparison):
    """The newest images or texts, beside rows that a model had not seen when it was fitted."""

    inputs: DriftInputs[ItemClassConfig]

    @cached_property
    def limits(self) -> ItemClassDriftLimits:
        inputs = self.inputs
        rows = sum(inputs.features.partition(day).rows for day in inputs.days.newest)
        return beyond_chance(inputs.config.drift, self.reference, rows)

    @property
    def reference(self) -> pd.DataFrame:
        model = self.inputs.model
        return spread_predictions(self.inputs.reference[columns(model)], model)

    @property
    def numeric(self) -> list[str]:
        return numeric(self.inputs.model)

    def batches(self, days: Iterable[date]) -> Iterator[pd.DataFrame]:
        for day in days:
            rows = storage.read_frame(self.inputs.scores.partition(day).uri, columns(self.inputs.model))
            yield spread_predictions(rows, self.inputs.model)

    def unlabeled_signals(self) -> Iterator[Signal]:
        yield from compare_embeddings(self.inputs, self.limits)

    def labeled_signals(self) -> Iterator[Signal]:
        if any(self._due.unlearned.values()):
            yield count_unlearned(self._due, self.limits.novelty)
        if self.inputs.promise is not None:
            yield performance(self._due, self.inputs.promise, self.limits)

    def examples(self) -> list[Block]:
        inputs, columns = self.inputs, ["event_id", PREDICTED, package.EMBEDDING]
        rows = storage.read_frame(inputs.scores.partition(inputs.day).uri, columns).dropna(subset=package.EMBEDDING)
        before, now = (stack(frame[package.EMBEDDING]) for frame in (inputs.reference, rows))
        if min(len(before), len(now)) < FEWEST:
            return []
        show = kinds.display(inputs.model.kind).show
        contents = shards.map_shard(inputs.features.partition(inputs.day))
        return unusual.blocks(rows, contents, (before, now), partial(show, inputs.uri, inputs.model))

    @cached_property
    def _due(self) -> DueItems:
        counted = [self._right(day) for day in self.inputs.labeled_days]
        rows, right, *others = (sum(column) for column in zip(*counted, strict=True))
        return DueItems(rows, right, dict(zip(self.inputs.model.lineage.unlearned, others, strict=True)))

    def _right(self, day: date) -> tuple[int, ...]:
        """Return a day's rows with labels, those whose class was predicted, and those of each unlearned class."""
        known = storage.read_frame(self.inputs.features.partition(day).uri, ["event_id", "label"])
        scored = storage.read_frame(self.inputs.scores.partition(day).uri, ["event_id", PREDICTED])
        assert np.array_equal(known["event_id"], scored["event_id"]), f"the scores of {day} are not of its features"
        labeled, model = known["label"].notna(), self.inputs.model
        unlearned = shards.count_classes(known, model.lineage.unlearned, model.decision.is_multilabel)
        return int(labeled.sum()), int((known["label"] == scored[PREDICTED])[labeled].sum()), *unlearned


class DriftTask(base.DriftTask):
    """Accuracy, embeddings and unlearned classes."""

    def comparison(self, inputs: DriftInputs[ItemClassConfig]) -> ItemComparison:
        if inputs.model.lineage.reference is None:
            raise UserError("the model's sample has no embeddings, which drift compares; train again: nightshift run")
        if reason := kinds.find_other_labels(inputs.config.task, inputs.model):
            raise UserError(f"the model {reason}; train again: nightshift run")
        return ItemComparison(inputs)


def count_unlearned(due: DueItems, limit: float) -> Signal:
    """Return how many labeled rows are of classes that no training row has, and whether the share is above a limit."""
    rows = sum(due.unlearned.values())
    share = rows / due.rows
    counts = ", ".join(f"{name!r} ({count})" for name, count in due.unlearned.items() if count)
    reason = f"{rows} of {due.rows} labeled rows are of classes that no training row of the model has: {counts}."
    return Signal(name="classes", value=share, limit=limit, unit=SHARE, raised=share > limit, reason=reason)


def performance(due: DueItems, promised: Promise, limits: ClassDriftLimits) -> Signal:
    """Compare the accuracy on rows whose labels have arrived with what the model promised."""
    limit = limits.accuracy
    if due.rows < limits.min_rows:
        reason = f"{due.rows} rows with labels; at least {limits.min_rows} are needed to judge the model."
        return Signal(name="performance", value=None, limit=limit, unit=LOSS, raised=False, reason=reason)
    reached = due.right / due.rows
    lost = promised.value - reached
    reason = f"Accuracy {reached:.3f} where labels are due ({due.rows} rows), {promised.value:.3f} {promised.measured}."
    return Signal(name="performance", value=lost, limit=limit, unit=LOSS, raised=lost > limit, reason=reason)
