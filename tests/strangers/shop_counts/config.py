"""The section `task` of the config."""

from typing import Literal

from pydantic import Field

from nightshift.config.policy import Effect
from nightshift.config.section import Days, Parameter, Section
from nightshift.config.task import CandidateName, Task


class Candidate(Section):
    kind: Literal["poisson"]
    parameters: dict[str, Parameter] = Field({}, description="of scikit-learn's PoissonRegressor")


class ShopCounts(Task):
    kind: Literal["shop-counts"]
    windows_days: list[Days] = Field([7, 28], min_length=1)
    select_by: Literal["poisson_deviance"] = "poisson_deviance"
    max_deviance: Effect = Field(2.0, description="above which no model passes")
    max_rise: Effect = Field(0.5, description="of the deviance above the promise, where labels are due")
    candidates: dict[CandidateName, Candidate] = Field(min_length=1)

    @property
    def longest_window_days(self):
        return max(self.windows_days)
