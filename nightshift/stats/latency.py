"""Open-loop schedules, and latency quantiles with intervals."""

from math import ceil, floor, sqrt

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def poisson_schedule(rate: float, seconds: float, seed: int = 0) -> list[float]:
    """Return when requests of a Poisson process are due: seconds from the start, ascending, below `seconds`.

    Args:
        rate: requests a second on average.
        seconds: length of the measurement.
        seed: seed of the times, which scale with the rate.
    """
    random, most = np.random.default_rng(seed), rate * seconds
    gaps = random.exponential(size=ceil(most + 10 * sqrt(most) + 10)) / rate
    due = np.cumsum(gaps)
    return [float(moment) for moment in due[due < seconds]]


def quantile(sorted_values: Floats, share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed, None without a value."""
    count = len(sorted_values)
    return float(sorted_values[max(ceil(share * count) - 1, 0)]) if count else None


def interval(sorted_values: Floats, share: float) -> tuple[float, float | None] | None:
    """Return the 95 % interval of a quantile, from order statistics; None as its end where too few values lie above.

    The number of n values below a quantile is binomial, here with its normal approximation (Conover, Practical
    Nonparametric Statistics, 1999, section 3.2). The autocorrelation of latencies makes the true interval wider.
    """
    count = len(sorted_values)
    if not count:
        return None
    spread = 1.96 * sqrt(count * share * (1 - share))
    low, high = max(floor(count * share - spread), 0), ceil(count * share + spread)
    return float(sorted_values[low]), float(sorted_values[high]) if high < count else None
