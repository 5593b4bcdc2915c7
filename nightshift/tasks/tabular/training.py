"""The rows of a table that train and choose a model: one matrix for all candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self

import numpy as np
import pandas as pd

from nightshift.config.section import ConfigSection
from nightshift.config.tabular import TabularConfig
from nightshift.config.tabular import TabularTaskConfig as Task
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.package import DecisionRule
from nightshift.contracts.preprocessing import Inputs, TabularPreprocessing
from nightshift.data.splits import Days, Fold, count_open_days, describe, rows_of
from nightshift.models import recipes
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError, check_names
from nightshift.stats.ranking import evaluate
from nightshift.storage import once
from nightshift.tabular import declarations
from nightshift.tabular import inputs as tabular
from nightshift.tabular.scaler import Matrix
from nightshift.tasks.base import training as base
from nightshift.tasks.base.training import CandidateMetrics, TrainingSetup
from nightshift.tasks.fitting import FitSpec, Fitted, with_reasons
from nightshift.tasks.named_inputs import InputRows, require_range
from nightshift.tasks.named_inputs import require_labels as every_labeled
from nightshift.tasks.tabular import compromise, estimators
from nightshift.tasks.tabular.estimators import Labels

FEW_ROWS = 32  # of each label, on which parameters are tried
CHECKED_ROWS = 2_000
TOLERANCE = 1e-5


@dataclass(frozen=True)
class RowSample(InputRows):
    """Labeled training rows.

    Attributes:
        setup: of the training.
        tolerance: by how much the scores of a candidate's graph may differ from the library's.
        holdout: validation rows, by which candidates choose what their parameters leave open; None: they have chosen.
        choices: candidate -> what it has chosen.
    """

    setup: TrainingSetup[TabularConfig]
    tolerance: float = TOLERANCE
    holdout: "RowHoldout | None" = None
    choices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    _fitted: dict[str, Fitted] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def matrix(self) -> Matrix:
        features = self.setup.features
        return once.compute_array(
            features.shared, ["matrix", features.sha256, self.days], lambda: super(RowSample, self).matrix
        )

    @cached_property
    def labels(self) -> Labels:
        """0 or 1, int8 (n,)."""
        return self.rows["label"].to_numpy(dtype=np.int8)

    @property
    def window(self) -> FoldWindow:
        return window(self.rows, self.days)

    @property
    def preprocessing(self) -> TabularPreprocessing:
        return TabularPreprocessing(**dict(self.inputs), features=self.setup.config.feature_spec)

    def prepare(self, holdout: "RowHoldout | None", choices: Mapping[str, Mapping[str, float]]) -> Self:
        return replace(self, holdout=holdout, choices=choices)

    def check(self) -> None:
        few = self.rows.groupby("label").head(FEW_ROWS)
        matrix, labels = (
            require_range(tabular.matrix(self.inputs, few), self.inputs),
            few["label"].to_numpy(dtype=np.int8),
        )
        for name, candidate in self.setup.config.task.candidates.items():
            if not candidate.members:  # which are checked themselves
                estimators.check(candidate.kind, self._spec(name), matrix, labels)

    def fit(self, name: str) -> Fitted:
        kind = self.setup.config.task.candidates[name].kind
        fitted = estimators.fit(kind, self._spec(name), self.matrix, self.labels)
        self._fitted[name] = with_reasons(fitted)
        return self._fitted[name]

    def _fit_once(self, name: str) -> Fitted:
        return self._fitted[name] if name in self._fitted else self.fit(name)

    def export_error(self, fitted: Fitted) -> float:
        positives = np.flatnonzero(self.labels)[: CHECKED_ROWS // 2]
        spread = np.arange(0, len(self.matrix), -(-2 * len(self.matrix) // CHECKED_ROWS))
        rows = self.matrix[np.concatenate([positives, spread])]
        return float(np.abs(Graph(fitted.graph).score(rows) - fitted.predict(rows)).max())

    def _spec(self, name: str) -> FitSpec:
        setup, task = self.setup, self.setup.config.task
        candidate = task.candidates[name]
        columns = find_columns(f"task.candidates.{name}.inputs", candidate.inputs, self.inputs)
        return FitSpec(
            f"task.candidates.{name}.parameters",
            candidate.parameters,
            task.seed,
            task.threads,
            setup.device,
            task.trainer,
            setup.checkpoints,
            nullable=bool(self.inputs.nullable),
            columns=columns,
            validation=(self.holdout.matrix, self.holdout.labels) if self.holdout else None,
            choices=self.choices.get(name, {}),
            members={member: partial(self._fit_once, member) for member in candidate.members},
        )


@dataclass(frozen=True)
class RowHoldout(base.Holdout):
    """Labeled rows that no candidate was fitted on.

    Attributes:
        config: the use case.
        rows: `event_time`, `customer` and `label`.
        days: on which they lie.
        matrix: their inputs, float32 (n, width).
    """

    config: TabularConfig
    rows: pd.DataFrame
    days: Days
    matrix: Matrix

    @property
    def window(self) -> FoldWindow:
        return window(self.rows, self.days)

    @cached_property
    def labels(self) -> Labels:
        """0 or 1, int8 (n,)."""
        return self.rows["label"].to_numpy(dtype=np.int8)

    def measure(self, graph: bytes) -> CandidateMetrics:
        top_k, threads = self.config.evaluation.top_k, self.config.task.threads
        scores = Graph(graph, threads).score(self.matrix)
        flagged = threshold(scores, top_k * count_open_days(self.rows))
        return CandidateMetrics({**evaluate(self.rows, scores, top_k)}, DecisionRule(threshold=flagged))


@dataclass(frozen=True)
class TableRows(base.TrainingRows[RowSample]):
    """The rows of a training.

    Attributes:
        setup: of the training.
        features: `event_time`, `customer`, `label` and the inputs, from the first training day of the validation
            fold to the last one of the test fold.
    """

    setup: TrainingSetup[TabularConfig]
    features: pd.DataFrame

    def sample(self, fold: Fold) -> RowSample:
        rows, details = (
            require_both_classes(rows_of(self.features, fold.train), fold.train),
            self.setup.features.details,
        )
        config = self.setup.config
        nullable = declarations.nullable_inputs(config.feature_spec, config.nullable)
        inputs = tabular.seen_in(rows, details["numeric"], details["categorical"], nullable)
        return RowSample(rows, fold.train, inputs, self.setup)

    def holdout(self, fold: Fold, sample: RowSample) -> RowHoldout:
        config = self.setup.config
        kept = compromise.test_rows(self.features, fold, config.protocol)
        rows = require_both_classes(kept, fold.test, len(rows_of(self.features, fold.test)) - len(kept))
        return RowHoldout(config, rows, fold.test, tabular.matrix(sample.inputs, rows))

    def reference(self, sample: RowSample, graph: bytes, _: DecisionRule) -> tuple[pd.DataFrame, None]:
        return sample.reference(graph, self.setup.config), None


class TrainingTask(base.TrainingTask):
    """One matrix for all candidates."""

    def read_rows(self, setup: TrainingSetup[TabularConfig]) -> TableRows:
        details, plan = setup.features.details, setup.plan
        entities = ["customer", *(name for name in ("terminal",) if name in setup.config.columns.roles)]
        columns = ["event_time", *entities, "label", *details["numeric"], *details["categorical"]]
        days = Days(plan.validation.train.first, plan.test.train.last)
        return TableRows(setup, setup.features.read(days, columns))

    def networks(self, task: Task) -> Mapping[str, ConfigSection]:
        return {name: candidate for name, candidate in task.candidates.items() if recipes.find(candidate.kind)}


def find_columns(field: str, names: Sequence[str], inputs: Inputs) -> list[int] | None:
    """Return where inputs that a candidate names are in the matrix, None where it takes all.

    Raises:
        UserError: when there is no such input.
    """
    check_names(field, names, inputs.columns)
    return tabular.positions(inputs, names) if names else None


def require_both_classes(rows: pd.DataFrame, days: Days, compromised: int = 0) -> pd.DataFrame:
    """Return the rows when they can train or judge a model.

    Args:
        rows: of the days, with their labels.
        days: named in the error.
        compromised: further rows of the days, left out since their customers are known as positive.

    Raises:
        UserError: when a label is missing, when there is no positive among them, or nothing but positives.
    """
    positives = int(every_labeled(rows, days)["label"].sum())
    if not 0 < positives < len(rows):
        left_out = f", without {compromised} of customers known as positive" if compromised else ""
        keep_them = ", or set protocol.drop_compromised: false to keep such customers" if compromised else ""
        raise UserError(
            f"{days}: {positives} positives in {len(rows)} rows{left_out}, and a model needs some of both; "
            f"choose another --date, or widen protocol.train_days and protocol.test_days{keep_them}"
        )
    return rows


def window(rows: pd.DataFrame, days: Days) -> FoldWindow:
    """Describe some rows: first and last day, rows, positives."""
    return describe(rows, days, int(rows["label"].sum()))


def threshold(scores: Matrix, flagged: int) -> float:
    """Return the score that `flagged` of the scores reach, the lowest score when there are fewer."""
    return float(np.sort(scores)[-min(flagged, len(scores))])
