"""The mistakes that a model is surest of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from nightshift.items.metrics import Flags, Labels, Scores, match, predict, spread
from nightshift.items.shards import Array


@dataclass(frozen=True)
class Answers:
    """The test rows, and what a model says of them.

    Attributes:
        rows: who they are, with `event_id`.
        inputs: what the graph takes of them, (n, ...).
        labels: numbers of their classes, (n,), or which each has, (n, classes).
        scores: probability of each class, (n, classes).
        classes: their names.
        thresholds: of each class, where a row has any number of them.
    """

    rows: pd.DataFrame
    inputs: Array
    labels: Labels
    scores: Scores
    classes: list[str]
    thresholds: Sequence[float] = ()

    @cached_property
    def predictions(self) -> Labels:
        """What the rows are taken for, in the form of their labels."""
        return predict(self.scores, self.thresholds)

    @cached_property
    def confidence(self) -> Scores:
        """How sure the model is of each row, (n,): of any number of labels, of what it is most wrong about."""
        if self.labels.ndim == 1:
            highest: Scores = self.scores.max(1)
            return highest
        errors: Scores = np.where(self.labels != self.predictions, np.abs(self.scores - self.labels), 0).max(1)
        return errors

    def surest(self, most: int) -> Iterator[int]:
        """Yield the numbers of the rows taken for something else, the surest first."""
        wrong = np.flatnonzero(~match(self.labels, self.predictions))
        yield from wrong[np.argsort(-self.confidence[wrong], kind="stable")][:most].tolist()

    def names(self, row: int) -> tuple[str, str, str]:
        """Return a row's id, its class or classes, and what it is taken for."""
        true, predicted = (
            spread(labels[row : row + 1], len(self.classes))[0] for labels in (self.labels, self.predictions)
        )
        return str(self.rows["event_id"].iloc[row]), self._spell(true), self._spell(predicted)

    def _spell(self, flags: Flags) -> str:
        return ", ".join(name for name, is_one in zip(self.classes, flags, strict=True) if is_one) or "no class"
