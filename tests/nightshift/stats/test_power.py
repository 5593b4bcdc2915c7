"""What is said of a test before it begins comes true."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.stats import sequential
from nightshift.stats.power import PilotDays, PlannedTest
from nightshift.stats.sequential import LossSums

ALPHA, MOST = 0.05, 80


def draw_day(random: np.random.Generator, gain: float, count: int = 120) -> LossSums:
    """A day on which both versions' errors are alike, and the challenger's are smaller by a gain."""
    error, own = random.beta(1, 9, count), random.normal(0, 0.03, count)
    return LossSums.from_losses(error, np.clip(error * (1 - gain) + own, 0, 1))


def add_days(days: list[LossSums]) -> LossSums:
    return LossSums(*np.sum([astuple(day) for day in days], axis=0))


def simulate(gain: float, ratio: float, is_against: bool, number: int) -> int:
    """The day on which a test decides; beyond `MOST` where it does not."""
    random = np.random.default_rng([number, round(1000 * (1 + gain))])
    tallies = [draw_day(random, gain).tally(ratio) for _ in range(MOST)]
    path = sequential.path([tally.opposite for tally in tallies] if is_against else tallies, ALPHA)
    return int(np.argmax(path >= 1)) + 1 if path[-1] >= 1 else MOST + 1


@pytest.mark.parametrize(("gain", "ratio", "is_against"), [(0.05, 1.0, False), (0.0, 1.1, False), (-0.06, 1.0, True)])
@pytest.mark.parametrize("power", [0.5, 0.8])
def test_tests_take_about_as_long_as_planned(gain, ratio, is_against, power):
    random = np.random.default_rng(7)
    pilot = PilotDays(add_days([draw_day(random, gain) for _ in range(7)]), 7)
    # clipping at 0 changes the gain that was drawn
    true_gain = PilotDays(add_days([draw_day(random, gain) for _ in range(400)]), 400).gain
    planned = pilot.count_days(PlannedTest(ratio, ALPHA, power, MOST, is_against), true_gain)

    decided = [simulate(gain, ratio, is_against, number) for number in range(200)]

    assert planned is not None
    assert abs(planned - np.quantile(decided, power)) <= 1 + 0.15 * planned


def test_a_gain_that_is_named_detectable_is_and_half_of_it_is_not():
    pilot = PilotDays(add_days([draw_day(np.random.default_rng(day), 0.05) for day in range(7)]), 7)
    test = PlannedTest(1.0, ALPHA, 0.8, 14)

    gain = pilot.find_detectable_gain(test)

    assert gain is not None
    assert pilot.count_days(test, gain) == 14
    assert pilot.count_days(test, gain / 2) is None


def test_two_versions_that_err_alike_are_never_told_apart():
    day = draw_day(np.random.default_rng(0), 0.0)
    pilot = PilotDays(day, 1)

    assert pilot.count_days(PlannedTest(1.0, ALPHA, 0.8, MOST), 0.0) is None
    assert PilotDays(LossSums(10, 0, 0, 0, 0), 1).find_detectable_gain(PlannedTest(1.0, ALPHA, 0.8, MOST)) is None


@given(st.floats(0.01, 0.9), st.floats(0.01, 0.9))
def test_a_larger_gain_never_takes_longer(first, second):
    pilot = PilotDays(draw_day(np.random.default_rng(0), 0.05), 1)
    few, many = (pilot.count_days(PlannedTest(1.0, ALPHA, 0.8, 10_000), gain) for gain in sorted((first, second)))

    assert few is None or (many is not None and many <= few)
