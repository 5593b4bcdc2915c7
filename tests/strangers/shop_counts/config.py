"""What a config says of shops: their columns, how they are simulated, trained, judged and watched."""

from typing import Annotated, Literal

from pydantic import Field

from nightshift.config import Config
from nightshift.config.columns import Columns, Holds
from nightshift.config.policy import Effect, EvaluationGate
from nightshift.config.section import Days, Positive
from nightshift.config.source import Simulator
from nightshift.config.tabular import TabularEventLimits
from nightshift.config.task import TaskConfig


class ShopColumns(Columns):
    shop: Annotated[str, Holds.IDENTIFIER]
    promo: Annotated[str, Holds.NUMBER] = Field(description="1 on days of a promotion, 0 on others")


class ShopSimulator(Simulator):
    shops: Positive = 60


class ShopCounts(TaskConfig):
    kind: Literal["shop-counts"]
    windows_days: list[Days] = Field([7, 28], min_length=1)
    select_by: Literal["poisson_deviance"] = "poisson_deviance"
    max_rise: Effect = Field(0.5, description="of the deviance above the promise, where labels are due")

    @property
    def longest_window_days(self):
        return max(self.windows_days)


class ShopEvaluation(EvaluationGate):
    tolerance: Effect = Field(0.05, description="of the deviance, which is no share, that a fresher model may lose")
    min_rows: Positive = 100
    max_deviance: Effect = Field(2.0, description="above which no model passes")


class ShopConfig(Config):
    columns: ShopColumns
    limits: TabularEventLimits = TabularEventLimits()
    simulator: ShopSimulator = ShopSimulator()
    task: ShopCounts
    evaluation: ShopEvaluation = ShopEvaluation()
