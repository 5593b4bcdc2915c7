"""Scores of texts: bits per byte, of a text's first row as a server gives them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pandas as pd

from nightshift import storage
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.preprocessing import LanguagePreprocessing
from nightshift.contracts.tables import Partition, Table
from nightshift.tasks.language import documents, scores
from nightshift.tasks.language.scores import DocumentScorer

COLUMNS = ["event_id", "event_time", "tokens"]


@dataclass(frozen=True)
class TextScorer:
    """A language model, and its graph."""

    scorer: DocumentScorer

    def batches(self, features: Table, day: date) -> Iterator[pd.DataFrame]:
        """Yield a day's scores in one batch; see `scores.describe`."""
        preprocessing = self.scorer.preprocessing
        documents.check(features, preprocessing.tokenizer_sha256)
        rows = storage.read_frame(features.partition(day).uri, COLUMNS)
        yield scores.describe(self.scorer, rows).assign(content=hash_first_rows(rows, preprocessing))


def scorer(uri: str, model: ModelPackage) -> TextScorer:
    """Open the selected candidate of the model at a URI."""
    return TextScorer(DocumentScorer.open(uri, model))


def identify(scored: pd.DataFrame, _: Partition) -> pd.DataFrame:
    """Return the scores as they are: `content` is what the endpoint's log knows a text by."""
    return scored


def hash_first_rows(rows: pd.DataFrame, preprocessing: LanguagePreprocessing) -> pd.Series:
    """Return the hash of each text's first row of tokens, as a server makes it."""
    firsts = [document[: preprocessing.length + 1] for document in documents.read_tokens(rows)]
    cut, _ = documents.cut_rows(firsts, preprocessing)
    return pd.Series([storage.sha256(row.tobytes()) for row in cut], dtype=str)
