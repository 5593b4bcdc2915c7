"""Two models on the same rows: estimates with intervals, and whether one may replace the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from nightshift.contracts import evaluation as contract
from nightshift.contracts.verdict import Decision
from nightshift.stats.bootstrap import BootstrapInterval, draw_rows

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class BootstrapEstimate(BootstrapInterval):
    """A value and its 95 % interval."""

    value: float

    @classmethod
    def from_value(cls, value: float, resamples: Floats) -> Self:
        """Return a value with the interval of its resamples, (resamples,)."""
        interval = BootstrapInterval.from_resamples(resamples)
        return cls(interval.low, interval.high, value)

    def __str__(self) -> str:
        digits = 3 if max(abs(self.low), abs(self.high)) < 10 else 0
        return f"{self.value:z.{digits}f} [{self.low:z.{digits}f}, {self.high:z.{digits}f}]"


def estimate_mean(values: Floats) -> BootstrapEstimate:
    """Return the mean of independent values, (n,), with the interval of a bootstrap over them."""
    return BootstrapEstimate.from_value(float(values.mean()), values[draw_rows(len(values))].mean(axis=1))


@dataclass(frozen=True)
class PairedComparison:
    """A challenger and the champion on the same rows.

    Attributes:
        metric: by which they are compared.
        ours: the challenger's.
        theirs: the champion's.
        gain: of the challenger over the champion, paired; above 0 where it is better.
        until: last day of the challenger's training data, YYYY-MM-DD.
        champion_until: the same of the champion.
    """

    metric: str
    ours: BootstrapEstimate
    theirs: BootstrapEstimate
    gain: BootstrapEstimate
    until: str
    champion_until: str

    @property
    def is_better(self) -> bool:
        """Whether the challenger is better beyond noise."""
        return self.gain.low > 0

    def decide(self, version: int, tolerance: float) -> tuple[Decision, list[str]]:
        """Return whether the challenger may replace a version, and why; rules 5 to 8 of `judge`."""
        name = self.metric.replace("_", " ")
        figures = (
            f"The challenger's {name} is {self.ours}, that of champion version {version} {self.theirs} "
            f"on the same rows, the gain {self.gain} (95 % intervals)."
        )
        days = f"trained until {self.until}, the champion until {self.champion_until}"
        if self.is_better:
            promoted, why = True, "It is better beyond noise."
        elif self.gain.low <= -tolerance:
            promoted, why = False, f"It is not better beyond noise, and may be worse by more than {tolerance:g}."
        elif self.gain.high < 0:
            promoted, why = False, f"It is worse beyond noise, if by less than {tolerance:g}."
        elif self.until > self.champion_until:
            promoted, why = True, f"It is not worse by more than {tolerance:g}, and fresher: {days}."
        else:
            promoted, why = False, f"It is not better beyond noise, and not fresher: {days}."
        return Decision.PASS if promoted else Decision.FAIL, [figures, why]


class Resampled:
    """Metrics on the test rows, and on resamples of them.

    Attributes:
        lower_is_better: metrics of which less is a gain.
        resamples: float64 of shape (resamples,) for each metric.
    """

    lower_is_better: ClassVar[tuple[str, ...]] = ()
    resamples: Mapping[str, Floats]

    def value(self, name: str) -> float:
        """Return a resampled metric on the rows themselves."""
        raise NotImplementedError

    def estimates(self) -> dict[str, BootstrapEstimate]:
        """Return the resampled metrics with their intervals."""
        return {name: BootstrapEstimate.from_value(self.value(name), values) for name, values in self.resamples.items()}

    def intervals(self) -> dict[str, contract.Interval]:
        """Return the intervals of the resampled metrics."""
        return {
            name: contract.Interval(low=estimate.low, high=estimate.high) for name, estimate in self.estimates().items()
        }

    def gains(self, other: Self) -> dict[str, BootstrapEstimate]:
        """Return by how much the resampled metrics are above another's, or below where less is better, paired."""
        signs = {name: -1 if name in self.lower_is_better else 1 for name in self.resamples}
        return {
            name: BootstrapEstimate.from_value(
                sign * (self.value(name) - other.value(name)), sign * (self.resamples[name] - other.resamples[name])
            )
            for name, sign in signs.items()
        }
