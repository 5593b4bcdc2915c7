"""The bits per byte of a day's texts under several versions."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pandas as pd

from nightshift.contracts import package
from nightshift.contracts.tables import Table
from nightshift.items import shards
from nightshift.stats import bootstrap
from nightshift.tasks.base import release as base
from nightshift.tasks.named_inputs import select_group_slices
from nightshift_llm.task import documents
from nightshift_llm.task.scores import DocumentScorer, Floats


class ReleaseTask(base.ReleaseTask):
    """Bits per byte of each text; texts of one group count as their mean."""

    worst = 8.0  # bits per byte of a uniform guess

    def losses(self, table: Table, day: date, uris: Sequence[str]) -> list[Floats]:
        rows = table.read([day])
        groups = bootstrap.number_groups(rows)
        model_losses: list[Floats] = []
        for uri in uris:
            scorer = DocumentScorer.open(uri, package.load(uri))
            shards.check(table, scorer.preprocessing, "versions of different tokens are not compared")
            errors = scorer.score(documents.read_tokens(rows)).losses
            model_losses.append(np.bincount(groups, errors) / np.bincount(groups))
        return model_losses

    def slices(self, table: Table, day: date, columns: Sequence[str]) -> pd.DataFrame:
        return select_group_slices(table.read([day]), columns)
