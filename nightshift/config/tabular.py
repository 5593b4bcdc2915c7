"""The tabular task: trailing windows over events, and the candidates that are trained on them."""

from enum import StrEnum
from typing import Annotated, Literal

import annotated_types
from pydantic import Field, field_validator

from nightshift.config.section import Days, Kind, Parameter, Section, Threads
from nightshift.config.task import CandidateName, Task


class CandidateKind(StrEnum):
    """The kinds of candidates; `nightshift/tasks/tabular/estimators.py` has an estimator for each."""

    XGBOOST = "xgboost"
    MLP = "mlp"
    LOGISTIC_REGRESSION = "logistic_regression"
    RANDOM_FOREST = "random_forest"


class Candidate(Section):
    """One candidate: which estimator, and its parameters under the library's own names.

    A whole number arrives as an integer, whether it is written 1 or 1.0, since that is how Kubeflow passes it on.
    """

    kind: CandidateKind
    parameters: dict[str, Parameter] = Field({}, description="under the library's own names")


class Tabular(Task):
    """Trailing windows per customer and, delayed by the label delay, per terminal; and the candidates."""

    kind: Literal[Kind.TABULAR]
    windows_days: list[Days] = Field(
        [1, 7, 30], description="lengths of the windows, all different; [] without a customer and a terminal"
    )
    amount_decimals: Annotated[int, annotated_types.Interval(ge=0, le=6)] = Field(
        2, description="decimals of the currency; amounts are summed exactly at this precision"
    )
    threads: Threads = Field(2, description="fixed here, since weights differ between thread counts")
    select_by: Literal["average_precision", "auc_roc", "precision_at_k"] = Field(
        "average_precision", description="metric on the validation days by which the candidate is chosen"
    )
    candidates: dict[CandidateName, Candidate] = Field(min_length=1, description="name -> what to train")

    @field_validator("windows_days")
    @classmethod
    def _no_window_twice(cls, days: list[int]) -> list[int]:
        if len(set(days)) < len(days):
            raise ValueError("a window is listed twice; give each length once")
        return days

    @property
    def longest_window_days(self) -> int:
        """How far the windows reach back, 0 without any."""
        return max(self.windows_days, default=0)
