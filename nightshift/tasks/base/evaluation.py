"""What the evaluation step asks: how good a model is, and whether it may replace the champion."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nightshift.contracts.artifact import Artifact
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.contracts.verdict import Verdict
from nightshift.data.splits import Fold

if TYPE_CHECKING:
    from nightshift.contracts.section import Block, Fact

C = TypeVar("C")  # a candidate or the champion, measured


@dataclass(frozen=True)
class EvaluationReport:
    """What is written of a model that was evaluated.

    Attributes:
        verdict: whether it may replace the champion.
        figures: `evaluation.json`.
        highlights: what a report shows first.
        blocks: what it shows below.
        card: the model card, in Markdown.
        metrics: of the selected candidate, for the metadata of the step.
        caveats: what a reader has to know of the rows, a sentence each.
        others: file name -> verdict of another gate.
    """

    verdict: Verdict
    figures: Artifact
    highlights: "list[Fact]"
    blocks: "list[Block]"
    card: str
    metrics: Mapping[str, Any]
    caveats: list[str] = field(default_factory=list)
    others: Mapping[str, Verdict] = field(default_factory=dict)


class RowsUnderTest(ABC, Generic[C]):
    """The test rows, on which models are measured; as text, how many and of which days."""

    @abstractmethod
    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> C:
        """Measure a candidate of the model at a URI; its version in the registry is 0 before it has one."""

    @abstractmethod
    def incompatibility(self, ours: ModelPackage, model: ModelPackage) -> str:
        """Return why a model cannot score the rows as ours does, the end of a sentence; empty when it can."""

    @abstractmethod
    def report(
        self, uri: str, model: ModelPackage, candidates: dict[str, C], champion: C | str, reference: C | None
    ) -> EvaluationReport:
        """Judge the model at a URI and describe it.

        Args:
            uri: folder of the model.
            model: its manifest.
            candidates: each of its candidates, measured.
            champion: measured on the same rows, or a sentence why there is none to compare with.
            reference: the best of earlier versions, measured on the same rows, where that is not the champion.
        """


class EvaluationTask(ABC):
    """How good a model is, and whether it may replace the champion."""

    @abstractmethod
    def read_test_rows(self, config: Any, features: Table, fold: Fold, model: ModelPackage) -> RowsUnderTest[Any]:
        """Return the test rows of a fold.

        Raises:
            UserError: when they cannot judge a model.
        """
