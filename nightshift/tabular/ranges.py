"""Windows over frames: each event's window is a range of its entity's events, written once for NumPy and CuPy.

One sort makes each entity's events contiguous, in order of time; each edge of a window is then one binary search for
(entity, time - lag), and each sum a difference of two cumulative sums of integers. So a value does not depend on order,
on how many days are computed at once or on the device.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

from nightshift.contracts.preprocessing import Feature
from nightshift.tabular.declarations import EntityGroup, function

Array = Any  # numpy.ndarray | cupy.ndarray
Frame = Any  # pandas.DataFrame | cudf.DataFrame


@dataclass(frozen=True)
class EntityEvents:
    """Events by entity, then time, then position.

    Args:
        xp: numpy or cupy.
        codes: the event's entity, int64 in [0, n), (n,).
        times: non-decreasing, microseconds, int64, (n,).
        reach: the longest age at which a window may begin.
        columns: name -> whole numbers, int64, (n,); `label` among them is 1 for positives.
    """

    xp: ModuleType
    codes: Array
    times: Array
    reach: int
    columns: Mapping[str, Array]
    _ends: dict[int, Array] = field(default_factory=dict)
    _starts: dict[int, Array] = field(default_factory=dict)
    _columns: dict[str, Array] = field(default_factory=dict)
    _totals: dict[tuple[str, int], Array] = field(default_factory=dict)

    @cached_property
    def order(self) -> Array:
        """The events' positions, (n,)."""
        keys = int(self.codes.max()) + 1 if len(self.codes) else 0
        # a narrow type makes NumPy's stable sort a radix sort
        return self.xp.argsort(self.codes.astype(self.xp.min_scalar_type(keys)), kind="stable")

    @cached_property
    def sorted_times(self) -> Array:
        """When they were, (n,)."""
        return self.times[self.order]

    @cached_property
    def _packed(self) -> tuple[Array, bool]:
        """One int64 an event that stands for entity and time, or for the entity alone where both are too large."""
        n, codes, times = len(self.codes), self.codes, self.times
        keys = int(codes.max()) + 1 if n else 0
        span = int(times[-1] - times[0]) + self.reach + 1 if n else 0
        if keys * span < 2**63:
            return self.xp.take(codes * span + (times - times[:1]), self.order), True
        return codes * (n + 1), False

    def start(self, age: int) -> Array:
        """Return `until`; the last answer is at hand, since features of one window follow each other."""
        if age not in self._starts:
            self._starts.clear()
            self._starts[age] = self.until(age)
        return self._starts[age]

    def until(self, age: int) -> Array:
        """Return how many events there are up to each one's entity and time - age, (n,)."""
        packed, has_time = self._packed
        if has_time:
            return self.xp.searchsorted(packed, packed - age, side="right")
        # how many events are at most as old compares like the time itself
        return self.xp.searchsorted(self._ranked(0), self._ranked(age), side="right")

    def _ranked(self, age: int) -> Array:
        rank = self.xp.searchsorted(self.times, self.times - age, side="right")
        return self.xp.take(self._packed[0] + rank, self.order)

    def end(self, lag: int, with_event: bool) -> Array:
        """Return where windows end, exclusively: at the event itself without a lag, otherwise by time, (n,)."""
        if lag not in self._ends:
            self._ends[lag] = self.until(lag) if lag else self.xp.arange(1, len(self.codes) + 1)
        return self._ends[lag] if with_event or lag else self._ends[lag] - 1

    def column(self, name: str) -> Array:
        """Return a column by entity, then time, (n,)."""
        if name not in self._columns:
            self._columns[name] = self.xp.take(self.columns[name], self.order)
        return self._columns[name]

    def totals(self, name: str, power: int = 1) -> Array:
        """Return a column's cumulative sums, or those of its squares, one more than events."""
        if (name, power) not in self._totals:
            numbers = self.column(name)
            sums = self.xp.cumsum(numbers if power == 1 else numbers * numbers)
            self._totals[name, power] = self.xp.concatenate([self.xp.zeros(1, dtype=self.xp.int64), sums])
        return self._totals[name, power]


class RangeWindow:
    """The windows of all events for one feature; see `nightshift.data.aggregations.WindowValues`.

    Args:
        events: by entity.
        lag: by how much the windows end before the events, microseconds.
        feature: the feature.
        scale: units in one.
    """

    def __init__(self, events: EntityEvents, lag: int, feature: Feature, scale: int) -> None:
        self.scale, self.argument = scale, feature.argument
        self._events, self._xp, self._lag, self._name = events, events.xp, lag, feature.column
        self._end = events.end(lag, feature.with_event)
        start = events.start(lag + feature.length)
        self._start = start if feature.newest is None else self._xp.maximum(start, self._end - feature.newest)

    @property
    def count(self) -> Array:
        """Events."""
        return self._end - self._start

    @property
    def total(self) -> Array:
        """Sums of the column."""
        return self._difference(self._name)

    @property
    def squares(self) -> Array:
        """Sums of its squares."""
        return self._difference(self._name, 2)

    @property
    def least(self) -> Array:
        """Least numbers of the column."""
        return self._reduce(self._xp.minimum)

    @property
    def greatest(self) -> Array:
        """Greatest numbers of the column."""
        return self._reduce(self._xp.maximum)

    @property
    def first(self) -> Array:
        """Numbers of the oldest events."""
        return self._at(self._values, self._start, self._start < self._end)

    @property
    def last(self) -> Array:
        """Numbers of the newest events."""
        return self._at(self._values, self._end - 1, self._start < self._end)

    @property
    def own(self) -> Array:
        """Numbers of the events themselves."""
        return self._values

    @property
    def positives(self) -> Array:
        """Events with a positive label."""
        return self._difference("label")

    @property
    def distinct(self) -> Array:
        """Different values of the column.

        Windows of one entity begin and end in order of time, so each repetition of a value counts twice from the first
        window that has both events to the last one that does.
        """
        xp, n = self._xp, len(self._start)
        # equal values of one entity, in order of time, lie beside each other
        keys = self._values * 1
        order = xp.lexsort(xp.stack([xp.arange(n), keys, self._owners]))
        before, after = order[:-1], order[1:]
        is_repeated = (keys[before] == keys[after]) & (self._owners[before] == self._owners[after])
        before, after = before[is_repeated], after[is_repeated]
        begins = xp.searchsorted(self._end, after, side="right")
        ends = xp.searchsorted(self._start, before, side="right")
        counts = begins < ends
        changes = xp.bincount(begins[counts], minlength=n + 1) - xp.bincount(ends[counts], minlength=n + 1)
        return self.count - xp.cumsum(changes)[:n]

    def age(self, events: int) -> Array:
        """Return the microseconds since the newest event but `events - 1`, float64; NaN without it."""
        at = self._end - events
        return self._at(self._events.sorted_times, at, at >= self._start, self._events.sorted_times)

    def counts(self, lengths: Sequence[int]) -> list[Array]:
        """Return the events in windows of other lengths."""
        return [self._end - self._events.until(self._lag + length) for length in lengths]

    def divide(self, dividend: Array, divisor: Array) -> Array:
        """Return a quotient of float64; NaN where the divisor is 0."""
        if isinstance(divisor, int):  # a scale
            return dividend / divisor
        is_zero = divisor == 0
        return dividend / (self._xp.where(is_zero, self._xp.nan, divisor) if is_zero.any() else divisor)

    def root(self, square: Array, floor: Array) -> Array:
        """Return a square root; 0 where the square is not above the floor, NaN where it is missing."""
        return self._xp.sqrt(self._xp.where(square <= floor, 0.0, square))

    def replace_missing(self, value: Array) -> Array:
        """Return values with 0 for NaN."""
        return self._xp.where(self._xp.isnan(value), 0.0, value)

    @cached_property
    def _values(self) -> Array:
        assert self._name, "the function reads a column"
        return self._events.column(self._name)

    @cached_property
    def _owners(self) -> Array:
        return self._xp.take(self._events.codes, self._events.order)

    def _difference(self, name: str | None, power: int = 1) -> Array:
        assert name, "the function reads a column"
        total = self._events.totals(name, power)
        return self._xp.take(total, self._end) - self._xp.take(total, self._start)

    def _at(self, values: Array, positions: Array, is_there: Array, minuend: Array | None = None) -> Array:
        """Return values at some positions, or how far below the minuend they are; NaN where there is none."""
        picked = self._xp.take(values, self._xp.where(is_there, positions, 0)) if len(values) else values
        picked = picked if minuend is None else minuend - picked
        return self._xp.where(is_there, picked.astype("float64"), self._xp.nan)

    def _reduce(self, smaller: Any) -> Array:
        """Return the extreme of each range by a sparse table: of two overlapping ranges, each a power of 2 long."""
        xp, table, size = self._xp, self._values, 1
        reduced = xp.full(len(table), xp.nan)
        longest = int(self.count.max()) if len(table) else 0
        while size <= longest:
            is_level = (self.count >= size) & (self.count < 2 * size)
            start, end = self._start[is_level], self._end[is_level]
            reduced[is_level] = smaller(table[start], table[end - size])
            table, size = smaller(table[:-size], table[size:]), 2 * size
        return reduced


def compute_features(
    group: EntityGroup, events: EntityEvents, scales: Mapping[str, int]
) -> Iterator[tuple[str, Array]]:
    """Yield the features of one entity, each in the order of the events, float64 (n,).

    Args:
        group: the features.
        events: all events of each entity that there is, with the group's columns.
        scales: column -> units in one.
    """
    for feature in group.features:
        window = RangeWindow(events, group.lag(feature), feature, scales.get(feature.column or "", 1))
        values = events.xp.empty(len(events.codes))
        values[events.order] = function(feature).compute(window)
        yield feature.name, values
