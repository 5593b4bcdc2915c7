"""How good scores of classes are."""

from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.int64]

BINS = 15  # bins of confidence
TOP = 5  # classes, among which the true one is looked for


class ClassMetrics(TypedDict):
    """A scorer's metrics on some rows; None where one has no meaning."""

    accuracy: float
    top_5_accuracy: float | None
    macro_f1: float
    auc_roc: float | None
    log_loss: float
    calibration_error: float


def evaluate(labels: Labels, scores: Scores) -> ClassMetrics:
    """Measure scores of labeled rows.

    Args:
        labels: numbers of classes, (n,).
        scores: probability of each class, (n, classes).
    """
    counts = confusion(labels, scores.argmax(1), scores.shape[1])
    return {
        "accuracy": float(np.trace(counts) / len(labels)),
        "top_5_accuracy": top_accuracy(labels, scores),
        "macro_f1": float(macro_f1(counts)),
        "auc_roc": auc_roc(labels, scores),
        "log_loss": log_loss(labels, scores),
        "calibration_error": calibration_error(labels, scores),
    }


def resample(labels: Labels, predicted: Labels, groups: Labels, classes: int) -> dict[str, npt.NDArray[np.float64]]:
    """Return `accuracy` and `macro_f1` of every resample of the groups, (resamples,) each.

    Args:
        labels: numbers of classes, (n,).
        predicted: the same, as a scorer has it.
        groups: number of each row's group, from 0, (n,).
        classes: how many there are.
    """
    from nightshift.stats import bootstrap  # likewise: the server's image has no scikit-learn

    cells = labels * classes + predicted
    counted = (
        np.bincount(cells, weights[groups], classes**2) for weights in bootstrap.draw_counts(int(groups.max()) + 1)
    )
    counts = np.stack([count.reshape(classes, classes) for count in counted])
    hits, totals = np.trace(counts, axis1=1, axis2=2), counts.sum((1, 2))
    return {"accuracy": hits / totals, "macro_f1": macro_f1(counts)}


def confusion(labels: Labels, predicted: Labels, classes: int) -> npt.NDArray[np.int64]:
    """Return how many rows of each class, a row each, are taken for each class; (classes, classes)."""
    return np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)


def by_class(counts: npt.NDArray[Any]) -> tuple[Scores, Scores, Scores]:
    """Return precision, recall and F1 of each class, (..., classes); NaN where they have no meaning.

    Args:
        counts: rows by true and by predicted class, (..., classes, classes).
    """
    hits = np.diagonal(counts, axis1=-2, axis2=-1)
    true, predicted = counts.sum(-1), counts.sum(-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return hits / predicted, hits / true, 2 * hits / (true + predicted)


def macro_f1(counts: npt.NDArray[Any]) -> Scores:
    """Return the mean F1 of the classes that occur among the true ones, (...); see `by_class`."""
    _, _, f1 = by_class(counts)
    averages: Scores = np.nanmean(np.where(counts.sum(-1) > 0, f1, np.nan), axis=-1)
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

    present = np.unique(labels)
    if len(present) < 2:
        return None
    return float(np.mean([roc_auc_score(labels == label, scores[:, label]) for label in present]))


def log_loss(labels: Labels, scores: Scores) -> float:
    """Return the mean negative logarithm of the true class's probability, which counts as 1e-7 at least."""
    true = np.take_along_axis(scores, labels[:, None], 1)
    return float(-np.log(np.clip(true, 1e-7, 1)).mean())


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


def calibration_error(labels: Labels, scores: Scores) -> float:
    """Return the mean over rows of |confidence - accuracy| of the row's bin, `BINS` of equal width.

    Confidence is the highest score (Guo et al., On Calibration of Modern Neural Networks, 2017).
    """
    confidence, right = scores.max(1).astype(float), scores.argmax(1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(labels))
