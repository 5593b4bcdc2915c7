"""What the training step asks: the rows that train and choose a model."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from nightshift.config import Config
from nightshift.config.neural import Trainer
from nightshift.contracts.artifact import FoldWindow, Window
from nightshift.contracts.package import DecisionRule, Signature
from nightshift.contracts.tables import Table
from nightshift.data.splits import Fold, Plan
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from nightshift.config.section import ConfigSection
    from nightshift.contracts.preprocessing import Preprocessing
    from nightshift.tasks.fitting import Fitted

U = TypeVar("U", bound=Config)  # the use case, in the class of its task


@dataclass(frozen=True)
class TrainingSetup(Generic[U]):
    """What stays the same through a training.

    Attributes:
        config: the use case.
        plan: the windows of the logical date.
        features: the table by day.
        device: `cpu` or `cuda`.
        checkpoints: URI of the folder of this training's checkpoints; empty for none.
    """

    config: U
    plan: Plan
    features: Table
    device: str
    checkpoints: str = ""


@dataclass(frozen=True)
class CandidateMetrics:
    """A candidate on validation rows.

    Attributes:
        metrics: by name; None where one has no meaning.
        decision: the rule by which its scores decide.
    """

    metrics: Mapping[str, Any]
    decision: DecisionRule


class Sample(ABC):
    """Training rows, with labels if there are any, on which candidates are fitted."""

    @property
    @abstractmethod
    def window(self) -> FoldWindow:
        """Their days, and how many there are."""

    @property
    @abstractmethod
    def signature(self) -> Signature:
        """What the graph of each candidate takes and gives."""

    @property
    @abstractmethod
    def preprocessing(self) -> "Preprocessing":
        """How rows become what a graph takes."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """Name -> content of the JSON files that a package holds beside its graphs."""
        return {}

    @property
    def constant(self) -> list[str]:
        """Names of inputs from which nothing can be learned, since they are the same in every row."""
        return []

    @property
    def unlearned_classes(self) -> list[str]:
        """Names of the classes that no row has.

        Raises:
            UserError: when nothing can be learned from the rows at all.
        """
        return []

    @property
    @abstractmethod
    def tolerance(self) -> float:
        """By how much the scores of a candidate's graph may differ from the library's."""

    def prepare(self, holdout: Any, choices: Mapping[str, Mapping[str, float]]) -> Self:
        """Return the sample with what candidates choose by, besides their parameters.

        Args:
            holdout: validation rows, a `Holdout` of the task; None where the choice is made.
            choices: candidate -> what it has chosen by them.
        """
        return self

    @abstractmethod
    def check(self) -> None:
        """Have every candidate's parameters looked at, before the first one is fitted for hours.

        Raises:
            UserError: naming the one that is refused.
        """

    @abstractmethod
    def fit(self, name: str) -> "Fitted":
        """Fit a candidate.

        Raises:
            UserError: when a parameter is refused.
        """

    @abstractmethod
    def export_error(self, fitted: "Fitted") -> float:
        """Return by how much a graph's scores differ from the library's, on some of the rows; NaN where it diverged."""


class Holdout(ABC):
    """Rows by which candidates are chosen, and that none of them was fitted on."""

    @property
    @abstractmethod
    def window(self) -> FoldWindow:
        """Their days, and how many there are."""

    @abstractmethod
    def measure(self, graph: bytes) -> CandidateMetrics:
        """Measure a candidate by its ONNX graph."""


S = TypeVar("S", bound=Sample)


class TrainingRows(ABC, Generic[S]):
    """The rows of a training."""

    @abstractmethod
    def sample(self, fold: Fold) -> S:
        """Return the training rows of a fold.

        Raises:
            UserError: when they cannot train a model: none, labels that are due and missing, one class only.
        """

    @abstractmethod
    def holdout(self, fold: Fold, sample: S) -> Holdout:
        """Return the test rows of a fold, as a model of a sample takes them.

        Raises:
            UserError: when they cannot judge a model.
        """

    @abstractmethod
    def reference(self, sample: S, graph: bytes, decision: DecisionRule) -> "tuple[pd.DataFrame, Window | None]":
        """Return the rows that drift is measured against, scored by a graph, and their days unless the sample's.

        Args:
            sample: the training rows.
            graph: of the selected candidate.
            decision: the rule by which its scores decide.
        """


class TrainingTask(ABC):
    """What trains and chooses a model."""

    @abstractmethod
    def read_rows(self, setup: TrainingSetup[Any]) -> TrainingRows[Any]:
        """Read the rows of a training.

        Raises:
            UserError: when the features are not what the config's candidates take.
        """

    def networks(self, task: Any) -> "Mapping[str, ConfigSection]":
        """Return the candidates of a config's task that several processes train together."""
        return {}

    def scale_down(self, task: Any, trainer: Trainer) -> Any:
        """Return a config's task with its one network so small that a laptop trains it in the same layout.

        Raises:
            UserError: when there is no such stand-in.
        """
        raise UserError(f"--scale-down: a network of {task.kind} has no stand-in for {trainer!r}; leave it out")
