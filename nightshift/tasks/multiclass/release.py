"""How wrong versions are about a day's classes, for whoever compares them as labels arrive."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pandas as pd

from nightshift.contracts import package
from nightshift.contracts.tables import Table
from nightshift.items import metrics, shards
from nightshift.stats.comparison import Floats
from nightshift.tabular.inputs import FrameScorer
from nightshift.tasks.base import release as base
from nightshift.tasks.multiclass.groups import name_groups, number_groups
from nightshift.tasks.named_inputs import read_labeled, select_group_slices


class ReleaseTask(base.ReleaseTask):
    """Half the Brier score of each labeled row, between 0 and 1; of a customer, its mean."""

    worst = 1.0

    def losses(self, table: Table, day: date, uris: Sequence[str]) -> list[Floats]:
        rows = read_labeled(table, day)
        groups = number_groups(rows)
        losses: list[Floats] = []
        for uri in uris:
            model = package.load(uri)
            scores = FrameScorer(uri, model).score(rows)
            errors = metrics.half_brier(shards.labels(rows, model.classes.classes), scores)
            losses.append(np.bincount(groups, errors) / np.bincount(groups))
        return losses

    def slices(self, table: Table, day: date, columns: Sequence[str]) -> pd.DataFrame:
        return select_group_slices(name_groups(read_labeled(table, day)), columns)
