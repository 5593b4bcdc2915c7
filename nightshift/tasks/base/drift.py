"""What the drift step asks: what may have changed since a model was trained."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.contracts.drift import Promise
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from nightshift.config.policy import DriftLimits
    from nightshift.contracts.drift import Signal
    from nightshift.contracts.section import Block
    from nightshift.data.splits import Watched
    from nightshift.stats.levels import WeekdayLevel

U = TypeVar("U", bound=Config)  # the use case, in the class of its task


@dataclass(frozen=True)
class DriftInputs(Generic[U]):
    """What is compared on which day.

    Attributes:
        config: the use case.
        day: the logical date.
        features: by day.
        scores: of the model, by day.
        uri: folder of the model.
        model: its manifest.
        reference: the rows that it carries.
    """

    config: U
    day: date
    features: Table
    scores: Table
    uri: str
    model: ModelPackage
    reference: "pd.DataFrame"

    @property
    def days(self) -> "Watched":
        """The newest days, and those whose labels are due."""
        return splits.monitoring_window(self.config, self.day, self.model.lineage.train.last)

    @property
    def promise(self) -> Promise | None:
        """What to expect of the model, None when nobody has measured it."""
        promised = self.scores.details["promised"]
        return Promise(**promised) if promised else None

    @property
    def usual_rows(self) -> "WeekdayLevel":
        """What days of the newest day's weekday held when the model was trained."""
        from nightshift.stats.levels import WeekdayLevel

        return WeekdayLevel.from_days(self.model.lineage.days, self.day)

    @property
    def rows(self) -> int | None:
        """What the newest day holds, None where that is nothing and may be."""
        return None if self.is_empty(self.day) else self.features.partition(self.day).rows

    @property
    def labeled_days(self) -> list[date]:
        """The days whose labels are due, but for empty ones, of which none are to come; see `Watched`."""
        return [day for day in self.days.labeled if not self.is_empty(day)]

    @property
    def labels(self) -> "npt.NDArray[np.bool_] | None":
        """Which rows of the newest of these days have labels, (n,); None where none have, or there is no such day."""
        roles, newest = [*self.config.columns.holding(Holds.LABEL)], self.labeled_days[-1:]
        return self.features.read(newest, roles).notna().all(axis=1).to_numpy() if roles and newest else None

    def is_empty(self, day: date) -> bool:
        """Return whether a day has no rows, and may have none."""
        return not self.features.partition(day).rows and self.config.source.may_be_empty(day)


@dataclass(frozen=True)
class Comparison(ABC):
    """The newest rows, beside those that a model carries."""

    inputs: DriftInputs[Any]

    @property
    def limits(self) -> "DriftLimits":
        """Effect sizes above which something has drifted: the config's."""
        limits: DriftLimits = self.inputs.config.drift
        return limits

    @property
    @abstractmethod
    def reference(self) -> "pd.DataFrame":
        """The columns that are compared, of the rows that the model carries; `score` is one of them."""

    @property
    @abstractmethod
    def numeric(self) -> list[str]:
        """The columns that are compared as numbers; the others are categories."""

    @abstractmethod
    def batches(self, days: Iterable[date]) -> "Iterator[pd.DataFrame]":
        """Yield the rows of some days in batches, with the columns of the reference."""

    def unlabeled_signals(self) -> "Iterator[Signal]":
        """Yield what else may have changed on the newest days, whatever their labels: nothing."""
        yield from ()

    @abstractmethod
    def labeled_signals(self) -> "Iterator[Signal]":
        """Yield how good the model is on the days whose labels are due, or that need none; there is one."""

    def examples(self) -> "list[Block]":
        """Return what a report shows of the newest day's rows: nothing."""
        return []


class DriftTask(ABC):
    """What may have changed since a model was trained."""

    @abstractmethod
    def comparison(self, inputs: DriftInputs[Any]) -> Comparison:
        """Return the comparison of the newest rows.

        Raises:
            UserError: when the model cannot be compared with.
        """
