"""The validation texts on which graph variants and GGUF files are measured."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.contracts import package
from nightshift.contracts.optimization import EngineVariant
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.data.splits import Days
from nightshift.items import shards
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors, by_name
from nightshift.runtime.errors import UserError, require_extra
from nightshift.stats import bootstrap
from nightshift.tasks.base import optimization as base
from nightshift.tasks.items.references import KEYS, REFERENCE, SAMPLE
from nightshift_llm import DISTRIBUTION
from nightshift_llm.config import LanguageConfig
from nightshift_llm.preprocessing import LanguagePreprocessing
from nightshift_llm.task import documents, scores
from nightshift_llm.task.scores import DocumentScorer, DocumentScores, Floats
from nightshift_llm.task.tokens import open_tokenizer

JUDGED = 256  # texts on which GGUF files are compared

Scores = npt.NDArray[np.float32]


@dataclass(frozen=True)
class DocumentOptimizationRows(base.OptimizationRows):
    """Rows of the validation texts.

    Attributes:
        scorer: of the model.
        texts: of the features table.
    """

    metric: ClassVar = "bits per byte"
    batch_size: ClassVar = 8
    scorer: DocumentScorer
    texts: pd.DataFrame

    def quality(self, scores: Scores) -> float:
        return -self._sum_up(scores).bits_per_byte

    def resample(self, scores: Scores) -> Floats:
        return -self._sum_up(scores).resample(bootstrap.number_groups(self.texts))

    def _sum_up(self, scores: Scores) -> DocumentScores:
        return self.scorer.sum_up(*self._rows, scores)

    @cached_property
    def _rows(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        return documents.cut_rows(documents.read_tokens(self.texts), self.scorer.preprocessing)


class OptimizationTask(base.OptimizationTask):
    """Bits per byte on the validation texts, of graphs and of GGUF files."""

    def read_samples(
        self, config: LanguageConfig, features: Table, uri: str, model: ModelPackage, limit: float
    ) -> tuple[Tensors, DocumentOptimizationRows]:
        train, scorer = model.lineage.train, DocumentScorer.open(uri, model)
        seen = features.read(Days(train.first, train.last))
        some = documents.read_tokens(seen.iloc[:: -(-len(seen) // SAMPLE)])
        sample, _ = documents.cut_rows(some, scorer.preprocessing)
        holdout = _read_validation_texts(config, features, model)
        inputs = by_name(documents.cut_rows(documents.read_tokens(holdout), scorer.preprocessing)[0])
        return by_name(sample), DocumentOptimizationRows(inputs, limit, scorer, holdout)

    def reference(self, features: Table, uri: str, model: ModelPackage, graph: Graph) -> pd.DataFrame:
        sample, days = package.read_reference(uri), model.lineage.reference
        assert days is not None
        rows = features.read(Days(days.first, days.last))
        kept, known = (pd.MultiIndex.from_frame(frame[KEYS]) for frame in (sample, rows))
        opened = DocumentScorer.open(uri, model)
        scorer = DocumentScorer(graph, model.preprocessing_as(LanguagePreprocessing), opened.byte_lengths)
        return scores.describe(scorer, rows[known.isin(kept)], REFERENCE)

    def engine_variants(
        self, config: LanguageConfig, features: Table, uri: str, model: ModelPackage, folder: Path
    ) -> list[EngineVariant]:
        wanted = config.optimization.weight_types
        if not wanted:
            return []
        try:
            with require_extra("optimization.weight_types", "engine", DISTRIBUTION):
                from nightshift_llm.task import engine
            tokenizer, texts = open_tokenizer(uri, model), _read_validation_texts(config, features, model)
            every = -(-len(texts) // JUDGED)
            judged = [tokenizer.decode(document) for document in documents.read_tokens(texts.iloc[::every])]
            return engine.write_variants(config.optimization, uri, model, list(filter(None, judged)), folder)
        except UserError as error:  # the model scores all the same
            return [EngineVariant.missing(name, f"{error}.") for name in wanted]


def _read_validation_texts(config: LanguageConfig, features: Table, model: ModelPackage) -> pd.DataFrame:
    """Return the texts of the validation days that have little in common with those that trained the candidates.

    Raises:
        UserError: when there are none, or the features are of other tokens than the model takes.
    """
    shards.check(features, model.preprocessing)
    fold = splits.fold(config, model.lineage.validation.last)
    table = features.read(Days(fold.train.first, fold.test.last))
    return documents.holdout_documents(table, fold, config.task.max_overlap)
