"""The evaluation of a language model on the test texts, and its report."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.data.splits import Days, Fold
from nightshift.items import shards
from nightshift.items.tokens import Tokens
from nightshift.stats import bootstrap
from nightshift.tasks import trials
from nightshift.tasks.base import evaluation as base
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.items.slices import split_thirds
from nightshift.tasks.metric_reports import list_measures
from nightshift.tasks.trials import Contender, Gate, Trial
from nightshift_llm.config import LanguageConfig
from nightshift_llm.contracts.evaluation import LanguageEvaluation, LanguageSlice, Memorization
from nightshift_llm.preprocessing import LanguagePreprocessing
from nightshift_llm.task import documents, memorization, quality
from nightshift_llm.task.metrics import BITS_PER_BYTE
from nightshift_llm.task.scores import DocumentScorer, DocumentScores

MIN_GROUPS = 20  # of the test texts, needed to decide: the bootstrap resamples groups


class LanguageContender(Contender):
    """A model version, measured on the test texts."""

    lower_is_better = (BITS_PER_BYTE.name,)


@dataclass(frozen=True)
class DocumentsUnderTest(base.RowsUnderTest[LanguageContender]):
    """The test texts.

    Attributes:
        config: the use case.
        days: test days.
        left_out: number of their texts that overlap too much with training texts.
        rows: rows of the features table.
        training: rows of the training texts that measure memorization.
    """

    config: LanguageConfig
    days: Days
    left_out: int
    rows: pd.DataFrame
    training: pd.DataFrame
    _scored: dict[tuple[str, str], DocumentScores] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{len(self.rows)} test texts of {self.days}, {self.left_out} left out"

    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> LanguageContender:
        scores = self._score(uri, model, candidate)
        measured = {"metrics": scores.bits_per_byte, "resamples": scores.resample(self._groups)}
        return LanguageContender.from_model(
            model, version, **{name: {BITS_PER_BYTE.name: value} for name, value in measured.items()}
        )

    def incompatibility(self, ours: ModelPackage, model: ModelPackage) -> str:
        is_fit = model.preprocessing.feature_settings == ours.preprocessing.feature_settings
        return "" if is_fit else "takes other tokens"

    def report(
        self,
        uri: str,
        model: ModelPackage,
        candidates: dict[str, LanguageContender],
        champion: LanguageContender | str,
        reference: LanguageContender | None,
    ) -> EvaluationReport:
        challenger, scores = candidates[model.selected], self._score(uri, model, model.selected)
        memorized = self._measure_memorization(uri, model)
        verdict = trials.judge(challenger, champion, self._gate(challenger, memorized), reference)
        window = splits.describe(self.rows, self.days)
        trial = Trial(self.config, model, window, candidates, champion, verdict)
        figures = LanguageEvaluation(
            **trial.shared_figures(),
            left_out=self.left_out,
            bytes=int(scores.sizes.sum()),
            slices=list(slices(self.rows, scores)),
            memorization=memorized,
        )
        return EvaluationReport(
            verdict=verdict,
            figures=figures,
            highlights=list(quality.highlights(trial, figures)),
            blocks=list(quality.blocks(trial, figures)),
            card=quality.render_card(trial, figures),
            metrics=challenger.metrics,
        )

    def _measure_memorization(self, uri: str, model: ModelPackage) -> Memorization | None:
        """Return the selected candidate's memorization of training and test texts."""
        scorer = DocumentScorer.open(uri, model)
        test = memorization.select_passages(self.rows, scorer.preprocessing.length)
        return memorization.measure_memorization(scorer, self.training, test)

    def _gate(self, challenger: LanguageContender, memorized: Memorization | None) -> Gate:
        limits, loss = self.config.evaluation, challenger.estimates()[BITS_PER_BYTE.name]
        limit, floor = limits.max_bits_per_byte, []
        measures = [*list_measures(challenger, [BITS_PER_BYTE], {BITS_PER_BYTE.name: limit})]
        if loss.value > limit:
            floor = [f"{BITS_PER_BYTE.title} {loss} is above {limit:g}."]
        if memorized:
            measures.append(quality.measure_memorized(memorized.shares[0], limits.max_memorized))
            floor += quality.refuse_memorized(memorized, limits.max_memorized)
        return Gate(
            metric=BITS_PER_BYTE.name,
            tolerance=limits.tolerance,
            undecidable=[
                *self._find_shortages(),
                *quality.explain_unmeasured(memorized, limits.max_memorized),
            ],
            refused=floor,
            passed=f"The challenger takes {loss} bits per byte of {len(self.rows)} texts; {limit:g} are allowed.",
            measures=measures,
        )

    def _find_shortages(self) -> Iterator[str]:
        texts, groups = len(self.rows), int(self._groups.max()) + 1
        if texts < self.config.evaluation.min_rows:
            yield f"There are {texts} test texts; at least {self.config.evaluation.min_rows} are needed to decide."
        elif groups < MIN_GROUPS:
            yield f"The {texts} test texts are of {groups} groups; at least {MIN_GROUPS} are needed to decide."

    @cached_property
    def _groups(self) -> npt.NDArray[np.int64]:
        return bootstrap.number_groups(self.rows)

    @cached_property
    def _texts(self) -> list[Tokens]:
        return documents.read_tokens(self.rows)

    def _score(self, uri: str, model: ModelPackage, candidate: str) -> DocumentScores:
        if (uri, candidate) not in self._scored:
            self._scored[uri, candidate] = DocumentScorer.open(uri, model, candidate).score(self._texts)
        return self._scored[uri, candidate]


def slices(rows: pd.DataFrame, scores: DocumentScores) -> Iterator[LanguageSlice]:
    """Yield how well parts of the texts are predicted: those of each source, the largest first, and thirds by size."""
    parts = list(split_thirds("bytes", scores.sizes))
    if "source" in rows:
        counts = rows["source"].value_counts()
        parts = [(f"source {name}", (rows["source"] == name).to_numpy()) for name in counts.index] + parts
    for name, mask in parts:
        if mask.any():
            part = DocumentScores(scores.bits[mask], scores.sizes[mask], scores.firsts[mask])
            yield LanguageSlice(name=name, rows=int(mask.sum()), bits_per_byte=part.bits_per_byte)


class EvaluationTask(base.EvaluationTask):
    """The test texts that have little in common with the training texts."""

    def read_test_rows(
        self, config: LanguageConfig, features: Table, fold: Fold, model: ModelPackage
    ) -> DocumentsUnderTest:
        shards.check(features, model.preprocessing)
        table = features.read(Days(fold.train.first, fold.test.last))
        holdout = documents.holdout_documents(table, fold, config.task.max_overlap)
        left_out = len(splits.rows_of(table, fold.test)) - len(holdout)
        length = model.preprocessing_as(LanguagePreprocessing).length
        training = memorization.select_passages(splits.rows_of(table, fold.train), length)
        return DocumentsUnderTest(config, fold.test, left_out, holdout, training)
