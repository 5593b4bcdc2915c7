"""The bits per byte of a day's texts under several versions."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pandas as pd

from nightshift.contracts import package
from nightshift.contracts.tables import Table
from nightshift.items import bootstrap, shards
from nightshift.tasks.rows import select_group_slices
from nightshift_llm.task import documents
from nightshift_llm.task.scores import DocumentScorer, Floats

WORST = 8.0  # bits per byte of a uniform guess


def losses(table: Table, day: date, uris: Sequence[str]) -> list[Floats]:
    """Return the bits per byte of a day's texts by some models, float64 (n,) a model.

    Texts of one group are one observation, the mean of theirs.

    Args:
        table: the features.
        day: the texts'.
        uris: folders of the models.

    Raises:
        UserError: when a model is one of other tokens than the features.
    """
    rows = table.read([day])
    groups = bootstrap.groups(rows)
    model_losses: list[Floats] = []
    for uri in uris:
        scorer = DocumentScorer.open(uri, package.load(uri))
        shards.check(table, scorer.preprocessing, "versions of different tokens are not compared")
        errors = scorer.score(documents.read_tokens(rows)).losses
        model_losses.append(np.bincount(groups, errors) / np.bincount(groups))
    return model_losses


def slices(table: Table, day: date, columns: Sequence[str]) -> pd.DataFrame:
    """Return the values of some columns for each text of a day, or the first of its group, n rows.

    Raises:
        UserError: when the features have no such column.
    """
    return select_group_slices(table.read([day]), columns)
