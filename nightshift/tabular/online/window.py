"""One event's windows over a snapshot and what has come in since; see `nightshift.data.aggregations.WindowValues`."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import sub

import msgspec

from nightshift.tabular.online.base import EntityHistory
from nightshift.tabular.online.layout import EventRecord
from nightshift.tabular.online.overlay import Overlay, Positives

Number = float  # or int, of any size


class History(msgspec.Struct, frozen=True, gc=False):
    """The events of one event's entity up to it, in order of time: those of the snapshot count first at the same time.

    Attributes:
        record: what is kept of the event.
        past: of the snapshot.
        owner: the entity there, or `NOWHERE`.
        low: where its events begin there.
        high: where they end.
        new: since then.
        end: how many of these count.
        is_past: whether the event itself is one of the snapshot's.
        corrections: labels that have changed since.
    """

    record: EventRecord
    past: EntityHistory
    owner: int
    low: int
    high: int
    new: Overlay
    end: int
    is_past: bool
    corrections: Sequence[Positives]


class EventWindow:
    """The windows of one event with the same end, opened one after the other.

    Args:
        history: of the event's entity.
        time: of the event.
        lag: by how much the windows end before it.
        with_event: whether the event itself is in them.

    Attributes:
        count: events in the open window.
        column: of the feature that is computed.
        argument: of its function: events, or a half-life in microseconds.
        scale: units in one of the column's numbers.
    """

    __slots__ = (
        "_after",
        "_end",
        "_high",
        "_history",
        "_low",
        "_start",
        "_time",
        "_until",
        "argument",
        "column",
        "count",
        "scale",
    )

    count: int
    column: str
    argument: int
    scale: int

    def __init__(self, history: History, time: int, lag: int, with_event: bool) -> None:
        self._history, self._time, self._until = history, time, time - lag
        high, end = history.high, history.end
        if lag:
            high = bisect_right(history.past.times, self._until, history.low, high)
            end = bisect_right(history.new.times, self._until, 0, end) if end else 0
        elif not with_event:
            high, end = high - history.is_past, end - (not history.is_past)
        self._high, self._end = high, end

    def open(self, length: int, newest: int | None) -> None:
        """Let the window begin a number of microseconds before its end, or with the newest events since then."""
        history, high, end = self._history, self._high, self._end
        self._after = after = self._until - length
        self._low = low = bisect_right(history.past.times, after, history.low, high)
        # most windows have all that is new
        new = history.new.times
        self._start = start = bisect_right(new, after, 0, end) if end and new[0] <= after else 0
        self.count = high - low + end - start
        if newest is not None and newest < self.count:
            self._low, self._start = self._step_back(newest)
            self.count = newest

    @property
    def total(self) -> int:
        """Sum of the column."""
        past, new = self._history.past.totals[self.column], self._history.new.totals[self.column]
        return past[self._high] - past[self._low] + new[self._end] - new[self._start]

    @property
    def squares(self) -> int:
        """Sum of its squares."""
        past, new = self._history.past.squares[self.column], self._history.new.squares[self.column]
        return past[self._high] - past[self._low] + new[self._end] - new[self._start]

    @property
    def least(self) -> Number:
        """Least number of the column."""
        return min(self._numbers(), default=math.nan)

    @property
    def greatest(self) -> Number:
        """Greatest number of the column."""
        return max(self._numbers(), default=math.nan)

    @property
    def first(self) -> Number:
        """Number of the oldest event."""
        past, new = self._history.past.times, self._history.new.times
        if self._low == self._high and self._start == self._end:
            return math.nan
        is_past = self._start == self._end or (self._low < self._high and past[self._low] <= new[self._start])
        return self._past_number(self._low) if is_past else self._new_number(self._start)

    @property
    def last(self) -> Number:
        """Number of the newest event."""
        if not self.count:
            return math.nan
        low, start = self._step_back(1)
        return self._past_number(low) if low < self._high else self._new_number(start)

    @property
    def own(self) -> int:
        """Number of the event itself."""
        return self._history.new.layout.numbers(self._history.record)[self.column]

    @property
    def distinct(self) -> int:
        """Different values of the column."""
        past, new = self._history.past.values[self.column], self._history.new.values[self.column]
        return len({*past[self._low : self._high], *new[self._start : self._end]})

    @property
    def positives(self) -> int:
        """Events with a positive label."""
        history, after, until = self._history, self._after, self._until
        count = history.past.count_positives(history.owner, after, until)
        for correction in history.corrections:
            count += correction.count(after, until)
        return count

    def age(self, events: int) -> Number:
        """Return the microseconds since the newest event but `events - 1`; NaN without it."""
        if self.count < events:
            return math.nan
        low, start = self._step_back(events)
        times = []
        if low < self._high:
            times.append(self._history.past.times[low])
        if start < self._end:
            times.append(self._history.new.times[start])
        return float(self._time - min(times))

    def counts(self, lengths: Sequence[int]) -> list[int]:
        """Return the events in windows of other lengths, which increase."""
        history, past, new = self._history, self._high, self._end
        counts = []
        for length in lengths:
            edge = self._until - length
            past = bisect_right(history.past.times, edge, self._low, past)
            new = bisect_right(history.new.times, edge, self._start, new)
            counts.append(self._high - past + self._end - new)
        return counts

    def divide(self, dividend: Number, divisor: Number) -> float:
        """Return a quotient; NaN where the divisor is 0."""
        # as arrays are divided: both as float64, in which a large sum is rounded first
        return float(dividend) / float(divisor) if divisor else math.nan

    def root(self, square: float, floor: float) -> float:
        """Return a square root; 0 where the square is not above the floor."""
        return 0.0 if square <= floor else math.sqrt(square)

    def replace_missing(self, value: float) -> float:
        """Return a value with 0 for NaN."""
        return 0.0 if math.isnan(value) else value

    def _numbers(self) -> Iterator[int]:
        past, new = self._history.past.totals[self.column], self._history.new.totals[self.column]
        low, high, start, end = self._low, self._high, self._start, self._end
        return chain(
            map(sub, past[low + 1 : high + 1], past[low:high]), map(sub, new[start + 1 : end + 1], new[start:end])
        )

    def _past_number(self, row: int) -> int:
        totals = self._history.past.totals[self.column]
        return totals[row + 1] - totals[row]

    def _new_number(self, row: int) -> int:
        totals = self._history.new.totals[self.column]
        return totals[row + 1] - totals[row]

    def _step_back(self, events: int) -> tuple[int, int]:
        """Return where the newest events begin, of the snapshot's and of those since then."""
        past, new, low, start = self._history.past.times, self._history.new.times, self._high, self._end
        for _ in range(min(events, self.count)):
            if start > self._start and (low == self._low or new[start - 1] >= past[low - 1]):
                start -= 1
            else:
                low -= 1
        return low, start
