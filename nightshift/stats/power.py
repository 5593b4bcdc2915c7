"""How long a test of two versions will take, and what it can show: before it begins, from a few days of both.

The test is that of `nightshift.stats.sequential`. Days to come are taken to be like the known ones, their observations
as independent: after n of them with mean m and variance v, their sum is at least n m - z sqrt(n v) with probability
Phi(z), and the sum of their squares is about n (v + m**2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from nightshift.stats import sequential
from nightshift.stats.sequential import LossSums

STEPS = 30  # of the search for the smallest gain, each halving what is left


@dataclass(frozen=True)
class PlannedTest:
    """A test, as it will be looked at once a day.

    Attributes:
        ratio: multiple of the champion's loss that the challenger's is compared with.
        alpha: probability of a mistake.
        power: probability with which it decides within the days that are named.
        most: days after which nobody waits for it.
        is_against: whether it shows that the challenger is worse than the multiple, not better.
    """

    ratio: float
    alpha: float
    power: float
    most: int
    is_against: bool = False


@dataclass(frozen=True)
class PilotDays:
    """What both versions lost on some days.

    Attributes:
        sums: of all these days; at least one observation.
        days: how many.
    """

    sums: LossSums
    days: int

    @property
    def gain(self) -> float:
        """By how much less the challenger lost, as a share of the champion's loss; 0 where that is 0."""
        return 1 - self.sums.challenger / self.sums.champion if self.sums.champion else 0.0

    @property
    def observations_a_day(self) -> float:
        """How many observations a day has."""
        return self.sums.count / self.days

    def count_days(self, test: PlannedTest, gain: float) -> int | None:
        """Return after how many days a test decides, None where not within `most`.

        Args:
            test: the test.
            gain: by how much less the challenger will lose, as a share of the champion's loss.
        """
        count, tally = self.sums.count, self.sums.tally(test.ratio)
        variance = max(tally.squares / count - (tally.total / count) ** 2, 0.0)
        mean = self.sums.champion / count * (test.ratio - (1 - gain)) / max(test.ratio, 1.0)
        mean = -mean if test.is_against else mean
        observations = self.observations_a_day * np.arange(1, test.most + 1)
        sums = observations * mean - NormalDist().inv_cdf(test.power) * np.sqrt(observations * variance)
        decided = sequential.evidence(sums, observations * (variance + mean**2), test.alpha) >= 1
        return int(decided.argmax()) + 1 if decided.any() else None

    def find_detectable_gain(self, test: PlannedTest) -> float | None:
        """Return the smallest gain that a test shows within `most` days, None where it shows none."""
        return _find_smallest(lambda gain: self.count_days(test, gain) is not None)


def _find_smallest(holds: Callable[[float], bool]) -> float | None:
    """Return about the smallest share for which a condition holds, which then holds for all above it."""
    if not holds(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
