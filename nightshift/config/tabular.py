"""The tabular task: trailing windows over events, and the candidates that are trained on them."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import annotated_types
from pydantic import Field, field_validator, model_validator

from nightshift import candidates
from nightshift.config.columns import Amount, Categories, Holds, Identifier, LabeledColumns, Numbers
from nightshift.config.features import FeatureLine, TableColumns, declare
from nightshift.config.policy import DriftLimits, Effect, EvaluationGate, Protocol
from nightshift.config.section import ConfigSection, Cost, Days, Factor, Positive, Share, Threads, check_parameters
from nightshift.config.source import FileFormat, Simulator, Source
from nightshift.config.task import CandidateConfig, CandidateName, TaskConfig
from nightshift.config.usecase import LabeledConfig
from nightshift.contracts.preprocessing import FeatureSpec
from nightshift.runtime.errors import UserError, check_names

EXACT = 2**53  # up to which float64 has every whole number
STATE = (Holds.IDENTIFIER, Holds.AMOUNT, Holds.NUMBER, Holds.CATEGORY)  # what features may be made of
LARGEST_UNITS = 10**13  # an amount in the currency's smallest unit: 900,000 of them add up in int64

Entities = Annotated[int, annotated_types.Interval(ge=1, le=10_000_000)]
Features = Annotated[list[FeatureLine], annotated_types.Len(0, 100)]
LargestAmount = Annotated[float, annotated_types.Interval(gt=0, le=2.0**53)]


class TabularCandidate(CandidateConfig):
    """One candidate: which estimator, and its parameters."""

    kind: str = Field(json_schema_extra=lambda schema: schema.update(enum=[*candidates.list_kinds()]))

    inputs: list[str] = Field([], description="names of the features that it takes; [] for all")
    members: list[CandidateName] = Field(
        [], description="of an ensemble: names of the candidates whose logits it averages, two or more"
    )

    @property
    def details(self) -> dict[str, list[str]]:
        """The names of its inputs where it takes some only, and of its members."""
        return self.model_dump(include={"inputs", "members"}, exclude_defaults=True)

    @model_validator(mode="after")
    def _ensembles_have_members(self) -> Self:
        if self.kind == candidates.ENSEMBLE and (len(set(self.members)) < 2 or self.inputs):
            raise UserError("an ensemble takes two or more different 'members', and no 'inputs' but theirs")
        if self.kind != candidates.ENSEMBLE and self.members:
            raise UserError(f"'members' belong to kind {candidates.ENSEMBLE}, not {self.kind}; leave them out")
        return self

    @field_validator("kind")
    @classmethod
    def _kind_exists(cls, kind: str) -> str:
        candidates.find(kind)
        return kind


class TableTaskConfig(TaskConfig):
    """What a task has whose rows are of a table with windows."""

    amount_decimals: Annotated[int, annotated_types.Interval(ge=0, le=6)] = Field(
        2, description="decimals of the currency; amounts are summed exactly at this precision"
    )
    threads: Threads = Field(2, description="fixed here, since weights differ between thread counts")
    state_megabytes: Positive = Field(
        16_000, description="of online state that features may need; more is refused before they are computed"
    )


class TabularTaskConfig(TableTaskConfig):
    """A label of 0 or 1, and the candidates."""

    kind: Literal["tabular"]
    select_by: Literal["average_precision", "auc_roc", "precision_at_k"] = Field(
        "average_precision", description="metric on the validation days by which the candidate is chosen"
    )
    candidates: dict[CandidateName, TabularCandidate] = Field(min_length=1, description="name -> what to train")

    @field_validator("candidates")
    @classmethod
    def _ensembles_last(cls, named: dict[str, TabularCandidate]) -> dict[str, TabularCandidate]:
        singles = [name for name, candidate in named.items() if not candidate.members]
        for name, candidate in named.items():
            check_names(f"{name}.members", candidate.members, singles)
        return {name: named[name] for name in [*singles, *(name for name in named if name not in singles)]}


class TabularColumns(LabeledColumns):
    """The user's column name for each role of an event in a table."""

    RESERVED: ClassVar[re.Pattern[str]] = re.compile(
        r"score|is_(weekend|night)|(customer|terminal)_(count|mean_amount|positive_rate)_\d+d"
    )

    customer: Identifier = Field(
        None, description="whose events they are: of a person, an account, a machine; without it each stands alone"
    )
    terminal: Identifier = Field(None, description="where they happen: at a shop, a device, a site")
    amount: Amount = Field(None, description="what an event is worth; not negative, unless limits.negative_amounts")
    numeric: Numbers = Field([], description="further numeric columns, used as model inputs as they are")
    categorical: Categories = Field([], description="further categorical columns, one-hot encoded")


class TabularEventLimits(ConfigSection):
    """What one event may be: ingestion quarantines what is more, and an endpoint refuses it."""

    nullable: list[str] = Field(
        [], description="those of columns.numeric whose numbers may be missing; rows that miss others are quarantined"
    )
    negative_amounts: bool = Field(False, description="whether amounts may be below 0, as those of refunds")
    largest_amount: LargestAmount | None = Field(
        None,
        description="regardless of the sign; default: 10^13 of the currency's smallest unit, 100,000,000,000.00 with "
        "two decimals",
    )
    longest_id: Positive = Field(256, description="characters of an id, a customer or a terminal")
    days_ahead: Days = Field(
        1,
        description="days after now, or after the newest day trained on if that is later, that an event may be dated "
        "which an endpoint is sent",
    )

    @property
    def exceptions(self) -> dict[str, Any]:
        """What events may be although it is not allowed by default; {} without exceptions."""
        return self.model_dump(include={"nullable", "negative_amounts"}, exclude_defaults=True)


class TabularFormat(FileFormat):
    """How values are spelled, labels included."""

    positive: list[str] = Field([], description="labels that stand for 1, such as 'Yes'; default: 1 and true")
    negative: list[str] = Field(
        [], description="labels that stand for 0; without them, where 'positive' is set, all others that are there"
    )

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        if both := sorted({*self.positive} & {*self.negative}):
            raise ValueError(f"{both[0]!r} is in 'positive' and in 'negative'; keep one")
        if self.negative and not self.positive:
            raise ValueError("'negative' is given without 'positive'; give both, or 'positive' alone")
        return self


class TabularSource(Source):
    """How the data lies, and how it is spelled."""

    format: TabularFormat = Field(TabularFormat(), description="how values are spelled; see `nightshift config guess`")


class TabularSimulator(Simulator):
    """Card transactions: the world's size, and how it changes."""

    customers: Entities = 5000
    terminals: Entities = 10000
    weekly_pattern: bool = Field(
        False, description="true: weekdays differ in transactions and amounts, and weekends start later"
    )
    habits: bool = Field(
        False,
        description="true: customers have hours, terminals and kinds of goods (a further column, category) of their "
        "own; stolen cards buy as usual, but anywhere and at any hour",
    )
    amount_factor: Factor = Field(1.0, description="on amounts, from drift_from")
    night_fraud: bool = Field(
        False, description="from drift_from, positives move to the night (00:00-06:59), and stolen cards buy as usual"
    )
    new_terminals: Share = Field(0.0, description="share of terminals that new ones replace on drift_from")
    new_scenario: Share = Field(
        0.0,
        description="share of transactions that are, from drift_from, small purchases with copied cards: fraud",
    )


class TabularProtocol(Protocol):
    """Which days train, validate and test, and which customers count."""

    drop_compromised: bool = Field(True, description="leave customers known as positive out of the test rows")
    compromised_days: Days | None = Field(
        None, description="how long before the end of training a positive still counts for this; default: train_days"
    )

    @model_validator(mode="after")
    def _compromised_while_training(self) -> Self:
        if self.compromised_days and self.compromised_days > self.train_days:
            raise ValueError(f"'compromised_days' is {self.compromised_days}, over 'train_days', {self.train_days}")
        return self


class TabularEvaluationGate(EvaluationGate):
    """The gate a challenger has to pass."""

    top_k: Positive = Field(100, description="customers (without them: events) that can be checked a day")
    min_positives: Positive = Field(50, description="positives in the test window that are needed to decide")
    min_average_precision: Share = 0.3
    max_average_precision: Share = Field(0.99, description="better than this is taken for leakage and refused")
    allowed_alone: list[str] = Field(
        [],
        description="columns known before the outcome that may rank the test rows nearly as well as the model does; "
        "any other one that does holds the version for a person",
    )
    cost_missed_positive: Cost = Field(
        1.0,
        description="of a positive that is not flagged, as a multiple of its amount regardless of the sign; without "
        "amounts each counts 1",
    )
    cost_per_alert: Cost = Field(5.0, description="of checking a flagged event, in the currency of the amounts")


class TabularDriftLimits(DriftLimits):
    """Effect sizes above which something counts as drifted, in the inputs or by the labels."""

    average_precision: Share = Field(0.08, description="loss against the model's promise, on rows whose labels are due")
    min_positives: Positive = Field(200, description="labeled positives needed to apply either of the limits beside it")
    positive_wasserstein: Effect = Field(
        0.5, description="of an input among the positives alone, in standard deviations of the reference's positives"
    )
    new_entities: Share = Field(
        0.3, description="share of the usually known customers, or rows' terminals, that the newest day may lack"
    )
    unit_change: Annotated[float, annotated_types.Interval(gt=1, le=1e6)] = Field(
        5.0, description="factor by which the newest day's amounts or numbers may be larger or smaller than in training"
    )
    new_categories: Share = Field(
        0.01, description="share of the newest day's rows, above the usual one, with a category new to the model"
    )


class TableConfig(LabeledConfig):
    """A use case whose events are rows of a table, with inputs made of the events before.

    Attributes:
        LABEL_TYPE: of labels in a features table, as pandas calls it.
    """

    LABEL_TYPE: ClassVar[str]
    REMEDIES: ClassVar[Mapping[str, str]] = {
        **LabeledConfig.REMEDIES,
        "bad_amount": "set limits.negative_amounts if amounts may be below 0",
        "bad_number": "name the column in limits.nullable if its numbers may be missing",
        "over_limit": "raise limits.largest_amount or limits.longest_id",
    }

    columns: TabularColumns
    limits: TabularEventLimits = TabularEventLimits()
    task: TableTaskConfig
    features: Features = Field([], description="inputs made of the events before, a line for each group of them")

    @model_validator(mode="after")
    def _features_are_declared(self) -> Self:
        _ = self.feature_spec
        return self

    @model_validator(mode="after")
    def _nullable_columns_are_numeric(self) -> Self:
        numeric = self.columns.numeric
        if others := sorted({*self.limits.nullable} - {*numeric}):
            raise ValueError(
                f"limits.nullable: has {others[0]!r}, and only numbers of columns.numeric may be missing; give some of "
                f"{', '.join(numeric) or 'them, of which there are none yet'}"
            )
        return self

    @model_validator(mode="after")
    def _amounts_are_exact(self) -> Self:
        largest, decimals = self.limits.largest_amount, self.task.amount_decimals
        if largest and largest * 10**decimals > EXACT:
            raise ValueError(
                f"limits.largest_amount: is {largest:,.16g}, and with task.amount_decimals {decimals} amounts "
                f"are exact up to {EXACT / 10**decimals:,.16g}; lower one of them"
            )
        return self

    @cached_property
    def feature_spec(self) -> FeatureSpec:
        """The features that are declared.

        Raises:
            ValueError: naming the line and what to write.
        """
        return self.declare(self.features)

    def declare(self, lines: Sequence[FeatureLine]) -> FeatureSpec:
        """Return the features that some lines declare.

        Raises:
            ValueError: naming the line and what to write.
        """
        read = [column for column in self.columns.read if column.holds in STATE and column.role != "event_id"]
        holds, names = {column.role: column.holds for column in read}, {column.name: column.role for column in read}
        columns = TableColumns(holds, names, self.limits.nullable)
        return declare(lines, columns, self.task.amount_decimals, self.label_delay_days, self.source.timezone)

    @property
    def longest_window_days(self) -> int:
        """How far the windows reach back, label delays aside; 0 without any."""
        return self.feature_spec.longest_days

    @property
    def raw_inputs(self) -> dict[str, str]:
        """Name inside the pipeline -> the user's, of the columns that models take as they are."""
        return self.columns.holding(Holds.AMOUNT, Holds.NUMBER, Holds.CATEGORY)

    @property
    def nullable(self) -> list[str]:
        """The columns whose numbers may be missing."""
        return self.limits.nullable

    @property
    def least_amount(self) -> float:
        """The least that an amount may be."""
        return -math.inf if self.limits.negative_amounts else 0.0

    @property
    def largest_amount(self) -> float:
        """The largest amount of an event."""
        return self.limits.largest_amount or LARGEST_UNITS / 10**self.task.amount_decimals


class TabularConfig(TableConfig):
    """A use case whose events are rows of a table, with a label of two values."""

    EXPLAINS = True
    LABEL_TYPE = "Int8"

    source: TabularSource
    simulator: TabularSimulator = TabularSimulator()
    protocol: TabularProtocol = TabularProtocol()
    task: TabularTaskConfig
    evaluation: TabularEvaluationGate = TabularEvaluationGate()
    drift: TabularDriftLimits = TabularDriftLimits()
    features: Features = Field(
        [FeatureLine(preset="payments")], description="inputs made of the events before, a line for each group of them"
    )

    @model_validator(mode="after")
    def _columns_allowed_alone_are_inputs(self) -> Self:
        check_names("evaluation.allowed_alone", self.evaluation.allowed_alone, self.raw_inputs.values())
        return self

    @model_validator(mode="after")
    def _parameters_are_their_kinds(self) -> Self:
        for name, candidate in self.task.candidates.items():
            if section := candidates.find(candidate.kind).parameters_class:
                check_parameters(section, f"task.candidates.{name}.parameters", candidate.parameters)
        return self
