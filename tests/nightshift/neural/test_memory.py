"""The planner's memory of the trainer is what processes hold."""

import pytest

from tests.nightshift.neural import census


@pytest.mark.slow
def test_the_fullest_of_8_processes_holds_what_the_planner_says_and_waits_as_long_as_the_formula():
    sharded, staged = census.count_layouts("HSDP 2 x 4, all recomputed", "PP 2 x FSDP 4, half recomputed")

    for row in (sharded, staged):
        assert row["planned MB"] == pytest.approx(row["counted MB"], rel=0.05), row["layout"]
    assert staged["bubble"] == staged["formula"]
