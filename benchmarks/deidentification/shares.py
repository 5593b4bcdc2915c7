"""Shares with their intervals, as cells of a table."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import figures
from nightshift.stats.proportions import wilson_interval

INTERVAL = "95 % interval"


@dataclass(frozen=True)
class Span:
    """Studies in the order of their numbers, until the time is up.

    Attributes:
        numbers: of the studies, which are their seeds.
        seconds: after which no other one is begun.
    """

    numbers: range
    seconds: float

    def __iter__(self) -> Iterator[int]:
        end = time.monotonic() + self.seconds
        return itertools.takewhile(lambda _: time.monotonic() < end, self.numbers)


def share(total_column: str, count: int, total: int, count_column: str) -> figures.Row:
    """Return the cells of a share: all, those counted, per cent with Wilson's interval.

    Args:
        total_column: of all.
        count: those counted.
        total: all.
        count_column: of those counted.
    """
    interval = wilson_interval(count, total) if total else None
    return {
        total_column: total,
        count_column: count,
        "%": f"{100 * count / total:.2f}" if total else "",
        INTERVAL: f"{100 * interval.low:.2f} to {100 * interval.high:.2f}" if interval else "",
    }
