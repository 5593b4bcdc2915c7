"""What the scoring step asks: how days are scored."""

from abc import ABC, abstractmethod
from datetime import date
from typing import TYPE_CHECKING

from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Partition, Table
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd


class DayScorer(ABC):
    """One model, ready to score."""

    @abstractmethod
    def batches(self, features: Table, day: date) -> "Iterator[pd.DataFrame]":
        """Yield a day's scores, at least one batch.

        Args:
            features: the table that the model's inputs are read from.
            day: one of its days.

        Returns:
            a row for each row of the day, in their order: `event_id`, `event_time`, `score` (float32), and whatever
            else drift compares.

        Raises:
            UserError: when the features are not what the model takes.
        """


class ScoringTask(ABC):
    """How days are scored."""

    @abstractmethod
    def scorer(self, uri: str, model: ModelPackage) -> DayScorer:
        """Open the selected candidate of the model at a URI.

        Raises:
            UserError: when its graph's bytes are not those that the manifest names.
        """

    def explaining_scorer(self, uri: str, model: ModelPackage, reasons: int) -> DayScorer:
        """Open it as `scorer` does, for scores with their reasons: a JSON list of objects each, in column `reasons`.

        Args:
            uri: folder of the model.
            model: its manifest.
            reasons: of a score, at most.

        Raises:
            UserError: when the model has none, as here.
        """
        raise UserError(f"scoring.reasons is {reasons}, and models of task {model.kind} have none; leave it out")

    def identify(self, scores: "pd.DataFrame", features: Partition) -> "pd.DataFrame":
        """Return a day's scores with the columns by which the endpoint's log knows their rows: as they are."""
        return scores
