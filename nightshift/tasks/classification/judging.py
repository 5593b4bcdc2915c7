"""How well the challenger tells classes apart, and whether it may replace the champion."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nightshift.config.classes import ClassConfig
from nightshift.contracts import evaluation as contract
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Measure, Verdict
from nightshift.items import metrics
from nightshift.items.metrics import BINS, ClassCounts, ClassMetrics, Labels, Scores
from nightshift.tasks import trials
from nightshift.tasks.classification import kinds
from nightshift.tasks.classification.metrics import ACCURACY
from nightshift.tasks.metric_reports import list_measures
from nightshift.tasks.trials import Contender, Gate, Trial

FIGURES = ("precision", "recall", "f1")  # of a class
RANKED = ("average_precision", "auc_roc", "calibration_error")  # likewise, where a row has any number of them
MIN_GROUPS = 20  # of the test rows, needed to decide: the intervals come from drawing groups


@dataclass(frozen=True)
class LabeledItems:
    """The test rows.

    Attributes:
        labels: numbers of classes, (n,), or which each row has, (n, classes).
        groups: number of each row's group, (n,).
        classes: their names.
    """

    labels: Labels
    groups: Labels
    classes: list[str]

    @property
    def is_multilabel(self) -> bool:
        """Whether a row has any number of classes."""
        return self.labels.ndim == 2


@dataclass(frozen=True, kw_only=True)
class ItemContender(Contender):
    """A model version, measured on the test rows.

    Attributes:
        metrics: on the test rows.
        rows: how many there are.
        counts: rows of each class.
        groups: how many the test rows are of.
        unlearned: numbers of the classes that none of its training rows has.
    """

    metrics: ClassMetrics
    rows: int
    counts: ClassCounts
    groups: int
    unlearned: tuple[int, ...] = ()

    @property
    def unlearned_rows(self) -> dict[int, int]:
        """Number of a class that the model has not learned -> its test rows, without classes that have none."""
        rows = self.counts.true
        return {number: int(rows[number]) for number in self.unlearned if rows[number]}

    def weakest(self, least: int) -> tuple[int, float] | None:
        """Return the class with the lowest recall and that, of those with so many rows; None without one."""
        rows = self.counts.true
        _, recall, _ = metrics.by_class(self.counts)
        judged = np.flatnonzero(rows >= least)
        return min(
            ((int(number), float(recall[number])) for number in judged), key=lambda entry: entry[1], default=None
        )


@dataclass(frozen=True)
class ItemTrial(Trial[ItemContender]):
    """One evaluation on images, texts or rows.

    Attributes:
        left_out: rows of its days that training has seen the group or content of; None where no rows are left out.
        slices: how good the challenger is on parts of the test rows.
    """

    config: ClassConfig
    left_out: int | None
    slices: list[contract.OfSlice]

    def figures(self, rows: LabeledItems, scores: Scores) -> contract.ClassEvaluation:
        """Return `evaluation.json`, by the challenger's scores of the test rows, (n, classes)."""
        return contract.ClassEvaluation(
            **self.shared_figures(),
            left_out=self.left_out or 0,
            slices=self.slices,
            classes=of_classes(self.challenger.counts, rows, scores),
            confusion=[] if rows.is_multilabel else confuse(rows, scores),
            calibration=calibration(rows, scores),
        )


def measure(rows: LabeledItems, scores: Scores, model: ModelPackage, version: int = 0) -> ItemContender:
    """Measure a model's scores of the test rows, (n, classes)."""
    thresholds, classes = model.decision.thresholds, len(rows.classes)
    predicted = metrics.predict(scores, thresholds)
    resamples = metrics.resample(rows.labels, predicted, rows.groups, classes)
    if rows.is_multilabel:
        drawn = metrics.resample_average_precision(rows.labels, scores, rows.groups)
        resamples["macro_average_precision"] = drawn
    return ItemContender.from_model(
        model,
        version,
        metrics=metrics.evaluate(rows.labels, scores, thresholds),
        rows=len(scores),
        counts=metrics.count_rows(rows.labels, predicted, classes),
        groups=len(np.unique(rows.groups)),
        resamples=resamples,
        unlearned=tuple(rows.classes.index(name) for name in model.lineage.unlearned),
    )


def of_classes(counts: ClassCounts, rows: LabeledItems, scores: Scores) -> list[contract.OfClass]:
    """Return the figures of each class."""
    names, figures = [*FIGURES], [*metrics.by_class(counts)]
    if rows.is_multilabel:
        names += RANKED
        figures += _rank_classes(rows.labels, scores)
    return [
        contract.OfClass(name=name, rows=int(count), **{key: None if np.isnan(value) else float(value)
                         for key, value in zip(names, class_figures, strict=True)})
        for name, count, class_figures in zip(rows.classes, counts.true, np.stack(figures, axis=1), strict=True)
    ]  # fmt: skip


def _rank_classes(labels: Labels, scores: Scores) -> Iterator[Scores]:
    """Yield the `RANKED` figures of each class, (classes,); NaN where they have no meaning."""
    yield metrics.average_precisions(labels, scores)
    yield metrics.auc_rocs(labels, scores, np.ones(len(scores)))
    columns = range(scores.shape[1])
    yield np.array([metrics.calibration_error(labels[:, [number]], scores[:, [number]]) for number in columns])


def confuse(rows: LabeledItems, scores: Scores) -> list[list[int]]:
    """Return the rows by true class, a list each, and by predicted class."""
    counts: list[list[int]] = metrics.confusion(rows.labels, scores.argmax(1), len(rows.classes)).tolist()
    return counts


def calibration(rows: LabeledItems, scores: Scores) -> contract.Calibration:
    """Return the mean confidence and the share predicted right, by bins of confidence of equal width."""
    confidence, right = metrics.confide(rows.labels, scores)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins_of_rows = [(confidence[bins == number], right[bins == number]) for number in np.unique(bins)]
    return contract.Calibration(
        predicted=[float(confidence_of_bin.mean()) for confidence_of_bin, _ in bins_of_rows],
        observed=[float(right_of_bin.mean()) for _, right_of_bin in bins_of_rows],
        count=[len(confidence_of_bin) for confidence_of_bin, _ in bins_of_rows],
    )


def judge(
    challenger: ItemContender,
    champion: ItemContender | str,
    config: ClassConfig,
    reference: ItemContender | None = None,
) -> Verdict:
    """Decide whether the challenger may replace the champion, by `find_gate`; the rule is that of `trials.judge`."""
    return decide(challenger, champion, find_gate(challenger, champion, config), config, reference)


def find_gate(challenger: ItemContender, champion: ItemContender | str, config: ClassConfig) -> Gate:
    """Return what a challenger has to pass.

    Nothing is decided with fewer than `min_rows` test rows, or `MIN_GROUPS` groups of them. The floors: `min_accuracy`;
    and `min_class_recall` of every class with `min_class_rows` test rows. A champion is compared by `task.select_by`,
    and stays where it has learned a class with so many test rows and the challenger has not. What neither has learned
    is said and decides nothing, or no model would be fresh enough to learn it.
    """
    rival = None if isinstance(champion, str) else champion
    rows, sure = challenger.rows, challenger.estimates()
    undecidable = _undecidable(challenger, config)
    forgotten = _describe_forgotten(challenger, rival, config) if rival else []
    return Gate(
        metric=config.task.select_by,
        tolerance=config.evaluation.tolerance,
        undecidable=undecidable,
        refused=[] if undecidable else [*_below_floors(challenger, config), *forgotten],
        passed=f"The challenger passes the floors with accuracy {sure['accuracy']} on {rows} rows (95 % interval).",
        measures=list(_measures(challenger, config)),
    )


def decide(
    challenger: ItemContender,
    champion: ItemContender | str,
    gate: Gate,
    config: ClassConfig,
    reference: ItemContender | None,
) -> Verdict:
    """Decide by a gate, and say what the challenger has not learned; see `trials.judge`."""
    verdict = trials.judge(challenger, champion, gate, reference)
    unlearned = _describe_unlearned(challenger, config.task.classes)
    return verdict.model_copy(update={"reasons": [*verdict.reasons, *unlearned]})


def _undecidable(challenger: ItemContender, config: ClassConfig) -> list[str]:
    rows, least = challenger.rows, config.evaluation.min_rows
    if rows < least:
        return [f"There are {rows} test rows; at least {least} are needed to decide."]
    if challenger.groups < MIN_GROUPS:
        return [f"The {rows} test rows are of {challenger.groups} groups; at least {MIN_GROUPS} are needed to decide."]
    return []


def _describe_forgotten(challenger: ItemContender, champion: ItemContender, config: ClassConfig) -> list[str]:
    """Return a sentence for each class that the champion has learned, the challenger has not, and test rows have."""
    names, least = config.task.classes, config.evaluation.min_class_rows
    return [
        f"Champion version {champion.version} has learned class {names[number]!r}, which {rows} test rows have and no "
        "training row of the challenger has."
        for number, rows in challenger.unlearned_rows.items()
        if rows >= least and number not in champion.unlearned
    ]


def _describe_unlearned(challenger: ItemContender, names: list[str]) -> list[str]:
    """Return a sentence on test rows of classes that no training row has, none without such rows."""
    rows = challenger.unlearned_rows
    if not rows:
        return []
    counts = ", ".join(f"{names[number]!r} ({count})" for number, count in rows.items())
    return [
        f"{sum(rows.values())} of {challenger.rows} test rows are of classes that no training row has, so "
        f"the model cannot tell them: {counts}."
    ]


def _below_floors(challenger: ItemContender, config: ClassConfig) -> Iterator[str]:
    limits, accuracy = config.evaluation, challenger.metrics["accuracy"]
    if accuracy < limits.min_accuracy:
        yield f"Accuracy {accuracy:.3f} is below the floor {limits.min_accuracy:g}."
    weakest = challenger.weakest(limits.min_class_rows)
    if weakest and weakest[1] < limits.min_class_recall:
        name = config.task.classes[weakest[0]]
        yield f"Recall of class {name!r} is {weakest[1]:.3f}, below the floor {limits.min_class_recall:g}."


def _measures(challenger: ItemContender, config: ClassConfig) -> Iterator[Measure]:
    limits = config.evaluation
    yield Measure(name="test_rows", value=challenger.rows, limit=limits.min_rows)
    yield Measure(name="test_groups", value=challenger.groups, limit=MIN_GROUPS)
    unlearned = sum(challenger.unlearned_rows.values())
    yield Measure(name="unlearned_class_rows", value=unlearned, higher_is_better=False)
    listed = kinds.metrics(config.task.kind).metrics
    known = [metric for metric in listed if challenger.figures.get(metric.name) is not None]
    yield from list_measures(challenger, known, {ACCURACY.name: limits.min_accuracy})
    if weakest := challenger.weakest(limits.min_class_rows):
        yield Measure(name="lowest_class_recall", value=weakest[1], limit=limits.min_class_recall)
