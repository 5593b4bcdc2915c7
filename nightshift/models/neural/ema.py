"""A moving average of a network's weights, which is less noisy than the last ones.

Polyak & Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from nightshift.models.neural.replica import Values


class Average:
    """The exponential moving average of weights, and of the statistics of batches, while they change.

    Attributes:
        values: the average so far, by the names that the weights have.

    Args:
        weights: those that lie in this process, which change while the network is trained.
        decay: share of the average that a step leaves, at most.
    """

    def __init__(self, weights: Values, decay: float) -> None:
        self._decay = decay
        self._newest = {name: value for name, value in weights.items() if value.is_floating_point()}
        self.values = {name: value.clone() for name, value in self._newest.items()}

    def update(self, steps: int) -> None:
        """Add the weights after so many steps; the first steps leave less of the average, which knows little yet."""
        decay = min(self._decay, (1 + steps) / (10 + steps))
        for name, value in self.values.items():
            value.lerp_(self._newest[name], 1 - decay)

    @contextmanager
    def use_average(self) -> Iterator[None]:
        """Have the network the average for a while."""
        self._swap()
        yield
        self._swap()

    def take(self) -> None:
        """Have the network take the average."""
        for name, value in self.values.items():
            self._newest[name].copy_(value)

    def _swap(self) -> None:
        for name, value in self.values.items():
            newest = self._newest[name]
            before = newest.clone()
            newest.copy_(value)
            value.copy_(before)
