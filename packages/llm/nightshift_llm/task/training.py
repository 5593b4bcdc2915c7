"""The texts that train and select a language model."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from nightshift.config.neural import Trainer
from nightshift.config.section import ConfigSection
from nightshift.contracts.artifact import FoldWindow, Window
from nightshift.contracts.package import Datatype, DecisionRule, Signature, Tensor
from nightshift.data.splits import Days, Fold, Plan, describe
from nightshift.items import shards
from nightshift.models.graph import Graph
from nightshift.tasks.base import training as base
from nightshift.tasks.base.training import CandidateMetrics, TrainingSetup
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.items import references
from nightshift.tasks.items.networks import TOLERANCE, FitSetup
from nightshift_llm.config import LanguageConfig, LanguageTaskConfig
from nightshift_llm.preprocessing import LanguagePreprocessing
from nightshift_llm.recipes import llama
from nightshift_llm.task import candidates, documents, scores
from nightshift_llm.task.metrics import BITS_PER_BYTE
from nightshift_llm.task.scores import DocumentScorer
from nightshift_llm.task.tokens import FILE, ByteTokenizer, load_tokenizer

SMALL_LENGTH = 64  # tokens of a row in a stand-in for a large training, of each process that shares it
CHECKED = 32  # texts on which an exported graph is compared with its network


@dataclass(frozen=True)
class DocumentSample(base.Sample):
    """Texts that train.

    Attributes:
        setup: of the training.
        rows: of the features table.
        days: on which they lie.
    """

    setup: FitSetup[LanguageTaskConfig]
    rows: pd.DataFrame
    days: Days

    @property
    def window(self) -> FoldWindow:
        return describe(self.rows, self.days)

    @property
    def signature(self) -> Signature:
        return Signature.of_scores(Tensor.of_rows(Datatype.INT32, self.setup.task.length + 1))

    @cached_property
    def preprocessing(self) -> LanguagePreprocessing:
        return documents.describe_preprocessing(self.setup.task, self.tokenizer)

    @property
    def files(self) -> Mapping[str, bytes]:
        return {FILE: self.tokenizer.content}

    @property
    def tolerance(self) -> float:
        return TOLERANCE

    def check(self) -> None:
        for name in self.setup.task.candidates:
            candidates.recipe(self.setup.task, name)

    def fit(self, name: str) -> Fitted:
        return candidates.fit(self.setup, name, self.rows)

    def export_error(self, fitted: Fitted) -> float:
        some = documents.read_tokens(self.rows.iloc[:: -(-len(self.rows) // CHECKED)])
        rows, _ = documents.cut_rows(some, self.preprocessing)
        return float(np.abs(self.scorer(fitted.graph).score_rows(rows) - fitted.predict(rows)).max())

    def scorer(self, graph: bytes) -> DocumentScorer:
        """Return the scorer of a candidate's graph."""
        return DocumentScorer(Graph(graph), self.preprocessing, self.tokenizer.byte_lengths)

    @cached_property
    def tokenizer(self) -> ByteTokenizer:
        """How texts become tokens."""
        return load_tokenizer(self.setup.task)


@dataclass(frozen=True)
class DocumentHoldout(base.Holdout):
    """Texts that no candidate was fitted on.

    Attributes:
        sample: what candidates were fitted on.
        rows: of the features table.
        days: on which they lie.
    """

    sample: DocumentSample
    rows: pd.DataFrame
    days: Days

    @property
    def window(self) -> FoldWindow:
        return describe(self.rows, self.days)

    def measure(self, graph: bytes) -> CandidateMetrics:
        scored = self.sample.scorer(graph).score(documents.read_tokens(self.rows))
        return CandidateMetrics({BITS_PER_BYTE.name: scored.bits_per_byte}, DecisionRule(threshold=None))


@dataclass(frozen=True)
class DocumentRows(base.TrainingRows[DocumentSample]):
    """The texts of a training.

    Attributes:
        setup: task and device.
        plan: the windows of the logical date.
        rows: from the first training day of the validation fold to the last one of the test fold.
    """

    setup: FitSetup[LanguageTaskConfig]
    plan: Plan
    rows: pd.DataFrame

    def sample(self, fold: Fold) -> DocumentSample:
        return DocumentSample(self.setup, documents.training_documents(self.rows, fold), fold.train)

    def holdout(self, fold: Fold, sample: DocumentSample) -> DocumentHoldout:
        holdout = documents.holdout_documents(self.rows, fold, self.setup.task.max_overlap)
        return DocumentHoldout(sample, holdout, fold.test)

    def reference(self, sample: DocumentSample, graph: bytes, _: DecisionRule) -> tuple[pd.DataFrame, Window]:
        days = self.plan.before
        holdout = references.draw_holdout(self.rows, self.plan, sample.rows, self.setup.task.seed)
        frame = scores.describe(sample.scorer(graph), holdout, references.REFERENCE)
        return frame, Window(first=days.first, last=days.last, rows=len(frame))


class TrainingTask(base.TrainingTask):
    """Networks that predict the next token."""

    def read_rows(self, setup: TrainingSetup[LanguageConfig]) -> DocumentRows:
        task, plan = setup.config.task, setup.plan
        shards.check(setup.features, documents.describe_preprocessing(task, load_tokenizer(task)))
        rows = setup.features.read(Days(plan.validation.train.first, plan.test.train.last))
        return DocumentRows(FitSetup(task, setup.device, setup.checkpoints, setup.features.shared), plan, rows)

    def networks(self, task: LanguageTaskConfig) -> Mapping[str, ConfigSection]:
        return task.candidates

    def scale_down(self, task: LanguageTaskConfig, trainer: Trainer) -> LanguageTaskConfig:
        ((name, candidate),) = task.candidates.items()
        small = candidate.model_copy(update={"parameters": llama.scale_down(candidate.parameters, trainer)})
        length = SMALL_LENGTH * trainer.context
        return task.model_copy(update={"length": length, "tokenizer": None, "candidates": {name: small}})
