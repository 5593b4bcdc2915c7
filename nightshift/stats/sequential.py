"""Is one of two better? A test that may be looked at whenever observations arrive: of versions, and of measurements.

An observation is how much less the challenger loses than a multiple of what the champion loses, between -1 and 1, on
an event that both scored or on a request that one of them answered (`LossSums`). While the mean of what comes next is
at most 0, whatever came before, the product of 1 + b x over the observations x is a supermartingale for every bet
0 < b < 1, and so is the average over several bets. It exceeds 1 / alpha at any time with a probability of at most alpha
(Ville 1939; Waudby-Smith & Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024). For
x >= -1

    log(1 + b x) >= b x + x**2 (log(1 - b) + b)

(Fan, Grama & Liu, Exponential inequalities for martingales with applications, EJP 20, 2015), so the sums of x and of
x**2 bound it from below, and a day's observations need not be kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

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
    def from_histogram(cls, edges: Sequence[float], counts: Sequence[float], worst: float) -> Self:
        """Sum up what requests took, each counted as the upper edge of its bucket, as shares of the worst.

        Args:
            edges: upper ones of the buckets; the last may be infinite.
            counts: of the requests in each bucket.
            worst: what more counts as.
        """
        values = np.minimum(edges, worst) / worst
        return cls(round(sum(counts)), float(values @ counts), float(np.square(values) @ counts))

    @property
    def opposite(self) -> Self:
        """The same with every observation negated."""
        return replace(self, total=-self.total)


@dataclass(frozen=True)
class LossSums:
    """Sums of two versions' losses, each between 0 and 1, by which any multiple of one is compared with the other.

    Attributes:
        count: of the observations.
        champion: sum of its losses.
        challenger: sum of its losses.
        champion_squares: sum of their squares.
        challenger_squares: sum of their squares.
        products: sum of the products; 0 where each observation is a request that one version alone answered.
    """

    count: int
    champion: float
    challenger: float
    champion_squares: float
    challenger_squares: float
    products: float = 0.0

    @classmethod
    def from_losses(cls, champion: Floats, challenger: Floats) -> Self:
        """Sum up the losses of events that both versions scored, as shares of the worst; what is above 1 counts as 1.

        Args:
            champion: the loss of each event, not negative, float of shape (n,); a squared error, for example.
            challenger: the same of the challenger.
        """
        before, after = np.minimum(champion, 1), np.minimum(challenger, 1)
        assert np.all(before >= 0) and np.all(after >= 0)
        sums = before.sum(), after.sum(), before @ before, after @ after, before @ after
        return cls(len(before), *map(float, sums))

    @classmethod
    def from_requests(cls, champion: Tally, challenger: Tally, share: float) -> Self:
        """Sum up what requests cost of which one version answered each, as shares of the worst.

        The champion's count for more by the odds of the challenger's share, so the sums are expected to be equal where
        the mean costs are (inverse probability weighting; Horvitz & Thompson, JASA 47, 1952).

        Args:
            champion: of its requests.
            challenger: of its requests.
            share: probability that a request was the challenger's, between 0 and 1.
        """
        odds = share / (1 - share)
        weight, other = min(odds, 1.0), min(1 / odds, 1.0)
        return cls(
            champion.count + challenger.count,
            weight * champion.total,
            other * challenger.total,
            weight**2 * champion.squares,
            other**2 * challenger.squares,
        )

    def tally(self, ratio: float) -> Tally:
        """Return by how much the challenger's losses are below `ratio` times the champion's, between -1 and 1."""
        scale = max(ratio, 1.0)
        total = ratio * self.champion - self.challenger
        squares = ratio**2 * self.champion_squares - 2 * ratio * self.products + self.challenger_squares
        return Tally(self.count, total / scale, squares / scale**2)


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


def path(days: Sequence[Tally], alpha: float) -> Floats:
    """Return the evidence for a mean above 0 after each day, shape (days,); see `evidence`."""
    total, squares = np.cumsum([(day.total, day.squares) for day in days], axis=0).reshape(-1, 2).T
    return evidence(total, squares, alpha)
