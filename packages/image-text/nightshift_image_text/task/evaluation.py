"""The test pairs, and what is written of a model that was measured on them."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from nightshift.config.classes import ClassConfig
from nightshift.contracts.package import ModelPackage, read_graph, read_tokenizer
from nightshift.contracts.tables import Table
from nightshift.contracts.verdict import Verdict
from nightshift.data.splits import Fold
from nightshift.items.metrics import Scores
from nightshift.items.tokens import Tokenizer
from nightshift.models.graph import Graph
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.classification import evaluation as classification
from nightshift.tasks.classification.evaluation import ItemsUnderTest
from nightshift.tasks.classification.judging import ItemContender
from nightshift_image_text.config import ImageTextConfig
from nightshift_image_text.contracts.evaluation import PairEvaluation
from nightshift_image_text.preprocessing import ImageTextPreprocessing
from nightshift_image_text.retrieval import CUTOFFS, Pairs, find_hits
from nightshift_image_text.task import judging, nearest, quality, shortcuts
from nightshift_image_text.task.judging import PairContender
from nightshift_image_text.task.measuring import PairAnswers, answer
from nightshift_image_text.task.subgroups import JudgedPairs, measure_subgroups

TOKENS = "tokens"


@dataclass(frozen=True)
class PairsUnderTest(ItemsUnderTest):
    """The test pairs; `inputs` are structured, with `pixels` and `tokens`.

    Attributes:
        config: the use case.
        features: where the rows are from.
    """

    config: ImageTextConfig
    features: Table = field(kw_only=True)
    _answered: dict[tuple[str, str], PairAnswers] = field(default_factory=dict, repr=False)

    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> PairContender:
        answers = self.answer(uri, model, candidate)
        return judging.measure(self.labeled_rows, self.pairs, answers, model, version)

    def score(self, uri: str, model: ModelPackage, candidate: str) -> Scores:
        return self.answer(uri, model, candidate).scores

    def answer(self, uri: str, model: ModelPackage, candidate: str) -> PairAnswers:
        """Return what a candidate of the model at a URI says of the pairs."""
        if (uri, candidate) not in self._answered:
            graph = Graph(read_graph(uri, model, candidate))
            self._answered[uri, candidate] = answer(graph, self.inputs)
        return self._answered[uri, candidate]

    def judge(
        self, challenger: ItemContender, champion: ItemContender | str, reference: ItemContender | None
    ) -> Verdict:
        assert isinstance(challenger, PairContender)
        assert isinstance(champion, PairContender | str)
        assert isinstance(reference, PairContender | None)
        return judging.judge(challenger, champion, self.config, reference)

    def report(
        self,
        uri: str,
        model: ModelPackage,
        candidates: dict[str, ItemContender],
        champion: ItemContender | str,
        reference: ItemContender | None,
    ) -> EvaluationReport:
        contenders = {name: one for name, one in candidates.items() if isinstance(one, PairContender)}
        challenger = self._look_closer(contenders[model.selected], uri, model)
        contenders[model.selected] = challenger
        report = super().report(uri, model, {**contenders}, champion, reference)
        figures = PairEvaluation(
            **report.figures.model_dump(exclude={"schema_"}),
            recalls={name: contender.recalls for name, contender in contenders.items()},
            subgroups=challenger.subgroups,
            shortcuts=challenger.shortcuts,
        )
        rival = champion if isinstance(champion, PairContender) else None
        shown = quality.PairTrial(self.config, model.selected, contenders, rival)
        table, *others = report.blocks
        blocks = [table, *quality.blocks(shown), *others, *nearest.blocks(self._open_reports(uri, model))]
        return replace(report, figures=figures, blocks=blocks)

    @cached_property
    def pairs(self) -> Pairs:
        """Which images and reports belong together."""
        return Pairs.from_rows(self.rows, self.inputs[TOKENS])

    def _look_closer(self, challenger: PairContender, uri: str, model: ModelPackage) -> PairContender:
        """Return the challenger with its subgroups and shortcuts."""
        answers, known = self.answer(uri, model, model.selected), self.labeled_rows
        hits = find_hits(answers.embeddings, self.pairs).both[:, CUTOFFS.index(5)]
        judged, least = JudgedPairs(known.labels, answers.scores, hits, known.groups), self._least
        hidden = shortcuts.score_hidden(Graph(read_graph(uri, model, model.selected)), self.inputs)
        thresholds = model.decision.thresholds
        return replace(
            challenger,
            subgroups=list(measure_subgroups(self.rows, judged, least)),
            shortcuts=shortcuts.find_shortcuts(judged, hidden, known.classes, thresholds, least),
        )

    def _open_reports(self, uri: str, model: ModelPackage) -> nearest.NearestReports:
        embeddings = self.answer(uri, model, model.selected).embeddings
        preprocessing = model.preprocessing_as(ImageTextPreprocessing)
        tokenizer = Tokenizer(read_tokenizer(uri, model), preprocessing.vocabulary, preprocessing.pad)
        texts = nearest.ReportTexts(self.features, tokenizer)
        return nearest.NearestReports(self.rows, self.inputs, self.pairs, embeddings, texts)

    @property
    def _least(self) -> int:
        return self.config.evaluation.min_class_rows


class EvaluationTask(classification.EvaluationTask):
    """The test pairs whose patients, and whose images, training has not seen."""

    def read_test_rows(self, config: ClassConfig, features: Table, fold: Fold, model: ModelPackage) -> PairsUnderTest:
        assert isinstance(config, ImageTextConfig)
        items = super().read_test_rows(config, features, fold, model)
        return PairsUnderTest(config, items.days, items.left_out, items.rows, items.inputs, features=features)
