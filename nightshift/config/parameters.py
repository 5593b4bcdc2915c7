"""What the parameters of candidates may be that are checked as the config is read."""

from typing import Annotated

import annotated_types
from pydantic import Field

from nightshift.config.section import ConfigSection, Factor, Positive, Share

Rounds = Annotated[int, annotated_types.Interval(ge=1, le=100_000)]
Leaves = Annotated[int, annotated_types.Interval(ge=2, le=4096)]
Depth = Annotated[int, annotated_types.Interval(ge=1, le=10)]
Penalty = Annotated[float, annotated_types.Interval(ge=0, le=1e9)]
Bins = Annotated[int, annotated_types.Interval(ge=2, le=65_535)]

PATIENCE = "rounds without a lower log loss on the validation days after which no more are added; default: all are"


class LightGBMParameters(ConfigSection):
    """What `task.candidates.<name>.parameters` may hold for the kind `lightgbm`, under LightGBM's names."""

    n_estimators: Rounds = 100
    learning_rate: Share = 0.1
    num_leaves: Leaves = 31
    max_depth: Depth | None = None
    min_child_samples: Positive = 20
    min_child_weight: Penalty = 1e-3
    min_split_gain: Penalty = 0.0
    subsample: Share = 1.0
    subsample_freq: Rounds = 1
    colsample_bytree: Share = 1.0
    reg_alpha: Penalty = 0.0
    reg_lambda: Penalty = 0.0
    max_bin: Bins = 255
    scale_pos_weight: Factor = 1.0
    early_stopping_rounds: Rounds | None = Field(None, description=PATIENCE)


class CatBoostParameters(ConfigSection):
    """What `task.candidates.<name>.parameters` may hold for the kind `catboost`, under CatBoost's names."""

    n_estimators: Rounds = 1000
    learning_rate: Share = Field(0.03, description="never automatic, which would differ by the number of rounds")
    depth: Depth = 6
    l2_leaf_reg: Penalty = 3.0
    border_count: Bins = 254
    random_strength: Penalty = 1.0
    bagging_temperature: Penalty = 1.0
    rsm: Share = 1.0
    scale_pos_weight: Factor = 1.0
    early_stopping_rounds: Rounds | None = Field(None, description=PATIENCE)


class EnsembleParameters(ConfigSection):
    """The kind `ensemble` has no parameters; the validation days say the weights of its members."""
