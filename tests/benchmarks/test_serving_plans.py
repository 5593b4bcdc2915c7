"""The planner for serving against AIConfigurator 0.12.0 (NVIDIA, Apache-2.0), whose predictions aiconfigurator.csv has.

`RECORD=1 python -m benchmarks.serving_plans` writes the file anew.
"""

import pytest

from benchmarks.serving_plans import POINTS, QUANTITIES, REQUESTS, compute_regrets, read_table, select_points, spread

TABLE = read_table(POINTS.read_text().splitlines())
HELD_OUT = TABLE[1::2]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_points_that_nothing_was_fitted_to_are_met_within_10_percent_and_most_within_25(quantity: str) -> None:
    middle, tail = spread(map(QUANTITIES[quantity], HELD_OUT))

    assert middle < 0.1
    assert tail < 0.25


def test_the_points_are_of_two_models_four_gpus_four_sizes_and_five_loads() -> None:
    assert len(TABLE) >= 200 and select_points(TABLE) == TABLE
    assert {point.replica.model.layers for point in TABLE} == {32, 80}
    assert len({point.replica.gpu.name for point in TABLE}) == 4
    assert {point.replica.tensor for point in TABLE} == {1, 2, 4, 8}
    assert {point.request for point in TABLE} == set(REQUESTS)


def test_nine_of_ten_choices_by_the_planner_cost_at_most_5_percent_more_than_the_best() -> None:
    costs = list(compute_regrets(TABLE))

    assert len(costs) > 100
    assert sum(cost <= 0.05 for cost in costs) > 0.9 * len(costs)


def test_what_fits_by_the_points_fits_by_the_planner() -> None:
    assert sum(not point.fits for point in TABLE) < 0.05 * len(TABLE)
