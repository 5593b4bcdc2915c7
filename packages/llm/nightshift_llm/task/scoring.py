"""Scores of texts: bits per byte, of a text's first row as a server gives them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pandas as pd

from nightshift import storage
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Partition, Table
from nightshift.items import shards
from nightshift.tasks.classification.drift_reference import KEYS
from nightshift_llm.task import scores
from nightshift_llm.task.scores import DocumentScorer


@dataclass(frozen=True)
class TextScorer:
    """A language model, and its graph."""

    scorer: DocumentScorer

    def batches(self, features: Table, day: date) -> Iterator[pd.DataFrame]:
        """Yield a day's scores in one batch; see `scores.describe`."""
        shards.check(features, self.scorer.preprocessing)
        yield scores.describe(self.scorer, storage.read_frame(features.partition(day).uri, [*KEYS, "tokens"]))


def scorer(uri: str, model: ModelPackage) -> TextScorer:
    """Open the selected candidate of the model at a URI."""
    return TextScorer(DocumentScorer.open(uri, model))


def identify(scored: pd.DataFrame, _: Partition) -> pd.DataFrame:
    """Return the scores as they are: `content` is what the endpoint's log knows a text by."""
    return scored
