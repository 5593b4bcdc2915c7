"""The task `tabular-regression`: rows of a table with a number as their label, such as a demand, a fare or a delay."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

import annotated_types
from pydantic import Field, field_validator, model_validator

from nightshift.config.columns import Categories, Holds, LabeledColumns, Numbers
from nightshift.config.policy import DriftLimits, Effect, EvaluationGate
from nightshift.config.section import Cost, Days, Positive, Share, Threads
from nightshift.config.source import Simulator
from nightshift.config.tabular import TabularEventLimits
from nightshift.config.task import CandidateConfig, CandidateName, TaskConfig
from nightshift.config.usecase import LabeledConfig
from nightshift.runtime.errors import check_names

Quantile = Annotated[float, annotated_types.Interval(gt=0, lt=1)]


class RegressorKind(StrEnum):
    """The kinds of candidates; `nightshift/tasks/regression/estimators.py` has an estimator for each."""

    XGBOOST = "xgboost"
    RIDGE = "ridge"
    POISSON = "poisson"
    TWEEDIE = "tweedie"
    RANDOM_FOREST = "random_forest"
    MLP = "mlp"


class RegressionCandidate(CandidateConfig):
    """One candidate: which estimator, and its parameters."""

    kind: RegressorKind


class RegressionTaskConfig(TaskConfig):
    """What is known of a series' past, and the candidates."""

    kind: Literal["tabular-regression"]
    windows_days: list[Days] = Field(
        [7, 28], min_length=1, description="lengths of the windows over which a series' labels are averaged"
    )
    quantile: Quantile = Field(0.5, description="of the label that `pinball` and reg:quantileerror are about")
    coverage: Quantile = Field(0.9, description="share of the labels that lie within the prediction intervals")
    threads: Threads = Field(2, description="fixed here, since weights differ between thread counts")
    select_by: Literal["mae", "rmse", "pinball"] = Field(
        "mae", description="metric on the validation days by which the candidate is chosen, and the gate decides"
    )
    candidates: dict[CandidateName, RegressionCandidate] = Field(min_length=1, description="name -> what to train")

    @field_validator("windows_days")
    @classmethod
    def _no_length_twice(cls, days: list[int]) -> list[int]:
        if len(set(days)) < len(days):
            raise ValueError("a window is listed twice; give each length once")
        return days


class RegressionColumns(LabeledColumns):
    """The user's column name for each role of a row whose label is a number."""

    RESERVED: ClassVar[re.Pattern[str]] = re.compile(r"score|day_of_week|label_(last|weekday_mean|mean_\d+d)")

    label: Annotated[str, Holds.LABEL] = Field(description="the number that is to be predicted")
    series: Annotated[list[str], Holds.IDENTIFIER] = Field(
        [], description="columns whose values together name a series, such as a shop and a product"
    )
    numeric: Numbers = Field([], description="further numeric columns, known before the label, used as they are")
    categorical: Categories = Field([], description="further categorical columns, one-hot encoded")


class DemandSimulator(Simulator):
    """The daily demand of products in shops: the world's size, and how it changes."""

    shops: Positive = 20
    products: Positive = 10
    promotions: Share = Field(0.15, description="share of rows on promotion, which sell half as much again")
    yearly_growth: Share = Field(0.2, description="of the demand")


class RegressionEvaluationGate(EvaluationGate):
    """The gate a challenger has to pass."""

    tolerance: Share = Field(
        0.02,
        description="of task.select_by that a fresher model may lose, as a share of the naive forecast's, at the low "
        "end of the 95 % interval",
    )
    min_rows: Positive = Field(100, description="test rows that are needed to decide")
    min_gain: Share = Field(
        0.0, description="share of the naive forecast's error that the model has to save, beyond noise"
    )
    min_error: Share = Field(
        0.01, description="share of the naive forecast's error; less than this is taken for leakage and refused"
    )
    cost_over: Cost = Field(1.0, description="of a unit by which the label is overestimated, in money")
    cost_under: Cost = Field(1.0, description="of a unit by which the label is underestimated, in money")


class RegressionDriftLimits(DriftLimits):
    """Effect sizes above which something counts as drifted, in the inputs or by the labels."""

    error: Effect = Field(0.25, description="share by which the mean absolute error may exceed the model's promise")
    bias: Effect = Field(0.25, description="mean residual, regardless of the sign, as a share of the promised error")
    coverage: Share = Field(0.05, description="share of labels that the intervals may cover less than they promise")
    min_rows: Positive = Field(100, description="labeled rows needed to apply these limits")


class RegressionConfig(LabeledConfig):
    """A use case whose events are rows with a number as their label."""

    EXPLAINS = True
    columns: RegressionColumns
    limits: TabularEventLimits = TabularEventLimits()
    simulator: DemandSimulator = DemandSimulator()
    task: RegressionTaskConfig
    evaluation: RegressionEvaluationGate = RegressionEvaluationGate()
    drift: RegressionDriftLimits = RegressionDriftLimits()

    @model_validator(mode="after")
    def _nullable_numbers_are_named(self) -> Self:
        check_names("limits.nullable", self.limits.nullable, self.columns.numeric)
        return self

    @property
    def longest_window_days(self) -> int:
        """How far the windows reach back."""
        return max(self.task.windows_days)

    @property
    def nullable(self) -> list[str]:
        """The columns whose numbers may be missing."""
        return self.limits.nullable
