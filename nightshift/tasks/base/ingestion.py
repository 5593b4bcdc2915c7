"""What the ingestion step asks: simulated rows, the rules by which rows are good, and labels."""

from abc import ABC, abstractmethod
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd


class SimulationTask(ABC):
    """Rows to begin with, where the data is simulated."""

    # the columns of a day, whatever the world
    columns: ClassVar[tuple[str, ...]]

    def list_columns(self, config: Any) -> tuple[str, ...]:
        """Return the columns of a day in the world of the use case's simulator."""
        return self.columns

    @abstractmethod
    def day(self, config: Any, on: date, labels_due: date | None = None) -> "pd.DataFrame":
        """Make one day's rows, in order of time.

        Args:
            config: the use case's simulator: the world, its drifts and corruptions.
            on: the UTC day.
            labels_due: last day whose labels, if any, should have arrived; later ones are null. None: all have.
        """


class IngestionTask:
    """The rules by which a row is good: those of its columns alone.

    Attributes:
        shared_contents: roles of contents that several rows of a day may have.
    """

    shared_contents: ClassVar[frozenset[str]] = frozenset()

    def faults(self, typed: "pd.DataFrame", config: Any) -> "pd.Series":
        """Return for each row the rule that rejects it, or null.

        Args:
            typed: under canonical names, null where a value cannot be read; n rows.
            config: the use case.
        """
        import pandas as pd

        return pd.Series(None, typed.index, dtype=object)

    def near_duplicates(self, contents: "pd.Series", config: Any) -> "npt.NDArray[np.bool_]":
        """Return which contents of a day's good rows are nearly an earlier one, (n,)."""
        import numpy as np

        return np.zeros(len(contents), bool)

    def rules(self, config: Any) -> dict[str, object]:
        """Return what decides which rows are good, beside columns and zone: part of every partition's key."""
        return {}


class LabelsTask(ABC):
    """Labels, where the columns of a task have one."""

    # what they have to be, for a message
    kind: ClassVar[str]

    @abstractmethod
    def schema(self, config: Any, nullable: bool) -> Any:
        """Return the column, of pandera, that labels of good rows are held to."""

    @abstractmethod
    def read(self, column: "pd.Series", config: Any) -> "pd.Series":
        """Return labels, null where one cannot be read."""

    def names(self, labels: "pd.Series") -> "pd.Series":
        """Return what rows with these labels are counted as, null where a label is."""
        return labels
