"""A snapshot in memory: arrays that lie in a mapped file, read one value at a time.

Plain memory views and `bisect` are faster than NumPy for single rows, and what nobody looks up stays on disk.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

from nightshift import storage
from nightshift.contracts.online import Snapshot
from nightshift.tabular.declarations import EntityGroup
from nightshift.tabular.online.event import EPOCH_DAYS, Id
from nightshift.tabular.online.layout import EventRecord, Integers, RecordLayout, halves
from nightshift.tabular.online.refusals import another
from nightshift.tabular.windows import DAY

NOWHERE = -1
REMEMBERED = 2**16  # keys whose indices are at hand, some 10 MB


class Keys:
    """Sorted keys, which may repeat; texts are their hashes, sorted by the first half.

    Args:
        arrays: the snapshot's, by name.
        name: of the keys; a second array `<name>_check` means that they are texts.
    """

    def __init__(self, arrays: Mapping[str, Integers], name: str) -> None:
        self._keys, self._checks = arrays[name], arrays.get(f"{name}_check")
        self._indices: dict[Id, int] = {}

    def find(self, key: Id) -> int:
        """Return the first index of a key, `NOWHERE` when it is not there."""
        index = self._indices.get(key)
        if index is None:
            if len(self._indices) >= REMEMBERED:
                self._indices.clear()
            index = self._indices[key] = next(self.find_all(key), NOWHERE)
        return index

    def find_all(self, key: Id) -> Iterator[int]:
        """Yield every index of a key."""
        keys, checks = self._keys, self._checks
        first, check = (key, None) if isinstance(key, int) else halves(key)
        index = bisect_left(keys, first)
        while index < len(keys) and keys[index] == first:
            if checks is None or checks[index] == check:
                yield index
            index += 1

    def name(self, index: int) -> str:
        """Return what the key at an index is called in a shared store, see `encode_key`."""
        return str(self._keys[index]) if self._checks is None else f"{self._keys[index]}:{self._checks[index]}"


class EntityHistory:
    """Events of a snapshot by entity, then time.

    Attributes:
        keys: the entities.
        starts: where each one's events begin, one more than entities.
        times: when.
        totals: column -> cumulative numbers in whole units, one more than events.
        squares: column -> cumulative squares; likewise.
        values: column -> a number that stands for the value, see `encode_value`.
        labels: -1 where there is none; empty where no feature reads them.
    """

    def __init__(self, arrays: Mapping[str, Integers], name: str, group: EntityGroup) -> None:
        self.keys, self.starts, self.times = Keys(arrays, name), arrays[f"{name}_starts"], arrays[f"{name}_times"]
        self.totals = {column: arrays[f"{name}_totals_{column}"] for column in group.numbers}
        self.squares = {column: arrays[f"{name}_squares_{column}"] for column in group.square_columns}
        self.values = {column: arrays[f"{name}_values_{column}"] for column in group.categories}
        self.labels = arrays.get(f"{name}_labels", ())
        self._positive_starts = arrays.get(f"{name}_positive_starts", ())
        self._positive_times = arrays.get(f"{name}_positive_times", ())

    def find_owner(self, row: int) -> int:
        """Return whose event a row is: the entity's index among the keys."""
        return bisect_right(self.starts, row) - 1

    def locate(self, owner: int, last: int | None, row: int | None) -> tuple[int, int]:
        """Return where an entity's events begin and end.

        Args:
            owner: its index among the keys, or `NOWHERE`.
            last: the moment that they end with; None: everything.
            row: the row that they end with instead.
        """
        if owner == NOWHERE:
            return 0, 0
        low, high = self.starts[owner], self.starts[owner + 1]
        if row is not None:
            return low, row + 1
        return low, high if last is None else bisect_right(self.times, last, low, high)

    def count_positives(self, owner: int, after: int, until: int) -> int:
        """Return how many positives an entity has that are later than a moment, and not than another."""
        if owner == NOWHERE:
            return 0
        low, high = self._positive_starts[owner], self._positive_starts[owner + 1]
        return count_between(self._positive_times, after, until, low, high)

    def has_values(self, row: int, values: Mapping[str, int], numbers: Mapping[str, int]) -> bool:
        """Return whether the event of a row has these values and numbers."""
        same_values = all(self.values[name][row] == value for name, value in values.items())
        return same_values and all(
            totals[row + 1] - totals[row] == numbers[name] for name, totals in self.totals.items()
        )


def count_between(times: Integers, after: int, until: int, low: int = 0, high: int | None = None) -> int:
    """Return how many of the times from `low` to before `high` are later than a moment, and not than another."""
    end = bisect_right(times, until, low, high)
    return end - bisect_right(times, after, low, end)


class Base:
    """The past as a snapshot has it, which never changes.

    Attributes:
        snapshot: its manifest.
        layout: what is kept of an event.
        until: the first moment after the days that it covers, in microseconds since 1970.
        oldest: the first moment whose windows it can serve: its last day.
        histories: by the groups of the layout.
        is_stateful: whether there are windows at all.
    """

    def __init__(self, snapshot: Snapshot, arrays: Mapping[str, Integers]) -> None:
        self.snapshot, self.layout = snapshot, RecordLayout(snapshot.features, snapshot.events)
        self.until = (snapshot.last.toordinal() + 1 - EPOCH_DAYS) * DAY
        self.oldest = self.until - DAY
        groups = [layout.group for layout in self.layout.groups]
        self.histories = [EntityHistory(arrays, name_arrays(number), group) for number, group in enumerate(groups)]
        self._ids = Keys(arrays, "events") if groups else None
        self._rows = [arrays[f"event_rows_{number}"] for number in range(len(groups))]
        self.labeled = [number for number, group in enumerate(groups) if group.reads_labels]
        self.is_stateful = bool(groups)

    @property
    def identity(self) -> str:
        """Identity of the snapshot: its content, its days and the windows that it serves."""
        return storage.fingerprint(self.snapshot.model_dump(mode="json"))

    def locate(self, event_id: Id, day: int) -> int:
        """Return where an event of a day (since 1970) is in the index of ids, `NOWHERE` when it is not there."""
        indices = self._ids.find_all(event_id) if self._ids else ()
        return next((index for index in indices if self.time(index) // DAY == day), NOWHERE)

    def find(self, record: EventRecord) -> int:
        """Return the position of an event in the index of ids, `NOWHERE` when it is not there.

        Args:
            record: of an event of a day that the snapshot covers.

        Raises:
            UserError: when its id is another event's.
        """
        index = self.locate(record.event_id, record.time // DAY)
        if index != NOWHERE and not self._is_same(index, record):
            raise another(record.event_id, self.layout.columns)
        return index

    def time(self, index: int) -> int:
        """Return when the event at a position of the index happened."""
        return self.histories[0].times[self._rows[0][index]]

    def row(self, group: int, index: int) -> int:
        """Return the row of an event in the history of a group."""
        return self._rows[group][index]

    def label(self, index: int) -> int:
        """Return an event's label, of a use case whose features read labels."""
        return self.histories[self.labeled[0]].labels[self.row(self.labeled[0], index)]

    def _is_same(self, index: int, record: EventRecord) -> bool:
        if self.time(index) != record.time:
            return False
        for number, (layout, history) in enumerate(zip(self.layout.groups, self.histories, strict=True)):
            row = self.row(number, index)
            if history.find_owner(row) != history.keys.find(layout.key(record)):
                return False
            if not history.has_values(row, layout.values(record), layout.numbers(record)):
                return False
        return True


def name_arrays(group: int) -> str:
    """Return what the names of a group's arrays begin with."""
    return f"group_{group}"
