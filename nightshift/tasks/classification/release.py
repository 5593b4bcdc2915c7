"""How wrong versions are about a day's images or texts, for whoever compares them as labels arrive."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.tables import Table
from nightshift.items import metrics, shards
from nightshift.items.metrics import Scores
from nightshift.items.scorer import ClassScorer
from nightshift.stats import bootstrap
from nightshift.tasks.base import release as base
from nightshift.tasks.named_inputs import select_group_slices

AT_ONCE = "`nightshift release abort` ends their release, `nightshift promote` promotes one without steps"


class ReleaseTask(base.ReleaseTask):
    """Half the Brier score of each labeled item, between 0 and 1; of a group, which errs together, its mean."""

    worst = 1.0

    def losses(self, table: Table, day: date, uris: Sequence[str]) -> list[Scores]:
        part = table.partition(day)
        rows, inputs = storage.read_frame(part.uri), shards.map_shard(part)
        known = rows["label"].notna().to_numpy()
        labeled = rows.loc[known]
        groups = bootstrap.number_groups(labeled)
        model_losses: list[Scores] = []
        for uri in uris:
            model = package.load(uri)
            preprocessing = model.classes
            shards.check(table, preprocessing, f"versions of different inputs are not compared: {AT_ONCE}")
            # the whole shard, which is mapped into memory: by now hardly a row has no label
            scores = ClassScorer(uri, model).score(inputs)[known]
            errors = metrics.half_brier(shards.labels(labeled, preprocessing.classes), scores)
            model_losses.append(np.bincount(groups, errors) / np.bincount(groups))
        return model_losses

    def slices(self, table: Table, day: date, columns: Sequence[str]) -> pd.DataFrame:
        labeled = storage.read_frame(table.partition(day).uri).dropna(subset="label")
        return select_group_slices(labeled, columns)
