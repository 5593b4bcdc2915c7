"""The mistakes that a model is surest of."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nightshift.items.metrics import Labels, Scores
from nightshift.items.shards import Array


@dataclass(frozen=True)
class Answers:
    """The test rows, and what a model says of them.

    Attributes:
        rows: who they are, with `event_id`.
        inputs: what the graph takes of them, (n, ...).
        labels: numbers of their classes, (n,).
        scores: probability of each class, (n, classes).
        classes: their names.
    """

    rows: pd.DataFrame
    inputs: Array
    labels: Labels
    scores: Scores
    classes: list[str]

    def surest(self, most: int) -> Iterator[int]:
        """Yield the numbers of the rows taken for another class, the surest first."""
        wrong = np.flatnonzero(self.scores.argmax(1) != self.labels)
        yield from wrong[np.argsort(-self.scores[wrong].max(1), kind="stable")][:most].tolist()

    def names(self, row: int) -> tuple[str, str, str]:
        """Return a row's id, its class, and what it is taken for."""
        predicted_class, event = self.scores[row].argmax(), self.rows["event_id"].iloc[row]
        return str(event), self.classes[self.labels[row]], self.classes[predicted_class]
