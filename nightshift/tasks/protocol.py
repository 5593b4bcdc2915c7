"""What a step may ask of a task: a Protocol a step, which a module of that name follows in each task's package."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.contracts.artifact import Artifact, FoldWindow, Window
from nightshift.contracts.drift import Promise
from nightshift.contracts.optimization import EngineVariant
from nightshift.contracts.package import DecisionRule, ModelPackage, Signature
from nightshift.contracts.profile import PhaseName
from nightshift.contracts.tables import Partition, Table
from nightshift.contracts.verdict import Verdict
from nightshift.data import splits
from nightshift.data.splits import Fold, Plan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from nightshift.config.policy import DriftLimits
    from nightshift.config.section import ConfigSection
    from nightshift.contracts.drift import Signal
    from nightshift.contracts.preprocessing import Preprocessing
    from nightshift.contracts.section import Block, Fact
    from nightshift.data.splits import Watched
    from nightshift.models.graph import Graph
    from nightshift.models.neural.configured import ConfiguredNetwork
    from nightshift.models.tensors import Tensors
    from nightshift.stats.levels import WeekdayLevel
    from nightshift.tasks.examples import ScoredExample
    from nightshift.tasks.fitting import Fitted

U = TypeVar("U", bound=Config)  # the use case, in the class of its task


class SimulationTask(Protocol):
    """What the ingestion step asks where the data is simulated."""

    # the columns of a day
    COLUMNS: tuple[str, ...]

    def day(self, config: Any, on: date, labels_due: date | None = None) -> "pd.DataFrame":
        """Make one day's rows, in order of time.

        Args:
            config: the use case's simulator: the world, its drifts and corruptions.
            on: the UTC day.
            labels_due: last day whose labels, if any, should have arrived; later ones are null. None: all have.
        """


class IngestionTask(Protocol):
    """What the ingestion step asks: the rules by which a row is good."""

    def faults(self, typed: "pd.DataFrame", config: Any, /) -> "pd.Series":
        """Return for each row the rule that rejects it, or null.

        Args:
            typed: under canonical names, null where a value cannot be read; n rows.
            config: the use case.
        """

    def near_duplicates(self, contents: "pd.Series", config: Any, /) -> "npt.NDArray[np.bool_]":
        """Return which contents of a day's good rows are nearly an earlier one, (n,)."""

    def rules(self, config: Any, /) -> dict[str, object]:
        """Return what decides which rows are good, beside columns and zone: part of every partition's key."""


class LabelsTask(Protocol):
    """What the ingestion step asks of labels, where the columns of a task have one."""

    # what they have to be, for a message
    KIND: str

    def schema(self, config: Any, nullable: bool, /) -> Any:
        """Return the column, of pandera, that labels of good rows are held to."""

    def read(self, column: "pd.Series", config: Any, /) -> "pd.Series":
        """Return labels, null where one cannot be read."""

    def names(self, labels: "pd.Series", /) -> "pd.Series":
        """Return what rows with these labels are counted as, null where a label is."""


@dataclass(frozen=True)
class FeatureSetup(Generic[U]):
    """What the features of every day are made of.

    Attributes:
        config: the use case.
        lake: root of the tables.
        events: by day.
        device: `cpu` or `cuda`.
        scratch: URI where workers leave what others need.
        dask: the cluster whose workers those are; empty for this process.
    """

    config: U
    lake: str
    events: Table
    device: str
    scratch: str
    dask: str


@dataclass(frozen=True)
class FeatureDetails:
    """What is said of a features table.

    Attributes:
        details: of its manifest.
        sentences: of the report.
        blocks: of the report.
        metrics: of the step.
    """

    details: dict[str, Any]
    sentences: Sequence[str] = ()
    blocks: "Sequence[Block]" = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


class DailyFeatures(Protocol):
    """The features of each day, in partitions that are made once."""

    def uri(self, day: date) -> str:
        """Return where a day's partition lies: its name is a hash of all it is made from."""

    def write(self, missing: dict[date, str], /) -> dict[date, Partition]:
        """Make and write the partitions of missing days, given by their URIs."""

    def details(self, parts: list[Partition], /) -> FeatureDetails:
        """Describe the table of some days, and write what goes with it."""


class FeaturesTask(Protocol):
    """What the features step asks."""

    def features(self, setup: FeatureSetup[Any], /) -> DailyFeatures:
        """Return what makes features.

        Raises:
            UserError: when something that it needs is missing.
        """


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


class Sample(Protocol):
    """Training rows, with labels if there are any, on which candidates are fitted."""

    @property
    def window(self) -> FoldWindow:
        """Their days, and how many there are."""

    @property
    def signature(self) -> Signature:
        """What the graph of each candidate takes and gives."""

    @property
    def preprocessing(self) -> "Preprocessing":
        """How rows become what a graph takes."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """Name -> content of the JSON files that a package holds beside its graphs."""

    @property
    def constant(self) -> list[str]:
        """Names of inputs from which nothing can be learned, since they are the same in every row."""

    @property
    def unlearned_classes(self) -> list[str]:
        """Names of the classes that no row has.

        Raises:
            UserError: when nothing can be learned from the rows at all.
        """

    @property
    def tolerance(self) -> float:
        """By how much the scores of a candidate's graph may differ from the library's."""

    def check(self) -> None:
        """Have every candidate's parameters looked at, before the first one is fitted for hours.

        Raises:
            UserError: naming the one that is refused.
        """

    def fit(self, name: str) -> "Fitted":
        """Fit a candidate.

        Raises:
            UserError: when a parameter is refused.
        """

    def gap(self, fitted: "Fitted") -> float:
        """Return by how much a graph's scores differ from the library's, on some of the rows; NaN where it diverged."""


class SelectionRows(Protocol):
    """Rows by which candidates are chosen, and that none of them was fitted on."""

    @property
    def window(self) -> FoldWindow:
        """Their days, and how many there are."""

    def measure(self, graph: bytes) -> CandidateMetrics:
        """Measure a candidate by its ONNX graph."""


S = TypeVar("S", bound=Sample)
C = TypeVar("C")  # a candidate or the champion, measured


class TrainingRows(Protocol[S]):
    """The rows of a training."""

    def sample(self, fold: Fold) -> S:
        """Return the training rows of a fold.

        Raises:
            UserError: when they cannot train a model: none, labels that are due and missing, one class only.
        """

    def unseen(self, fold: Fold, sample: S) -> SelectionRows:
        """Return the test rows of a fold, as a model of a sample takes them.

        Raises:
            UserError: when they cannot judge a model.
        """

    def reference(self, sample: S, graph: bytes) -> "tuple[pd.DataFrame, Window | None]":
        """Return the rows that drift is measured against, scored by a graph, and their days unless the sample's."""


class TrainingTask(Protocol):
    """What the training step asks."""

    def rows(self, setup: TrainingSetup[Any], /) -> TrainingRows[Any]:
        """Read the rows of a training.

        Raises:
            UserError: when the features are not what the config's candidates take.
        """

    def networks(self, task: Any, /) -> "Mapping[str, ConfigSection]":
        """Return the candidates of a config's task that several processes train together."""


class ProfiledFit(Protocol):
    """A model whose training is measured."""

    batch: ClassVar[int]  # rows of a large call

    @property
    def name(self) -> str:
        """The candidate."""

    @property
    def kind(self) -> str:
        """The kind of candidate."""

    @property
    def device(self) -> str:
        """`cpu` or `cuda`."""

    @property
    def is_network(self) -> bool:
        """Whether PyTorch trains it."""

    @property
    def inputs(self) -> "Tensors":
        """What its graph takes of the training rows."""

    def fit(self) -> "Fitted":
        """Fit it, as the training does."""

    def brief(self) -> "Callable[[], Fitted]":
        """Return a fit short enough for a trace that shows every operation."""


class ProfilingTask(Protocol):
    """What the profiling step and `nightshift perf tune` ask."""

    def selected_fit(
        self,
        setup: TrainingSetup[Any],
        model: ModelPackage,
        phase: Callable[[PhaseName], AbstractContextManager[None]],
        /,
    ) -> ProfiledFit:
        """Return the fit of a model's selected candidate on the training rows.

        Args:
            setup: of the training.
            model: names the candidate, its kind and its parameters.
            phase: measures the reading of the rows, and the making of what the candidate takes.
        """

    def network(self, config: Any, name: str, inputs: int | None, /) -> "ConfiguredNetwork":
        """Return a network among the candidates of a config.

        Args:
            config: the use case.
            name: of the candidate.
            inputs: numbers of a row, where it is a table's; None for those that the config asks for.

        Raises:
            UserError: when its recipe refuses a parameter, or nothing of it is trained.
        """


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


class RowsUnderTest(Protocol[C]):
    """The test rows, on which models are measured; as text, how many and of which days."""

    def measure(self, uri: str, model: ModelPackage, candidate: str, version: int = 0) -> C:
        """Measure a candidate of the model at a URI; its version in the registry is 0 before it has one."""

    def misfit(self, ours: ModelPackage, model: ModelPackage, /) -> str:
        """Return why a model cannot score the rows as ours does, the end of a sentence; empty when it can."""

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


class EvaluationTask(Protocol):
    """What the evaluation step asks."""

    def rows(self, config: Any, features: Table, fold: Fold, model: ModelPackage, /) -> RowsUnderTest[Any]:
        """Return the test rows of a fold.

        Raises:
            UserError: when they cannot judge a model.
        """


class OptimizationRows(Protocol):
    """Validation rows on which forms of a graph are measured, and how."""

    metric: ClassVar[str]  # of which a form may lose a little
    many: ClassVar[int]  # rows of a large call

    @property
    def inputs(self) -> "Tensors":
        """What the graph takes of the validation rows."""

    @property
    def limit(self) -> float:
        """How much of the metric a form may lose, at the high end of the interval."""

    @property
    def is_decidable(self) -> bool:
        """Whether the metric has a meaning."""

    def decide(self, scores: "npt.NDArray[np.float32]") -> "npt.NDArray[Any]":
        """Return what is decided by scores, (n,)."""

    def quality(self, scores: "npt.NDArray[np.float32]") -> float:
        """Return the metric."""

    def resample(self, scores: "npt.NDArray[np.float32]") -> "npt.NDArray[np.floating[Any]]":
        """Return the metric of every resample of the rows, which are the same for all scores."""


class OptimizationTask(Protocol):
    """What the optimization step asks."""

    def rows(
        self, config: Any, features: Table, uri: str, model: ModelPackage, limit: float, /
    ) -> "tuple[Tensors, OptimizationRows]":
        """Return a sample of training rows' inputs, by which scales are chosen, and the validation rows.

        Args:
            config: the use case.
            features: by day.
            uri: folder of the model.
            model: its manifest.
            limit: how much of the metric a form may lose.

        Raises:
            UserError: when the features are not what the model takes.
        """

    def reference(self, features: Table, uri: str, model: ModelPackage, graph: "Graph", /) -> "pd.DataFrame":
        """Return the sample that drift is measured against, as another form of the graph sees it."""

    def engine_variants(
        self, config: Any, features: Table, uri: str, model: ModelPackage, folder: Path, /
    ) -> list[EngineVariant]:
        """Write files by which engines generate text into a folder, and judge them; none where none is wanted.

        Args:
            config: the use case.
            features: by day.
            uri: folder of the model.
            model: its manifest.
            folder: to write into.

        Returns:
            the unquantized one first, unless none can be made; what cannot be made or measured says why.
        """


class DayScorer(Protocol):
    """One model, ready to score."""

    def batches(self, features: Table, day: date) -> "Iterator[pd.DataFrame]":
        """Yield a day's scores, at least one batch.

        Args:
            features: the table that the model's inputs are read from.
            day: one of its days.

        Returns:
            a row for each row of the day, in their order: `event_id`, `event_time`, `score` (float32), and whatever
            else drift compares.

        Raises:
            UserError: when the features are not what the model takes.
        """


class ScoringTask(Protocol):
    """What the scoring step asks."""

    def scorer(self, uri: str, model: ModelPackage, /) -> DayScorer:
        """Open the selected candidate of the model at a URI.

        Raises:
            UserError: when its graph's bytes are not those that the manifest names.
        """

    def identify(self, scores: "pd.DataFrame", features: Partition, /) -> "pd.DataFrame":
        """Return a day's scores with the columns by which the endpoint's log knows their rows."""


@dataclass(frozen=True)
class DriftInputs(Generic[U]):
    """What is compared on which day.

    Attributes:
        config: the use case.
        day: the logical date.
        features: by day.
        scores: of the model, by day.
        uri: folder of the model.
        model: its manifest.
        reference: the rows that it carries.
    """

    config: U
    day: date
    features: Table
    scores: Table
    uri: str
    model: ModelPackage
    reference: "pd.DataFrame"

    @property
    def days(self) -> "Watched":
        """The newest days, and those whose labels are due."""
        return splits.monitoring_window(self.config, self.day, self.model.lineage.train.last)

    @property
    def promise(self) -> Promise | None:
        """What to expect of the model, None when nobody has measured it."""
        promised = self.scores.details["promised"]
        return Promise(**promised) if promised else None

    @property
    def usual_rows(self) -> "WeekdayLevel":
        """What days of the newest day's weekday held when the model was trained."""
        from nightshift.stats.levels import WeekdayLevel

        return WeekdayLevel.from_days(self.model.lineage.days, self.day)

    @property
    def rows(self) -> int | None:
        """What the newest day holds, None where that is nothing and may be."""
        return None if self.is_empty(self.day) else self.features.partition(self.day).rows

    @property
    def labeled_days(self) -> list[date]:
        """The days whose labels are due, but for empty ones, of which none are to come; see `Watched`."""
        return [day for day in self.days.labeled if not self.is_empty(day)]

    @property
    def labels(self) -> "npt.NDArray[np.bool_] | None":
        """Which rows of the newest of these days have labels, (n,); None where none have, or there is no such day."""
        roles, newest = [*self.config.columns.holding(Holds.LABEL)], self.labeled_days[-1:]
        return self.features.read(newest, roles).notna().all(axis=1).to_numpy() if roles and newest else None

    def is_empty(self, day: date) -> bool:
        """Return whether a day has no rows, and may have none."""
        return not self.features.partition(day).rows and self.config.source.may_be_empty(day)


class Comparison(Protocol):
    """The newest rows, beside those that a model carries."""

    @property
    def limits(self) -> "DriftLimits":
        """Effect sizes above which something has drifted."""

    @property
    def reference(self) -> "pd.DataFrame":
        """The columns that are compared, of the rows that the model carries; `score` is one of them."""

    @property
    def numeric(self) -> list[str]:
        """The columns that are compared as numbers; the others are categories."""

    def batches(self, days: Iterable[date]) -> "Iterator[pd.DataFrame]":
        """Yield the rows of some days in batches, with the columns of the reference."""

    def unlabeled_signals(self) -> "Iterator[Signal]":
        """Yield what else may have changed on the newest days, whatever their labels."""

    def labeled_signals(self) -> "Iterator[Signal]":
        """Yield how good the model is on the days whose labels are due, or that need none; there is one."""

    def examples(self) -> "list[Block]":
        """Return what a report shows of the newest day's rows."""


class DriftTask(Protocol):
    """What the drift step asks."""

    def comparison(self, inputs: DriftInputs[Any], /) -> Comparison:
        """Return the comparison of the newest rows.

        Raises:
            UserError: when the model cannot be compared with.
        """


class ReleaseTask(Protocol):
    """What the release step asks: how wrong versions are, as labels arrive or, without labels, rows do."""

    # the loss from which on one is as wrong as can be
    WORST: float

    def losses(self, table: Table, day: date, uris: Sequence[str], /) -> "list[npt.NDArray[np.floating[Any]]]":
        """Return the loss of each event of a day that has its label, or of each group of them, by some models.

        Args:
            table: the features.
            day: the events'.
            uris: folders of the models.

        Returns:
            float64 (n,) a model, not negative; above `WORST` it counts as `WORST`.
        """

    def slices(self, table: Table, day: date, columns: Sequence[str], /) -> "pd.DataFrame":
        """Return the values of some columns for each event of `losses`, or for the first of each group, n rows.

        Raises:
            UserError: when the features have no such column.
        """


@dataclass(frozen=True)
class Payload:
    """The body of a request for a score, and its media type."""

    body: bytes
    media_type: str


class ExamplesTask(Protocol):
    """What steps ask a server about."""

    def online_state(self, lake: str, use_case: str, model: ModelPackage, features: str | None = None) -> str | None:
        """Return the URI of the snapshot that a version's online state lies over; None where there is none.

        Args:
            lake: root of the tables.
            use_case: its name.
            model: the version's manifest.
            features: URI of the manifest of the run's features, whose snapshot is preferred.
        """

    def from_files(self, uri: str, model: ModelPackage, online: str | None, /) -> "ScoredExample | None":
        """Score what the files of a model hold, or its online state; None where that is nothing."""

    def from_lake(self, uri: str, model: ModelPackage, lake: str, use_case: str, /) -> "tuple[ScoredExample, bytes]":
        """Score what a server without an online state can be asked, and return it as a file's bytes.

        Raises:
            UserError: when there is nothing to ask.
        """

    def payloads(self, uri: str, model: ModelPackage, lake: str, use_case: str, most: int, /) -> list[Payload]:
        """Return so many requests at most.

        Raises:
            UserError: when there is nothing to ask.
        """

    def stages(self, uri: str, model: ModelPackage, most: int, /) -> dict[str, Callable[[Any], Any]]:
        """Return what a server does with a body, by name, one after the other; `most` bodies are tried."""


class MetricsTask(Protocol):
    """Names of a task's metrics, which any step may ask for: nothing heavy is imported."""

    # the metric by which a model is held to what was measured of it
    PROMISE: str
    # those of which less is better
    LOWER_IS_BETTER: tuple[str, ...]
    # files of an evaluation that hold verdicts of further gates, which a deployment heeds
    GATES: tuple[str, ...]

    def list_headline_metrics(self, config: Any, /) -> dict[str, str]:
        """Return the metrics that people are shown of a training -> what they are called."""

    def list_summary_metrics(self, config: Any, /) -> dict[str, str]:
        """Return all metrics of `evaluation.json` -> what the run's summary calls them."""
