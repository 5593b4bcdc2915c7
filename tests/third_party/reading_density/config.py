"""What a config says of readings."""

from typing import Literal

from pydantic import Field
from shop_counts.config import LossEvaluation

from nightshift.config import Config
from nightshift.config.columns import Columns, Numbers
from nightshift.config.policy import Effect
from nightshift.config.tabular import TabularEventLimits
from nightshift.config.task import TaskConfig


class ReadingColumns(Columns):
    readings: Numbers = Field(min_length=1)


class ReadingDensity(TaskConfig):
    kind: Literal["reading-density"]
    select_by: Literal["negative_log_likelihood"] = "negative_log_likelihood"
    max_rise: Effect = 0.5


class ReadingConfig(Config):
    columns: ReadingColumns
    limits: TabularEventLimits = TabularEventLimits()
    task: ReadingDensity
    evaluation: LossEvaluation = LossEvaluation(max_loss=20.0)
