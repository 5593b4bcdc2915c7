"""The simulated world: who pays how often and how much, and which terminals are within reach.

Facts of the generator: Le Borgne et al., "Reproducible Machine Learning for Credit Card Fraud Detection -
Practical Handbook", chapter 3. Written from its description.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LOW = (0.0, 0.0, 5.0, 0.0)
HIGH = (100.0, 100.0, 100.0, 4.0)
# radius 5 among 10,000 terminals, so that every size of world has about 75 terminals within reach
RADIUS, DENSITY = 5.0, 10_000


@dataclass(frozen=True)
class World:
    """Customers and what they can reach.

    Attributes:
        mean_amount: currency units, float64 (customers,); the standard deviation is half of it.
        rate: transactions a day, float64 (customers,).
        reachable: each customer's terminals in ascending order; one int64 array a customer.
    """

    mean_amount: Floats
    rate: Floats
    reachable: list[Ints]


def assemble(customers: Floats, terminals: Floats, radius: float) -> World:
    """Make a world from uniform draws.

    Args:
        customers: draws in [0, 1), (customers, 4): x, y, mean amount, rate.
        terminals: draws in [0, 1), (terminals, 2): x, y.
        radius: a terminal strictly nearer than this is within reach.
    """
    profiles = np.asarray(LOW) + np.subtract(HIGH, LOW) * customers
    return World(profiles[:, 2], profiles[:, 3], _reachable(profiles[:, :2], 100.0 * terminals, radius))


@lru_cache(maxsize=4)
def make_world(seed: int, customers: int, terminals: int) -> World:
    """Make the world of a seed and a size; remembered, since every day of a run is in the same one."""
    rng = np.random.default_rng([seed, 0])
    radius = RADIUS * float(np.sqrt(DENSITY / terminals))
    return assemble(rng.random((customers, 4)), rng.random((terminals, 2)), radius)


def _reachable(customers: Floats, terminals: Floats, radius: float) -> list[Ints]:
    by_x = np.argsort(terminals[:, 0])
    xs, ys = terminals[by_x].T.copy()
    # only the terminals in a strip around the customer are looked at
    first = np.searchsorted(xs, customers[:, 0] - radius)
    last = np.searchsorted(xs, customers[:, 0] + radius)
    reachable = []
    for (x, y), start, stop in zip(customers, first, last, strict=True):
        near = (xs[start:stop] - x) ** 2 + (ys[start:stop] - y) ** 2 < radius**2
        reachable.append(np.sort(by_x[start:stop][near]))
    return reachable
