"""Scores of texts: bits per byte, of a text's first row as a server gives them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pandas as pd

from nightshift import storage
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.items import shards
from nightshift.tasks.base import scoring as base
from nightshift.tasks.items.references import KEYS
from nightshift_llm.task import scores
from nightshift_llm.task.scores import DocumentScorer


@dataclass(frozen=True)
class TextScorer(base.DayScorer):
    """A language model, and its graph."""

    scorer: DocumentScorer

    def batches(self, features: Table, day: date) -> Iterator[pd.DataFrame]:
        shards.check(features, self.scorer.preprocessing)
        yield scores.describe(self.scorer, storage.read_frame(features.partition(day).uri, [*KEYS, "tokens"]))


class ScoringTask(base.ScoringTask):
    """Bits per byte of each text's first row."""

    def scorer(self, uri: str, model: ModelPackage) -> TextScorer:
        return TextScorer(DocumentScorer.open(uri, model))
