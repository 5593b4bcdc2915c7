"""Releases of the benchmark, played by the machine's own functions."""

import numpy as np
import pytest

from benchmarks import releases

RELEASES = 50  # releases of a kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", releases.KINDS)
def test_what_is_better_is_promoted_and_harm_is_stopped_before_it_has_two_percent_of_the_requests(kind: str) -> None:
    records = [releases.simulate(kind, number) for number in range(RELEASES)]

    outcomes = releases.Outcomes.from_records(records)
    assert all(record.challenger is None for record in records)
    if kind == "better":
        assert outcomes.promoted == 1
    elif kind not in releases.GOOD:
        assert outcomes.promoted == 0
        assert np.median(outcomes.days) <= releases.DURATION * releases.ROLLOUT.horizon_days
    if kind in releases.HARMFUL:
        assert outcomes.traffic.max() <= releases.HARM
