"""What a day of a weekday usually has: a shop that is quiet on Sundays has not lost its Sundays' rows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np
from scipy.stats import t

from nightshift.stats.noise import FALSE_ALARMS

FEWEST_DEGREES = 3  # degrees of freedom with which the days' own spread is known well enough
FEAST = 8  # times further from its weekday's median than usual: such a day says nothing of others


@dataclass(frozen=True)
class WeekdayLevel:
    """What is expected of a day.

    Attributes:
        weekday: such as `Sunday`.
        days: of that weekday that are known.
        expected: their median; of rows, say.
        chance: relative change that days drawn alike exceed once in 1 / `FALSE_ALARMS` times; 0 where days are too few.
    """

    weekday: str
    days: int
    expected: float
    chance: float

    @classmethod
    def from_days(cls, counts: Mapping[date, int], day: date) -> "WeekdayLevel":
        """Return the level of a day's weekday by the days that have anything; the day itself does not count.

        The chance is the prediction interval of a new observation, of logarithms, by Student's t.
        """
        by_weekday: dict[int, list[int]] = {}
        for known, count in counts.items():
            if count and known != day:
                by_weekday.setdefault(known.weekday(), []).append(count)
        mine = by_weekday.get(day.weekday(), [])
        expected = float(np.median(mine)) if mine else 0.0
        return cls(f"{day:%A}", len(mine), expected, _find_chance(by_weekday, len(mine)) if mine else 0.0)

    def change(self, count: int) -> float | None:
        """Return the larger ratio of a count and what is expected, less 1; None where either is nothing."""
        return max(count / self.expected, self.expected / count) - 1 if count and self.expected else None


def _find_chance(by_weekday: Mapping[int, list[int]], days: int) -> float:
    residuals = np.concatenate([np.log(counts) - np.log(np.median(counts)) for counts in by_weekday.values()])
    sizes = np.abs(residuals)
    # a median's own residual is 0, so that the upper quartile says what is usual
    residuals = residuals[sizes <= FEAST * np.quantile(sizes, 0.75)]
    degrees = len(residuals) - len(by_weekday)
    if degrees < FEWEST_DEGREES:
        return 0.0
    spread = math.sqrt(float(np.square(residuals).sum()) / degrees * (1 + 1 / days))
    return math.expm1(min(float(t.isf(FALSE_ALARMS / 2, degrees)) * spread, 10))
