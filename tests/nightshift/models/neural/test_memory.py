"""The planner's memory of the trainer is what a process holds; `python -m benchmarks.trainer memory`: of 8."""

import pytest

from nightshift.config.neural import Recompute, Trainer
from nightshift.models.neural import devices
from nightshift.models.neural.replica import Replica
from tests.nightshift.models.neural import census


@pytest.mark.parametrize("recompute", Recompute)
def test_a_process_holds_what_the_planner_says_within_5_percent(recompute):
    recipe = census.build(batch_size=32, microbatches=2, recompute=recompute)
    with devices.reproducible(0, 1):
        counted = census.count_peak(Replica(recipe, census.CPU))

    assert census.plan_bytes(recipe, Trainer(), 1) == pytest.approx(counted, rel=0.05)


def test_a_pipelines_bubble_is_counted_by_what_its_stages_wait_for():
    first = [(True, 0, 0), (True, 0, 1), (False, 0, 0), (False, 0, 1)]
    last = [(True, 1, 0), (False, 1, 0), (True, 1, 1), (False, 1, 1)]

    assert census.measure_bubble([first, last]) == pytest.approx(1 / 3)  # (p - 1) / (m + p - 1)
