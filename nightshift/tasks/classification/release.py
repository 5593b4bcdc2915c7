"""How wrong versions are about a day's images or texts, for whoever compares them as labels arrive."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.tables import Table
from nightshift.items import bootstrap, metrics, shards
from nightshift.items.metrics import Scores
from nightshift.items.scorer import ClassScorer
from nightshift.tasks.rows import select_group_slices

WORST = 1.0
AT_ONCE = "`nightshift release abort` ends their release, `nightshift promote` promotes one without steps"


def losses(table: Table, day: date, uris: Sequence[str]) -> list[Scores]:
    """Return half the Brier score of a day's labeled items by some models, float64 (n,) a model, between 0 and 1.

    Items of one group are one observation, the mean of theirs: they err together.

    Args:
        table: the features.
        day: the items'.
        uris: folders of the models, each of which may tell other classes apart.

    Raises:
        UserError: when a model takes other inputs than the features are.
    """
    part = table.partition(day)
    rows, inputs = storage.read_frame(part.uri), shards.map_shard(part)
    known = rows["label"].notna().to_numpy()
    labeled = rows.loc[known]
    groups = bootstrap.groups(labeled)
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


def slices(table: Table, day: date, columns: Sequence[str]) -> pd.DataFrame:
    """Return the values of some columns for each labeled item of a day, or the first of its group, n rows.

    Raises:
        UserError: when the features have no such column.
    """
    labeled = storage.read_frame(table.partition(day).uri).dropna(subset="label")
    return select_group_slices(labeled, columns)
