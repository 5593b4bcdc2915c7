"""What a training takes and costs on machines that may be taken away.

Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, Future Generation Computer Systems
22, 2006: equations 20 (expected time) and 37 (best interval), for interruptions at random moments (exponential). Young,
A first order approximation to the optimum checkpoint interval, Communications of the ACM 17, 1974, has sqrt(2 d M).
"""

from dataclasses import dataclass
from math import exp, sqrt


@dataclass(frozen=True)
class Interruptions:
    """How machines go away, in hours.

    Attributes:
        between: mean time between two interruptions of the training (M); with n machines, that of one divided by n.
        checkpoint: that saving a checkpoint stops the training for (d).
        restart: from an interruption until the training goes on from its checkpoint (R).
    """

    between: float
    checkpoint: float
    restart: float

    @property
    def interval(self) -> float:
        """Daly's interval between checkpoints, in hours."""
        delta, mean = self.checkpoint, self.between
        if delta >= 2 * mean:
            return mean
        ratio = delta / (2 * mean)
        return sqrt(2 * delta * mean) * (1 + sqrt(ratio) / 3 + ratio / 9) - delta

    def expected_hours(self, hours: float) -> float:
        """Return the hours that so many hours of work are expected to take, checkpoints and repeated work counted."""
        every, mean = self.interval, self.between
        return mean * exp(self.restart / mean) * (exp((every + self.checkpoint) / mean) - 1) * hours / every
