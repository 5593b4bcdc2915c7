"""How wrong versions are about a day's events, for whoever compares them as labels arrive."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pandas as pd

from nightshift.contracts.tables import Table
from nightshift.stats.comparison import Floats
from nightshift.tasks import rows

WORST = 1.0


def losses(table: Table, day: date, uris: Sequence[str]) -> list[Floats]:
    """Return the squared error of each labeled event's score by some models, float64 (n,) a model, between 0 and 1.

    Args:
        table: the features.
        day: the events'.
        uris: folders of the models.
    """
    labels, scores = rows.score_labeled_rows(table, day, uris)
    return [np.square(prediction - labels) for prediction in scores]


def slices(table: Table, day: date, columns: Sequence[str]) -> pd.DataFrame:
    """Return the values of some columns for each labeled event of a day, n rows.

    Raises:
        UserError: when the features have no such column.
    """
    return rows.select_slices(rows.read_labeled(table, day), columns)
