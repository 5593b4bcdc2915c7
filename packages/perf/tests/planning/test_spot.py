"""Training on machines that may be taken away."""

from math import sqrt

import numpy as np
import pytest

from nightshift.costs.spot import Interruptions


def test_dalys_interval_is_youngs_for_short_checkpoints_and_shorter_for_long_ones() -> None:
    short, long = Interruptions(100, 0.001, 0.1), Interruptions(10, 1, 0.1)

    young = {case: sqrt(2 * case.checkpoint * case.between) for case in (short, long)}
    assert short.interval == pytest.approx(young[short], rel=0.01)
    assert long.interval < young[long]
    assert Interruptions(1, 3, 0.1).interval == 1


def test_no_other_interval_is_expected_to_take_much_less() -> None:
    machine = Interruptions(5, 0.05, 0.1)

    def takes(every: float) -> float:
        return machine.between * np.exp(0.1 / 5) * (np.exp((every + 0.05) / 5) - 1) * 100 / every

    assert machine.expected_hours(100) == pytest.approx(min(map(takes, np.linspace(0.05, 5, 2000))), rel=1e-3)


def test_the_expected_time_is_that_of_simulated_interruptions() -> None:
    machine, random = Interruptions(5, 0.05, 0.1), np.random.default_rng(1)
    every, clock, done, until = machine.interval, 0.0, 0.0, random.exponential(5)
    for _ in range(200_000):
        needs = every + machine.checkpoint
        if clock + needs <= until:
            clock, done = clock + needs, done + every
            continue
        clock = until + machine.restart  # nothing is lost while it restarts
        until = clock + random.exponential(5)

    # the formula also repeats a restart that is interrupted
    assert clock / done == pytest.approx(machine.expected_hours(1), rel=0.01)
