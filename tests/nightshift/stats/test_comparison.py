"""Two models on the same rows, by metrics of which more is better and by those of which less is."""

from typing import ClassVar

import numpy as np
import pytest

from nightshift.stats.comparison import Resampled


class Measured(Resampled):
    lower_is_better: ClassVar = ("error",)

    def __init__(self, level: float) -> None:
        self.resamples = {name: np.linspace(level - 0.1, level + 0.1, 200) for name in ("error", "accuracy")}
        self.level = level

    def value(self, name: str) -> float:
        return self.level


def test_a_gain_is_above_zero_where_the_challenger_is_better_whichever_way_its_metric_points():
    gains = Measured(0.3).gains(Measured(0.5))
    assert gains["error"].value == pytest.approx(0.2)
    assert gains["error"].low == pytest.approx(0.2)
    assert gains["accuracy"].value == pytest.approx(-0.2)
    assert gains["accuracy"].high == pytest.approx(-0.2)
