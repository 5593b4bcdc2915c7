"""How good scores of classes are."""

from collections.abc import Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.floating[Any]]
Flags = npt.NDArray[np.bool_]
# numbers of classes, int64 (n,), or which classes each row has, bool (n, classes)
Labels = npt.NDArray[Any]

BINS = 15  # bins of confidence
TOP = 5  # classes, among which the true one is looked for
LEAST = 1e-7  # probability, as which a smaller one counts


class ClassMetrics(TypedDict):
    """A scorer's metrics on some rows; None where one has no meaning, absent where it has none of such labels."""

    accuracy: float
    top_5_accuracy: NotRequired[float | None]
    macro_f1: float
    macro_average_precision: NotRequired[float]
    micro_f1: NotRequired[float]
    auc_roc: float | None
    log_loss: float
    calibration_error: float


class ClassCounts(NamedTuple):
    """Rows by class, (..., classes) each: predicted and right, true, predicted."""

    hits: Scores
    true: Scores
    predicted: Scores


def evaluate(labels: Labels, scores: Scores, thresholds: Sequence[float] = ()) -> ClassMetrics:
    """Measure scores of labeled rows.

    Args:
        labels: numbers of classes, (n,), or which each row has, (n, classes).
        scores: probability of each class, (n, classes).
        thresholds: of each class, where a row has any number of them.
    """
    predicted = predict(scores, thresholds)
    counts = count_rows(labels, predicted, scores.shape[1])
    metrics: ClassMetrics = {
        "accuracy": float(match(labels, predicted).mean()),
        "macro_f1": float(macro_f1(counts)),
        "auc_roc": auc_roc(labels, scores),
        "log_loss": log_loss(labels, scores),
        "calibration_error": calibration_error(labels, scores),
    }
    if labels.ndim == 1:
        return {**metrics, "top_5_accuracy": top_accuracy(labels, scores)}
    ranked = float(average_known(average_precisions(labels, scores)))
    return {**metrics, "macro_average_precision": ranked, "micro_f1": float(micro_f1(counts))}


def resample(labels: Labels, predicted: Labels, groups: Labels, classes: int) -> dict[str, Scores]:
    """Return `accuracy`, `macro_f1` and, of any number of labels, `micro_f1` of every resample, (resamples,) each.

    Args:
        labels: numbers of classes, (n,), or which each row has, (n, classes).
        predicted: the same, as a scorer has it.
        groups: number of each row's group, from 0, (n,).
        classes: how many there are.
    """
    from nightshift.stats import bootstrap  # likewise: the server's image has no scikit-learn

    right, cells = match(labels, predicted), _list_cells(labels, predicted, classes)
    weights = (counts[groups] for counts in bootstrap.draw_counts(int(groups.max()) + 1))
    drawn = [(weight[right].sum() / weight.sum(), *_count_cells(cells, classes, weight)) for weight in weights]
    accuracy, *figures = (np.stack(column) for column in zip(*drawn, strict=True))
    counts = ClassCounts(*figures)
    several = {"micro_f1": micro_f1(counts)} if labels.ndim == 2 else {}
    return {"accuracy": accuracy, "macro_f1": macro_f1(counts), **several}


def predict(scores: Scores, thresholds: Sequence[float] = ()) -> Labels:
    """Return the labels of each row by its scores, (n, classes).

    Returns:
        the number of the class with the highest score, int64 (n,); by thresholds, the classes that reach theirs, bool
        (n, classes).
    """
    if len(thresholds):
        return scores >= np.asarray(thresholds)
    numbers: Labels = scores.argmax(1)
    return numbers


def match(labels: Labels, predicted: Labels) -> Flags:
    """Return the rows all of whose labels are predicted and no others, (n,)."""
    same: Flags = (labels == predicted).reshape(len(labels), -1).all(1)
    return same


def count_rows(labels: Labels, predicted: Labels, classes: int) -> ClassCounts:
    """Return the rows of each class."""
    return _count_cells(_list_cells(labels, predicted, classes), classes)


def spread(labels: Labels, classes: int) -> Flags:
    """Return which classes each row has, (n, classes)."""
    flags: Flags = labels.astype(bool) if labels.ndim == 2 else labels[:, None] == np.arange(classes)
    return flags


Cells = list[tuple[npt.NDArray[np.intp], ...]]  # rows and their classes, of each of `ClassCounts`


def _list_cells(labels: Labels, predicted: Labels, classes: int) -> Cells:
    true, decided = spread(labels, classes), spread(predicted, classes)
    return [np.nonzero(flags) for flags in (true & decided, true, decided)]


def _count_cells(cells: Cells, classes: int, weights: Scores | None = None) -> ClassCounts:
    figures = (np.bincount(owners, None if weights is None else weights[rows], classes) for rows, owners in cells)
    return ClassCounts(*(count.astype(np.float64) for count in figures))


def confusion(labels: Labels, predicted: Labels, classes: int) -> npt.NDArray[np.int64]:
    """Return how many rows of each class, a row each, are taken for each class; (classes, classes)."""
    return np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)


def by_class(counts: ClassCounts) -> tuple[Scores, Scores, Scores]:
    """Return precision, recall and F1 of each class, (..., classes); NaN where they have no meaning."""
    hits, true, predicted = counts
    with np.errstate(invalid="ignore", divide="ignore"):
        return hits / predicted, hits / true, 2 * hits / (true + predicted)


def macro_f1(counts: ClassCounts) -> Scores:
    """Return the mean F1 of the classes that occur among the true ones, (...), 0 without one; see `by_class`."""
    _, _, f1 = by_class(counts)
    return average_known(np.where(counts.true > 0, f1, np.nan))


def micro_f1(counts: ClassCounts) -> Scores:
    """Return the F1 of all classes' labels together, (...), 0 where there are none."""
    hits, true, predicted = (figures.sum(-1) for figures in counts)
    f1: Scores = 2 * hits / np.maximum(true + predicted, 1)
    return f1


def average_precisions(labels: Labels, scores: Scores) -> Scores:
    """Return the average precision of each class, (classes,), NaN of one that no row has; see `evaluate`."""
    from nightshift.stats import bootstrap  # likewise

    columns = zip(spread(labels, scores.shape[1]).T, scores.T, strict=True)
    alike = np.ones(len(scores))
    figures = [bootstrap.weighted_average_precision(true, own, alike) for true, own in columns]
    return _known(np.array(figures))


def resample_average_precision(labels: Labels, scores: Scores, groups: Labels) -> Scores:
    """Return the macro average precision of every resample of the groups, (resamples,); see `resample`."""
    from nightshift.stats import bootstrap  # likewise

    columns = zip(spread(labels, scores.shape[1]).T, scores.T, strict=True)
    drawn = np.stack([bootstrap.average_precision_of_groups(true, own, groups) for true, own in columns], axis=1)
    return average_known(_known(drawn))


def auc_rocs(labels: Labels, scores: Scores, weights: Scores) -> Scores:
    """Return the area under the ROC curve of each class against all others, (classes,), NaN where it has no meaning.

    Args:
        labels: numbers of classes, (n,), or which each row has, (n, classes).
        scores: probability of each class, (n, classes).
        weights: how often each row counts, (n,).
    """
    from nightshift.stats import bootstrap  # likewise

    columns = zip(spread(labels, scores.shape[1]).T, scores.T, strict=True)
    return np.array([bootstrap.weighted_auc(true, own, weights) for true, own in columns])


def resample_auc_rocs(labels: Labels, scores: Scores, groups: Labels, part: Flags | None = None) -> Scores:
    """Return `auc_rocs` of every resample of the groups, (resamples, classes), on a part of the rows; see `resample`.

    The parts of the same rows meet the same resamples, so that their differences are paired.
    """
    from nightshift.stats import bootstrap  # likewise

    weights = np.ones(len(scores)) if part is None else part.astype(float)

    def resample_class(true: Labels, own: Scores) -> Scores:
        order = np.argsort(-own, kind="stable")
        true, own, owners, kept = true[order], own[order], groups[order], weights[order]
        draws = bootstrap.draw_counts(int(groups.max()) + 1)
        return np.array([bootstrap.weighted_auc(true, own, counts[owners] * kept, True) for counts in draws])

    columns = zip(spread(labels, scores.shape[1]).T, scores.T, strict=True)
    return np.stack([resample_class(true, own) for true, own in columns], axis=1)


def _known(figures: Scores) -> Scores:
    """Return average precisions, NaN of a class that no row has, whose is 0."""
    return np.where(figures > 0, figures, np.nan)


def choose_thresholds(labels: Flags, scores: Scores) -> list[float]:
    """Return the threshold of each class by which its F1 is highest on some rows, 0.5 where no row has it.

    Args:
        labels: which classes each row has, (n, classes).
        scores: probability of each class, (n, classes).
    """
    columns = zip(labels.T, scores.T, strict=True)
    return [_choose_threshold(true, own.astype(float)) if true.any() else 0.5 for true, own in columns]


def _choose_threshold(true: Flags, scores: Scores) -> float:
    order = np.argsort(-scores, kind="stable")
    ranked = np.append(scores[order], 0.0)
    f1 = 2 * np.cumsum(true[order]) / (np.arange(1, len(true) + 1) + true.sum())
    ends = np.flatnonzero(np.append(ranked[1:-1] != ranked[:-2], True))  # equal scores share a threshold
    last = ends[f1[ends].argmax()]
    return float(ranked[last : last + 2].mean())  # halfway, so that the last bits of a score decide nothing


def average_known(figures: Scores) -> Scores:
    """Return the means over the last axis of what is a number, 0 where nothing is."""
    known = ~np.isnan(figures)
    averages: Scores = np.where(known, figures, 0).sum(-1) / np.maximum(known.sum(-1), 1)
    return averages


def top_accuracy(labels: Labels, scores: Scores) -> float | None:
    """Return the share of rows whose class is among the `TOP` most probable ones; None where there are no others."""
    if scores.shape[1] <= TOP:
        return None
    most_probable = np.argpartition(scores, -TOP, axis=1)[:, -TOP:]
    return float((most_probable == labels[:, None]).any(1).mean())


def auc_roc(labels: Labels, scores: Scores) -> float | None:
    """Return the mean area under the ROC curve of each class that occurs against all others; None with one class."""
    from sklearn.metrics import roc_auc_score  # the server's image, which has these types, has no scikit-learn

    columns = zip(spread(labels, scores.shape[1]).T, scores.T, strict=True)
    areas = [roc_auc_score(true, own) for true, own in columns if 0 < true.sum() < len(true)]
    return float(np.mean(areas)) if areas else None


def log_loss(labels: Labels, scores: Scores) -> float:
    """Return the mean negative logarithm of the probability of the true class, or of what each class is."""
    if labels.ndim == 2:
        return float(-np.log(np.clip(np.where(labels, scores, 1 - scores), LEAST, 1)).mean())
    true = np.take_along_axis(scores, labels[:, None], 1)
    return float(-np.log(np.clip(true, LEAST, 1)).mean())


def half_brier(labels: Labels, scores: Scores) -> Scores:
    """Return half of each row's sum of squared errors over classes, float64 (n,), between 0 and 1.

    Brier, Verification of forecasts expressed in terms of probability, Monthly Weather Review 78, 1950.

    Args:
        labels: numbers of classes, (n,); -1 for a class that has no score, and so the probability 0.
        scores: probability of each class, (n, classes).
    """
    wide = scores.astype(np.float64)
    true = np.where(labels < 0, 0, np.take_along_axis(wide, labels[:, None], 1)[:, 0])
    losses: Scores = np.clip((np.square(wide).sum(1) + 1) / 2 - true, 0, 1)  # float32 adds up to 1 but for rounding
    return losses


def multilabel_brier(labels: Labels, scores: Scores) -> Scores:
    """Return each row's mean squared error over classes, float64 (n,), between 0 and 1; see `evaluate`."""
    losses: Scores = np.square(scores.astype(np.float64) - labels).mean(1)
    return losses


def calibration_error(labels: Labels, scores: Scores) -> float:
    """Return the mean over rows of |confidence - accuracy| of the row's bin, `BINS` of equal width.

    Confidence is the highest score (Guo et al., On Calibration of Modern Neural Networks, 2017).
    """
    confidence, right = confide(labels, scores)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(confidence))


def confide(labels: Labels, scores: Scores) -> tuple[Scores, Flags]:
    """Return the highest scores and whether these are right, (n,); of any number of labels, all, (n * classes,)."""
    if labels.ndim == 2:
        return scores.ravel().astype(float), labels.ravel().astype(bool)
    return scores.max(1).astype(float), scores.argmax(1) == labels
