"""What forms of a graph are measured on where a task has classes."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from components.classes import bootstrap
from components.classes.metrics import Labels, Scores


@dataclass(frozen=True)
class Rows:
    """Images or texts whose class is predicted.

    Attributes:
        inputs: what the graph takes of the validation rows, (n, ...).
        labels: numbers of classes, (n,).
        groups: number of each row's group, (n,).
        limit: accuracy that a form may lose, at the high end of the interval.
    """

    metric: ClassVar = "accuracy"
    many: ClassVar = 32
    inputs: npt.NDArray[Any]
    labels: Labels
    groups: Labels
    limit: float
    is_decidable: ClassVar = True

    def decided(self, scores: Scores) -> npt.NDArray[Any]:
        """Return the predicted classes."""
        found: Labels = scores.argmax(1)
        return found

    def quality(self, scores: Scores) -> float:
        """Return the accuracy."""
        return float(np.mean(scores.argmax(1) == self.labels))

    def resampled(self, scores: Scores) -> npt.NDArray[np.float64]:
        """Return the accuracy of every resample."""
        return bootstrap.resampled(self.labels, scores.argmax(1), self.groups, scores.shape[1])["accuracy"]
