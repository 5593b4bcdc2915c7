"""The task `tabular-classification`: rows of a table with one class of several as their label, such as a queue."""

import re
from enum import StrEnum
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from nightshift.config.classes import ClassConfig, ClassDriftLimits, ClassSimulator, ClassTaskConfig
from nightshift.config.section import Positive, Share
from nightshift.config.tabular import TableConfig, TableTaskConfig, TabularColumns
from nightshift.config.task import CandidateConfig, CandidateName
from nightshift.contracts.preprocessing import FeatureSpec


class MulticlassKind(StrEnum):
    """The kinds of candidates; `nightshift/tasks/multiclass/estimators.py` has an estimator for each."""

    XGBOOST = "xgboost"
    LOGISTIC_REGRESSION = "logistic_regression"
    RANDOM_FOREST = "random_forest"


class MulticlassCandidate(CandidateConfig):
    """One candidate: which estimator, and its parameters."""

    kind: MulticlassKind


class MulticlassTaskConfig(ClassTaskConfig, TableTaskConfig):
    """The classes, and the candidates."""

    kind: Literal["tabular-classification"]
    candidates: dict[CandidateName, MulticlassCandidate] = Field(min_length=1, description="name -> what to train")


class MulticlassColumns(TabularColumns):
    """The user's column name for each role of a row whose label is a class."""

    RESERVED: ClassVar[re.Pattern[str]] = re.compile(f"{TabularColumns.RESERVED.pattern}|predicted")


class TicketSimulator(ClassSimulator):
    """Support tickets: how many, and how they change."""

    items: Positive = Field(400, description="tickets a day")
    customers: Positive = Field(1500, description="who write them")
    new_class: Share = Field(0.0, description="share of tickets that are, from drift_from, of a queue nobody has seen")
    shuffled: Share = Field(0.0, description="share of tickets whose queue is, from drift_from, any of them")


class MulticlassDriftLimits(ClassDriftLimits):
    """Effect sizes above which something counts as drifted, in the inputs or by the labels."""

    unlearned: Share = Field(0.05, description="share of labeled rows whose class no training row has")


class MulticlassConfig(ClassConfig, TableConfig):
    """A use case whose events are rows of a table, with one class of several as their label."""

    LABEL_TYPE = "string"

    columns: MulticlassColumns
    simulator: TicketSimulator = TicketSimulator()
    task: MulticlassTaskConfig
    drift: MulticlassDriftLimits = MulticlassDriftLimits()

    @model_validator(mode="after")
    def _windows_read_no_labels(self) -> Self:
        require_no_label_windows(self.feature_spec)
        return self


def require_no_label_windows(spec: FeatureSpec) -> None:
    """Check that no feature is made of earlier labels, of which windows know 0 and 1 only.

    Raises:
        ValueError: naming the first that is.
    """
    if names := [feature.name for feature in spec.features if feature.reads_labels]:
        raise ValueError(
            f"features: {names[0]!r} is a share of labels that are 1, and labels here are classes; leave it out, and "
            "count events instead"
        )
