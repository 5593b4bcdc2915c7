"""How wrong versions are about a day's numbers, for whoever compares them as labels arrive."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pandas as pd

from nightshift.contracts.tables import Table
from nightshift.stats.comparison import Floats
from nightshift.tasks import named_inputs
from nightshift.tasks.base import release as base
from nightshift.tasks.regression.features import LAST


class ReleaseTask(base.ReleaseTask):
    """The absolute error of each labeled row, in mean errors of the day's naive forecast, which has no unit."""

    worst = 10.0

    def losses(self, table: Table, day: date, uris: Sequence[str]) -> list[Floats]:
        labels, scores = named_inputs.score_labeled_rows(table, day, uris)
        naive = named_inputs.read_labeled(table, day)[LAST].to_numpy(np.float64)
        usual = float(np.abs(naive - labels).mean()) if len(labels) else 1.0
        return [np.abs(prediction - labels) / (usual or 1.0) for prediction in scores]

    def slices(self, table: Table, day: date, columns: Sequence[str]) -> pd.DataFrame:
        return named_inputs.select_slices(named_inputs.read_labeled(table, day), columns)
