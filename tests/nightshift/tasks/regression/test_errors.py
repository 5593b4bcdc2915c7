"""Metrics of numbers and their resamples, by a definition in a line each."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from nightshift.tasks.regression.errors import Errors, average, group
from nightshift.tasks.regression.labels import LabelsTask
from tests.nightshift.tasks.regression.demand import config

LABELS, SCORES = np.array([1.0, 5.0, 2.0]), np.array([3.0, 4.0, 2.0])


def test_metrics_are_means_over_rows() -> None:
    measured = Errors(quantile=0.8, cost_over=10, cost_under=100).measure(LABELS, SCORES)

    assert measured == pytest.approx(
        {
            "mae": 1.0,
            "rmse": (5 / 3) ** 0.5,
            "pinball": (0.2 * 2 + 0.8 * 1) / 3,
            "cost": (2 * 10 + 1 * 100) / 3,
            "bias": 1 / 3,
        }
    )


def test_a_series_is_drawn_with_all_of_its_rows() -> None:
    values = np.array([1.0, 3.0, 7.0, 7.0])
    apart, together = average(values, np.arange(4)), average(values, np.array([0, 0, 1, 1]))

    assert set(np.round(together, 6)) == {2.0, 4.5, 7.0}
    assert len(set(np.round(apart, 6))) > 3


@pytest.mark.parametrize(("series", "groups"), [(30, 30), (5, 3)])
def test_days_are_drawn_where_there_are_too_few_series(series: int, groups: int) -> None:
    days = pd.date_range("2025-06-01", periods=3)
    rows = pd.DataFrame([(day, number, 0) for day in days for number in range(series)],
                        columns=["event_time", "shop", "product"])  # fmt: skip

    assert len(np.unique(group(rows, config()))) == groups


@pytest.mark.parametrize(
    ("texts", "spelled", "expected"),
    [
        (["12.5", "-3", "", "x"], {}, [12.5, -3.0, None, None]),
        (["1.234,5", "2"], {"decimal": ",", "thousands": "."}, [1234.5, 2.0]),
    ],
)
def test_a_label_is_a_number_as_the_source_spells_it(
    texts: list[str], spelled: dict[str, Any], expected: list[float | None]
) -> None:
    read = LabelsTask().read(pd.Series(texts), config(source={"files": "{date}.csv", "format": spelled}))

    assert read.astype(object).where(read.notna(), None).tolist() == expected
