"""Is one of two better? A test that may be looked at whenever observations arrive: of versions, and of measurements.

An observation is how much less the challenger loses than the champion, between -1 and 1, on an event that both scored
(`compare_losses`). While the mean of what comes next is at most 0,
whatever came before, the product of 1 + b x over the observations x is a supermartingale for every bet 0 < b < 1, and
so is the average over several bets. It exceeds 1 / alpha at any time with a probability of at most alpha (Ville 1939;
Waudby-Smith & Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024). For x >= -1

    log(1 + b x) >= b x + x**2 (log(1 - b) + b)

(Fan, Grama & Liu, Exponential inequalities for martingales with applications, EJP 20, 2015), so the sums of x and of
x**2 bound it from below, and a day's observations need not be kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]

BETS = 0.5 ** np.arange(1, 13)


@dataclass(frozen=True)
class Tally:
    """The observations of a day.

    Attributes:
        count: how many.
        total: their sum.
        squares: the sum of their squares.
    """

    count: int
    total: float
    squares: float

    @classmethod
    def from_observations(cls, observations: Floats) -> "Tally":
        """Sum observations up, float of shape (n,), each between -1 and 1."""
        assert np.all(np.abs(observations) <= 1)
        return cls(len(observations), float(observations.sum()), float(np.square(observations).sum()))


def compare_losses(champion: Floats, challenger: Floats, worst: float = 1.0) -> Tally:
    """Return a day's tally of events that both versions scored.

    Args:
        champion: the loss of each event, not negative, float of shape (n,); a squared error, for example.
        challenger: the same of the challenger.
        worst: the loss that higher ones count as, since observations are bounded.
    """
    return Tally.from_observations((np.minimum(champion, worst) - np.minimum(challenger, worst)) / worst)


def evidence(total: Floats, squares: Floats, alpha: float) -> Floats:
    """Return how much of the evidence for a mean above 0 there is, at most so far; 1 decides.

    Args:
        total: sums of the observations up to and including each day, float of shape (..., days).
        squares: sums of their squares, the same shape.
        alpha: probability with which it reaches 1 on any day though the mean is not above 0.

    Returns:
        the logarithm of the average over `BETS`, in units of -log(alpha), never negative; the same shape.
    """
    logs = BETS * total[..., None] + (np.log1p(-BETS) + BETS) * squares[..., None]
    mixed = np.logaddexp.reduce(logs, axis=-1) - np.log(len(BETS))
    shares: Floats = np.maximum.accumulate(np.maximum(mixed, 0), axis=-1) / -np.log(alpha)
    return shares


def path(days: Sequence[Tally], alpha: float) -> tuple[Floats, Floats]:
    """Return the evidence for and against a challenger on each day, shape (days,) each; see `evidence`."""
    total, squares = np.cumsum([(day.total, day.squares) for day in days], axis=0).reshape(-1, 2).T
    return evidence(total, squares, alpha), evidence(-total, squares, alpha)
