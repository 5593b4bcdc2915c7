"""What a training says while it runs: how far, loss, speed, and how long it still takes."""

import logging
import time
from dataclasses import dataclass, field

log = logging.getLogger("nightshift")

SECONDS = 10.0  # between two lines


@dataclass
class TrainingProgress:
    """A line now and then.

    Attributes:
        steps: of the whole training.
        rows: of a step.
        flops: per row, forward and backward.
        done: steps when it begins, or when the last line was written.
        seconds: between two lines.
    """

    steps: int
    rows: int
    flops: int
    done: int = 0
    seconds: float = SECONDS
    _since: float = field(default_factory=time.monotonic)

    def advance(self, done: int, loss: float) -> None:
        """Write a line when it is time."""
        if (now := time.monotonic()) - self._since < self.seconds:
            return
        speed = (done - self.done) / (now - self._since)
        log.info("%s", self.line(done, loss, speed))
        self.done, self._since = done, now

    def line(self, done: int, loss: float, speed: float) -> str:
        """Return a line, for a speed in steps per second."""
        rows = speed * self.rows
        return (
            f"step {done:,} of {self.steps:,}: loss {loss:.4g}, {rows:,.0f} rows/s, "
            f"{rows * self.flops / 1e9:,.2f} GFLOP/s, {(self.steps - done) / speed:,.0f} s left"
        )
