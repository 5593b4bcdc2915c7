"""The texts on which forms of a graph are measured."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift import splits
from nightshift.classification import bootstrap, shards
from nightshift.config.language import LanguageConfig
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.preprocessing import LanguagePreprocessing
from nightshift.contracts.tables import Table
from nightshift.graph import Graph
from nightshift.splits import Days
from nightshift.tasks.classification.drift_reference import KEYS, REFERENCE
from nightshift.tasks.classification.optimization import SAMPLE
from nightshift.tasks.language import documents, scores
from nightshift.tasks.language.scores import DocumentScorer, DocumentScores, Floats
from nightshift.tensors import Tensors, by_name

Scores = npt.NDArray[np.float32]


@dataclass(frozen=True)
class DocumentOptimizationRows:
    """Rows of the validation texts.

    Attributes:
        scorer: of the model.
        texts: of the features table.
        limit: bits per byte that a form may lose, at the high end of the interval.
    """

    metric: ClassVar = "bits per byte"
    many: ClassVar = 8
    is_decidable: ClassVar = True
    scorer: DocumentScorer
    texts: pd.DataFrame
    limit: float

    @property
    def inputs(self) -> Tensors:
        """What the graph takes of the validation texts."""
        return by_name(self._rows[0])

    def decide(self, scores: Scores) -> npt.NDArray[Any]:
        """Return that nothing is decided by scores."""
        return np.zeros(len(scores))

    def quality(self, scores: Scores) -> float:
        """Return the bits per byte, negative: what is lost of it are bits too many."""
        return -self._sum_up(scores).bits_per_byte

    def resample(self, scores: Scores) -> Floats:
        """Return the same of every resample."""
        return -self._sum_up(scores).resample(bootstrap.groups(self.texts))

    def _sum_up(self, scores: Scores) -> DocumentScores:
        return self.scorer.sum_up(*self._rows, scores)

    @cached_property
    def _rows(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        return documents.cut_rows(documents.read_tokens(self.texts), self.scorer.preprocessing)


def rows(
    config: LanguageConfig, features: Table, uri: str, model: ModelPackage, limit: float
) -> tuple[Tensors, DocumentOptimizationRows]:
    """Return a sample of training texts' rows, and the validation texts."""
    train, fold = model.lineage.train, splits.fold(config, model.lineage.validation.last)
    scorer = DocumentScorer.open(uri, model)
    shards.check(features, scorer.preprocessing)
    seen = features.read(Days(train.first, train.last))
    some = documents.read_tokens(seen.iloc[:: -(-len(seen) // SAMPLE)])
    table = features.read(Days(fold.train.first, fold.test.last))
    unseen = documents.unseen_documents(table, fold, config.task.max_overlap)
    sample, _ = documents.cut_rows(some, scorer.preprocessing)
    return by_name(sample), DocumentOptimizationRows(scorer, unseen, limit)


def reference(features: Table, uri: str, model: ModelPackage, graph: Graph) -> pd.DataFrame:
    """Return the texts of the model's sample, as a form scores them."""
    sample, days = package.read_reference(uri), model.lineage.reference
    assert days is not None
    rows = features.read(Days(days.first, days.last))
    kept, known = (pd.MultiIndex.from_frame(frame[KEYS]) for frame in (sample, rows))
    opened = DocumentScorer.open(uri, model)
    scorer = DocumentScorer(graph, model.preprocessing_as(LanguagePreprocessing), opened.byte_lengths)
    return scores.describe(scorer, rows[known.isin(kept)], REFERENCE)
