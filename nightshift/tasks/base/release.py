"""What the release step asks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar

from nightshift.contracts.tables import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd


class ReleaseTask(ABC):
    """How wrong versions are, as labels arrive or, without labels, rows do."""

    # the loss from which on one is as wrong as can be
    worst: ClassVar[float]

    @abstractmethod
    def losses(self, table: Table, day: date, uris: Sequence[str]) -> "list[npt.NDArray[np.floating[Any]]]":
        """Return the loss of each event of a day that has its label, or of each group of them, by some models.

        Args:
            table: the features.
            day: the events'.
            uris: folders of the models.

        Returns:
            float64 (n,) a model, not negative; above `worst` it counts as `worst`.
        """

    @abstractmethod
    def slices(self, table: Table, day: date, columns: Sequence[str]) -> "pd.DataFrame":
        """Return the values of some columns for each event of `losses`, or for the first of each group, n rows.

        Raises:
            UserError: when the features have no such column.
        """
