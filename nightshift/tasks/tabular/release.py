"""How wrong versions are about a day's events, for whoever compares them as labels arrive."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pandas as pd

from nightshift.contracts.tables import Table
from nightshift.stats.comparison import Floats
from nightshift.tasks import named_inputs
from nightshift.tasks.base import release as base


class ReleaseTask(base.ReleaseTask):
    """The squared error of each labeled event's score, between 0 and 1."""

    worst = 1.0

    def losses(self, table: Table, day: date, uris: Sequence[str]) -> list[Floats]:
        labels, scores = named_inputs.score_labeled_rows(table, day, uris)
        return [np.square(prediction - labels) for prediction in scores]

    def slices(self, table: Table, day: date, columns: Sequence[str]) -> pd.DataFrame:
        return named_inputs.select_slices(named_inputs.read_labeled(table, day), columns)
