"""What a config says of shops: their columns, how they are simulated, trained, judged and watched."""

from typing import Annotated, Literal

from pydantic import Field

from nightshift.config import LabeledConfig
from nightshift.config.columns import Holds, LabeledColumns
from nightshift.config.policy import Effect, EvaluationGate
from nightshift.config.section import Days, Positive
from nightshift.config.source import Simulator
from nightshift.config.tabular import TabularEventLimits
from nightshift.config.task import TaskConfig


class ShopColumns(LabeledColumns):
    shop: Annotated[str, Holds.IDENTIFIER]
    promo: Annotated[str, Holds.NUMBER] = Field(description="1 on days of a promotion, 0 on others")


class ShopSimulator(Simulator):
    shops: Positive = 60


class ShopCounts(TaskConfig):
    kind: Literal["shop-counts"]
    windows_days: list[Days] = Field([7, 28], min_length=1)
    select_by: Literal["poisson_deviance"] = "poisson_deviance"
    max_rise: Effect = Field(0.5, description="of the deviance above the promise, where labels are due")


class LossEvaluation(EvaluationGate):
    tolerance: Effect = Field(0.05, description="of the loss, which is no share, that a fresher model may lose")
    min_rows: Positive = 100
    max_loss: Effect = Field(2.0, description="above which no model passes")


class ShopConfig(LabeledConfig):
    columns: ShopColumns
    limits: TabularEventLimits = TabularEventLimits()
    simulator: ShopSimulator = ShopSimulator()
    task: ShopCounts
    evaluation: LossEvaluation = LossEvaluation()

    @property
    def longest_window_days(self):
        return max(self.task.windows_days)
