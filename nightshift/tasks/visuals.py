"""What Kubeflow's page draws of a model: the ROC curve and the confusion matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import confusion_matrix, roc_curve

from nightshift.stats.comparison import Floats

Labels = npt.NDArray[np.integer[Any]]

POINTS = 200
CATEGORIES = ("negative", "positive")
DRAWN = 50


def classification(labels: Labels, scores: Floats, threshold: float) -> dict[str, Any]:
    """Return the metadata of a `dsl.ClassificationMetrics`, without the curve where a class is missing.

    Args:
        labels: 0 or 1, shape (n,).
        scores: probability of the positive class, float, shape (n,).
        threshold: score from which an event is flagged.
    """
    both = 0 < labels.sum() < len(labels)
    curve = {"confidenceMetrics": _roc(labels, scores)} if both else {}
    return curve | {"confusionMatrix": _confusion(labels, scores >= threshold)}


def describe_confusion(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> dict[str, Any]:
    """Return the metadata of a `dsl.ClassificationMetrics` of rows by true and by predicted class.

    Empty of no counts, and of more than `DRAWN` classes: metadata has to stay small, and nobody could read it.
    """
    return {"confusionMatrix": _matrix(counts, classes)} if counts and len(classes) <= DRAWN else {}


def _roc(labels: Labels, scores: Floats) -> list[dict[str, float]]:
    """Return at most `POINTS` points, the false positive rate ascending."""
    wrong, recalls, thresholds = roc_curve(labels, scores)
    kept = np.unique(np.linspace(0, len(wrong) - 1, POINTS).round().astype(int))
    # the first threshold is infinity, which Kubeflow refuses
    limits = np.minimum(thresholds, scores.max())
    return [
        {"confidenceThreshold": float(limits[i]), "recall": float(recalls[i]), "falsePositiveRate": float(wrong[i])}
        for i in kept
    ]


def _confusion(labels: Labels, flagged: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Return the events by true category, a row each, and the one they were taken for."""
    return _matrix(confusion_matrix(labels, flagged, labels=[0, 1]).tolist(), CATEGORIES)


def _matrix(counts: Sequence[Sequence[int]], names: Sequence[str]) -> dict[str, Any]:
    return {
        "annotationSpecs": [{"displayName": name} for name in names],
        "rows": [{"row": list(row)} for row in counts],
    }
