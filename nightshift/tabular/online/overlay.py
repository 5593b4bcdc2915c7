"""What has come in since a snapshot, by entity: events in order of time, and labels that have changed."""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

from nightshift.tabular.online.base import count_between
from nightshift.tabular.online.event import Id
from nightshift.tabular.online.layout import EventRecord, GroupLayout


class Overlay:
    """An entity's events since the snapshot, in order of time; the fields are those of `EntityHistory`.

    Attributes:
        layout: where its columns lie in a record.
        ids: of the events.
    """

    __slots__ = ("ids", "layout", "squares", "times", "totals", "values")

    def __init__(self, layout: GroupLayout, *records: EventRecord) -> None:
        self.layout = layout
        self.times = array("q")
        self.ids: list[Id] = []
        self.totals: dict[str, list[int]] = {}  # integers that have no end
        self.squares: dict[str, list[int]] = {}
        self.values: dict[str, list[int]] = {}
        # loops, since a comprehension is a call, and most entities have one event between two snapshots
        for name in layout.group.numbers:
            self.totals[name] = [0]
        for name in layout.group.square_columns:
            self.squares[name] = [0]
        for name in layout.group.categories:
            self.values[name] = []
        for record in records:
            self.add(record)

    def add(self, record: EventRecord) -> None:
        """Put an event in its place, after those of its time."""
        self.add_columns(record.event_id, record.time, self.layout.columns(record))

    def add_columns(self, event_id: Id, time: int, columns: Sequence[int]) -> None:
        """Put an event in its place: likewise, from numbers that stand for values and whole numbers."""
        at = bisect_right(self.times, time)
        self.ids.insert(at, event_id)
        self.times.insert(at, time)
        for values, value in zip(self.values.values(), columns, strict=False):
            values.insert(at, value)
        for (name, totals), number in zip(self.totals.items(), columns[len(self.values) :], strict=True):
            _insert(totals, at, number)
            if name in self.squares:
                _insert(self.squares[name], at, number * number)

    def until(self, record: EventRecord) -> int:
        """Return how many events there are up to one of them."""
        return self.ids.index(record.event_id, bisect_left(self.times, record.time)) + 1


def _insert(totals: list[int], at: int, number: int) -> None:
    """Put a number in its place among cumulative ones."""
    totals.insert(at + 1, totals[at] + number)
    if number:
        for later in range(at + 2, len(totals)):
            totals[later] += number


class Positives:
    """Sorted times of an entity's positives that the snapshot lacks, and of those that are none any more."""

    __slots__ = ("added", "retracted")

    def __init__(self) -> None:
        self.added, self.retracted = array("q"), array("q")

    def change(self, time: int, is_positive: bool, was_first: bool) -> None:
        """Note that a label has changed to or from positive; `was_first` is what the snapshot says."""
        moved = self.retracted if was_first else self.added
        if is_positive == was_first:
            del moved[bisect_left(moved, time)]
        else:
            insort(moved, time)

    def count(self, after: int, until: int) -> int:
        """Return how many more positives there are later than a moment, and not than another."""
        return count_between(self.added, after, until) - count_between(self.retracted, after, until)
