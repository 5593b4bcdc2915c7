"""A snapshot in memory: arrays that lie in a mapped file, read one value at a time.

Plain memory views and `bisect` are faster than NumPy for single rows, and what nobody looks up stays on disk.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

from nightshift import storage
from nightshift.contracts.online import Snapshot
from nightshift.tabular.online.event import EPOCH_DAYS, Event, Id
from nightshift.tabular.online.refusals import another
from nightshift.tabular.windows import DAY

Integers = Sequence[int]  # memoryviews and arrays of integers are such
WindowTotals = tuple[list[int], list[int]]  # per window: events, and the sum of their amounts or how many are positive
NOWHERE = -1
REMEMBERED = 2**16  # keys whose indices are at hand, some 10 MB


def halves(key: str) -> tuple[int, int]:
    """Return a text as two int64; two texts of 5 million share both with a probability of 4e-26."""
    digest = blake2b(key.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little", signed=True), int.from_bytes(digest[8:], "little", signed=True)


def encode_key(key: Id) -> str:
    """Return what a key is called in a shared store: a number is itself, a text its hash."""
    return str(key) if isinstance(key, int) else "{}:{}".format(*halves(key))


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


class Customers:
    """Events by customer, then time; `totals` are cumulative amounts in minor units, one more than events."""

    def __init__(self, arrays: Mapping[str, Integers]) -> None:
        self.keys, self.starts = Keys(arrays, "customers"), arrays["customer_starts"]
        self.times, self.totals = arrays["customer_times"], arrays["customer_totals"]

    def find_owner(self, row: int) -> int:
        """Return whose event a row is: the customer's index among the keys."""
        return bisect_right(self.starts, row) - 1

    def rows(self, customer: Id, last: int | None, row: int | None) -> tuple[int, int]:
        """Return where a customer's events begin and end.

        Args:
            customer: whose.
            last: the moment that they end with; None: everything.
            row: the row that they end with instead.
        """
        owner = self.keys.find(customer)
        if owner == NOWHERE:
            return 0, 0
        low, high = self.starts[owner], self.starts[owner + 1]
        if row is not None:
            return low, row + 1
        return low, high if last is None else bisect_right(self.times, last, low, high)


class Terminals:
    """Events by terminal, then time, with labels (-1 where there is none), and the times of the positives alone."""

    def __init__(self, arrays: Mapping[str, Integers]) -> None:
        self.keys = Keys(arrays, "terminals")
        self.starts, self.times, self.labels = (arrays[f"terminal_{name}"] for name in ("starts", "times", "labels"))
        self._positive_starts, self._positive_times = arrays["positive_starts"], arrays["positive_times"]

    def find_owner(self, row: int) -> int:
        """Return whose event a row is: the terminal's index among the keys."""
        return bisect_right(self.starts, row) - 1

    def windows(self, owner: int, last: int, edges: Sequence[int]) -> WindowTotals:
        """Return what a terminal's windows hold: events, and positives.

        Args:
            owner: its index among the keys, or `NOWHERE`.
            last: the moment that they end with.
            edges: the moments after which they start.
        """
        if owner == NOWHERE:
            return [0] * len(edges), [0] * len(edges)
        counts = count_windows(self.times, last, edges, self.starts[owner], self.starts[owner + 1])
        low, high = self._positive_starts[owner], self._positive_starts[owner + 1]
        return counts, count_windows(self._positive_times, last, edges, low, high)


class Amounts(Protocol):
    """Events in order of time; `totals` are cumulative amounts in minor units, one more than events."""

    @property
    def times(self) -> Integers:
        """When."""

    @property
    def totals(self) -> Integers:
        """How much, up to each."""


class Nothing(NamedTuple):
    """No events."""

    times: Integers = ()
    totals: Integers = (0,)


NOTHING = Nothing()


def sum_windows(edges: Sequence[int], past: Amounts, rows: tuple[int, int], new: Amounts, end: int) -> WindowTotals:
    """Count and sum the events that are later than each edge.

    Args:
        edges: moments.
        past: events of many.
        rows: where those that count begin and end.
        new: later events.
        end: how many of them count.
    """
    low, high = rows
    times, totals, new_times, new_totals = past.times, past.totals, new.times, new.totals
    size, total = high + end, totals[high] + new_totals[end]
    oldest = new_times[0] if end else 0
    counts, sums = [], []
    for edge in edges:
        start = bisect_right(times, edge, low, high)
        new_start = bisect_right(new_times, edge, 0, end) if oldest <= edge else 0  # most windows have all that is new
        counts.append(size - start - new_start)
        sums.append(total - totals[start] - new_totals[new_start])
    return counts, sums


def add_to_windows(totals: list[int], value: int, time: int, edges: Sequence[int]) -> None:
    """Add a value to the totals of the windows that start before a moment."""
    for window, edge in enumerate(edges):
        if time > edge:
            totals[window] += value


def count_windows(times: Integers, last: int, edges: Sequence[int], low: int = 0, high: int | None = None) -> list[int]:
    """Return how many of the times from `low` to before `high` are later than each edge, and not than `last`."""
    end = bisect_right(times, last, low, high)
    return [end - bisect_right(times, edge, low, end) for edge in edges]


class Base:
    """The past as a snapshot has it, which never changes.

    Attributes:
        snapshot: its manifest.
        until: the first moment after the days that it covers, in microseconds since 1970.
        oldest: the first moment whose windows it can serve: its last day.
        customers: None in a use case without windows by customer.
        terminals: None in a use case without windows by terminal.
        is_stateful: whether there are windows at all.
    """

    def __init__(self, snapshot: Snapshot, arrays: Mapping[str, Integers]) -> None:
        self.snapshot = snapshot
        self.until = (snapshot.last.toordinal() + 1 - EPOCH_DAYS) * DAY
        self.oldest = self.until - DAY
        self.customers = Customers(arrays) if "customers" in arrays else None
        self.terminals = Terminals(arrays) if "terminals" in arrays else None
        self._ids = Keys(arrays, "events") if "events" in arrays else None
        self._customer_rows = arrays.get("event_customer_rows")
        self._terminal_rows = arrays.get("event_terminal_rows")
        self.is_stateful = bool(self.customers or self.terminals)

    @property
    def identity(self) -> str:
        """Identity of the snapshot: its content, its days and the windows that it serves."""
        return storage.fingerprint(self.snapshot.model_dump(mode="json"))

    def locate(self, event_id: Id, day: int) -> int:
        """Return where an event of a day (since 1970) is in the index of ids, `NOWHERE` when it is not there."""
        indices = self._ids.find_all(event_id) if self._ids else ()
        return next((index for index in indices if self.time(index) // DAY == day), NOWHERE)

    def find(self, event: Event, units: int) -> int:
        """Return the position of an event in the index of ids, `NOWHERE` when it is not there.

        Args:
            event: of a day that the snapshot covers.
            units: its amount in minor units.

        Raises:
            UserError: when its id is another event's.
        """
        index = self.locate(event.event_id, event.time // DAY)
        if index == NOWHERE:
            return NOWHERE
        same = self.time(index) == event.time
        if self.customers and event.customer is not None:
            row, totals = self.customer_row(index), self.customers.totals
            same &= self.customers.find_owner(row) == self.customers.keys.find(event.customer)
            same &= totals[row + 1] - totals[row] == units
        if self.terminals and event.terminal is not None:
            same &= self.terminals.find_owner(self.terminal_row(index)) == self.terminals.keys.find(event.terminal)
        if not same:
            raise another(event)
        return index

    def time(self, index: int) -> int:
        """Return when the event at a position of the index happened."""
        if self.customers and self._customer_rows is not None:
            return self.customers.times[self._customer_rows[index]]
        assert self.terminals and self._terminal_rows is not None, "an event is indexed for a side's sake"
        return self.terminals.times[self._terminal_rows[index]]

    def customer_row(self, index: int) -> int:
        """Return the row of an event in `customers`, `NOWHERE` in a use case without them."""
        return NOWHERE if self._customer_rows is None else self._customer_rows[index]

    def terminal_row(self, index: int) -> int:
        """Return the row of an event in `terminals`, `NOWHERE` in a use case without them."""
        return NOWHERE if self._terminal_rows is None else self._terminal_rows[index]
