"""The functions that features are declared with, one entry each, and what they may ask of a window.

A function is arithmetic over a window, written once: over frames a window's values are arrays, for a single event they
are Python's numbers, and both round alike (float64: + - * / and square roots of IEEE 754). So batch, GPU, shards,
embedded state, Redis and replay give the same bits. A function from a package comes by the entry point
`nightshift.features`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from nightshift import entry_points

Value = Any  # a float64 array, or a float
HALF_LIVES = 8  # after which an event no longer counts in a decayed count: its weight would be below 1/256
STEPS = 2 * HALF_LIVES  # in which the weight falls
LATER_WEIGHTS = [2.0 ** (-step / 2) for step in range(1, STEPS)]  # that of the first step is 1
NEGLIGIBLE = 1e-12  # share of the mean square below which a variance is rounding alone


class Reads(StrEnum):
    """What a function reads of an event beside its time."""

    NOTHING = "nothing"
    NUMBER = "a number"
    VALUE = "an identifier or a category"
    LABEL = "a label"


class Argument(StrEnum):
    """What a function takes in parentheses."""

    NONE = ""
    COUNT = "events, such as 3"
    HALF_LIFE = "half-life, such as 6h"


class WindowValues(Protocol):
    """The events of an entity in a window, of one event or of many; numbers are whole, in units of 1 / `scale`.

    Attributes:
        scale: units in one.
        argument: the function's: events, or a half-life in microseconds.
    """

    scale: int
    argument: int

    @property
    def count(self) -> Value:
        """Events."""

    @property
    def total(self) -> Value:
        """Sum of the column."""

    @property
    def squares(self) -> Value:
        """Sum of its squares."""

    @property
    def least(self) -> Value:
        """Least number of the column; NaN without events."""

    @property
    def greatest(self) -> Value:
        """Greatest number of the column; likewise."""

    @property
    def first(self) -> Value:
        """Number of the oldest event; likewise."""

    @property
    def last(self) -> Value:
        """Number of the newest one; likewise."""

    @property
    def own(self) -> Value:
        """Number of the event that the window is of."""

    @property
    def distinct(self) -> Value:
        """Different values of the column."""

    @property
    def positives(self) -> Value:
        """Events with a positive label."""

    def age(self, events: int) -> Value:
        """Return the microseconds since the newest event but `events - 1`; NaN where the window has fewer."""

    def counts(self, lengths: Sequence[int]) -> Sequence[Value]:
        """Return the events in windows of the same end and other lengths, in microseconds, up to this one's."""

    def divide(self, dividend: Value, divisor: Value) -> Value:
        """Return a quotient of float64; NaN where the divisor is 0."""

    def root(self, square: Value, floor: Value) -> Value:
        """Return a square root; 0 where the square is not above the floor."""

    def replace_missing(self, value: Value) -> Value:
        """Return a value with 0 for NaN."""


@dataclass(frozen=True)
class Aggregation:
    """A function of the events in a window.

    Attributes:
        compute: returns the feature, which is kept as float64.
        reads: what it reads of the events.
        nullable: whether it may be NaN where the window has the event itself.
        with_event: whether the event itself may be in the window.
        argument: what it takes in parentheses.
        squares: whether it sums squares, which takes smaller numbers.
    """

    compute: Callable[[WindowValues], Value]
    reads: Reads = Reads.NOTHING
    nullable: bool = False
    with_event: bool = True
    argument: Argument = Argument.NONE
    squares: bool = False


class Call(NamedTuple):
    """A function as a config names it, such as `seconds_since_previous(3)`."""

    name: str
    argument: str


def parse_call(text: str) -> Call | None:
    """Return the function that a text names, and its argument; None where it is not spelled like one."""
    match = re.fullmatch(r"([a-z][a-z0-9_]*)(?:\(([a-z0-9]+)\))?", text)
    return Call(match[1], match[2] or "") if match else None


def _mean(window: WindowValues) -> Value:
    return window.divide(window.total, window.count * window.scale)


def _std(window: WindowValues) -> Value:
    """Standard deviation of the population."""
    mean = window.divide(window.total, window.count)
    square = window.divide(window.squares, window.count)
    return window.root(square - mean * mean, square * NEGLIGIBLE) / window.scale


def _own(window: WindowValues) -> Value:
    return window.divide(window.own, window.scale)


def _decayed_count(window: WindowValues) -> Value:
    """Events by a weight that halves with each half-life, in steps of half of it: no order of addition matters."""
    step = window.argument // 2
    before, *counts = window.counts([number * step for number in range(1, STEPS + 1)])
    total = before * 1.0
    for count, weight in zip(counts, LATER_WEIGHTS, strict=True):
        total = total + (count - before) * weight
        before = count
    return total


BUILT_IN: Mapping[str, Aggregation] = {
    "count": Aggregation(attrgetter("count")),
    "sum": Aggregation(lambda window: window.divide(window.total, window.scale), Reads.NUMBER),
    "mean": Aggregation(_mean, Reads.NUMBER),
    "std": Aggregation(_std, Reads.NUMBER, squares=True),
    "min": Aggregation(lambda window: window.divide(window.least, window.scale), Reads.NUMBER),
    "max": Aggregation(lambda window: window.divide(window.greatest, window.scale), Reads.NUMBER),
    "first": Aggregation(lambda window: window.divide(window.first, window.scale), Reads.NUMBER),
    "last": Aggregation(lambda window: window.divide(window.last, window.scale), Reads.NUMBER, True, False),
    "distinct": Aggregation(attrgetter("distinct"), Reads.VALUE),
    "seconds_since_last": Aggregation(lambda window: window.age(1) / 1e6, nullable=True, with_event=False),
    "seconds_since_previous": Aggregation(
        lambda window: window.age(window.argument) / 1e6, nullable=True, with_event=False, argument=Argument.COUNT
    ),
    "decayed_count": Aggregation(_decayed_count, argument=Argument.HALF_LIFE),
    "positive_count": Aggregation(attrgetter("positives"), Reads.LABEL),
    "positive_rate": Aggregation(
        lambda window: window.replace_missing(window.divide(window.positives, window.count)), Reads.LABEL
    ),
    "ratio": Aggregation(lambda window: window.divide(_own(window), _mean(window)), Reads.NUMBER, True, False),
    "difference": Aggregation(lambda window: _own(window) - _mean(window), Reads.NUMBER, True, False),
    "zscore": Aggregation(
        lambda window: window.divide(_own(window) - _mean(window), _std(window)),
        Reads.NUMBER,
        nullable=True,
        with_event=False,
        squares=True,
    ),
}


@cache
def aggregations() -> Mapping[str, Aggregation]:
    """Return the functions by name: the built-in ones, then those of packages."""
    return {
        **BUILT_IN,
        **{
            name: point.load()
            for name, point in entry_points.find(entry_points.FEATURES).items()
            if name not in BUILT_IN
        },
    }
