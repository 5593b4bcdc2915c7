"""A snapshot in memory: arrays that lie in a mapped file, read one value at a time.

Plain memory views and `bisect` are faster than NumPy for single rows, and what nobody looks up stays on disk.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from components.common.contracts.online import Snapshot
from components.tabular.online.event import EPOCH_DAYS, Id
from components.tabular.windows import DAY

Integers = Sequence[int]  # memoryviews and arrays of integers are such
Found = tuple[list[int], list[int]]  # per window: events, and the sum of their amounts or how many are positive
NOWHERE = -1


def halves(key: str) -> tuple[int, int]:
    """Return a text as two int64; two texts of 5 million share both with a probability of 4e-26."""
    digest = blake2b(key.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little", signed=True), int.from_bytes(digest[8:], "little", signed=True)


class Keys:
    """Sorted keys; texts are their hashes.

    Args:
        arrays: the snapshot's, by name.
        name: of the keys; a second array `<name>_check` means that they are texts.
    """

    def __init__(self, arrays: Mapping[str, Integers], name: str) -> None:
        self._keys, self._checks = arrays[name], arrays.get(f"{name}_check")

    def find(self, key: Id) -> int:
        """Return the first place of a key, `NOWHERE` when it is not there."""
        if self._checks is None:
            at = bisect_left(self._keys, key)
            return at if at < len(self._keys) and self._keys[at] == key else NOWHERE
        key, check = halves(key)  # type: ignore[arg-type]
        at = bisect_left(self._keys, key)
        while at < len(self._keys) and self._keys[at] == key:
            if self._checks[at] == check:
                return at
            at += 1
        return NOWHERE

    def next(self, at: int) -> int:
        """Return the place after one if the same key is there again, else `NOWHERE`."""
        found, after = self._keys[at], at + 1
        same = after < len(self._keys) and self._keys[after] == found
        return after if same and (self._checks is None or self._checks[after] == self._checks[at]) else NOWHERE


class Customers:
    """Events by customer, then time; `totals` are cumulative amounts in minor units, one more than events."""

    def __init__(self, arrays: Mapping[str, Integers]) -> None:
        self.keys = Keys(arrays, "customers")
        self.starts, self.times, self.totals = (arrays[f"customer_{name}"] for name in ("starts", "times", "totals"))

    def windows(self, customer: Id, last: int | None, edges: Sequence[int], row: int | None = None) -> Found:
        """Return what a customer's windows hold.

        Args:
            customer: whose.
            last: the moment that they end with; None: everything.
            edges: the moments after which they start.
            row: the row that they end with instead.
        """
        owner = self.keys.find(customer)
        if owner == NOWHERE:
            return [0] * len(edges), [0] * len(edges)
        low, high = self.starts[owner], self.starts[owner + 1]
        if row is not None:
            high = row + 1
        elif last is not None:
            high = bisect_right(self.times, last, low, high)
        return within(self.times, self.totals, low, high, edges)


class Terminals:
    """Events by terminal, then time, with labels (-1 where there is none), and the times of the positives alone."""

    def __init__(self, arrays: Mapping[str, Integers]) -> None:
        self.keys = Keys(arrays, "terminals")
        self.starts, self.times, self.labels = (arrays[f"terminal_{name}"] for name in ("starts", "times", "labels"))
        self._positive_starts, self._positive_times = arrays["positive_starts"], arrays["positive_times"]

    def of(self, row: int) -> int:
        """Return whose event a row is: the terminal's place among the keys."""
        return bisect_right(self.starts, row) - 1

    def windows(self, owner: int, last: int, edges: Sequence[int]) -> Found:
        """Return what a terminal's windows hold: events, and positives.

        Args:
            owner: its place among the keys.
            last: the moment that they end with.
            edges: the moments after which they start.
        """
        counts = counted(self.times, self.starts[owner], self.starts[owner + 1], last, edges)
        low, high = self._positive_starts[owner], self._positive_starts[owner + 1]
        return counts, counted(self._positive_times, low, high, last, edges) if low < high else [0] * len(edges)


def within(times: Integers, totals: Integers, low: int, high: int, edges: Sequence[int]) -> Found:
    """Count and sum rows up to `high` that are later than each edge; `low` is the first row to look at."""
    starts = [bisect_right(times, edge, low, high) for edge in edges]
    total = totals[high]
    return [high - start for start in starts], [total - totals[start] for start in starts]


def counted(times: Integers, low: int, high: int, last: int, edges: Sequence[int]) -> list[int]:
    """Count rows from `low` to before `high` that are later than each edge and not later than `last`."""
    high = bisect_right(times, last, low, high)
    return [high - bisect_right(times, edge, low, high) for edge in edges]


class Base:
    """The past as a snapshot has it, which never changes.

    Attributes:
        snapshot: its manifest.
        until: the first moment after the days that it covers, in microseconds since 1970.
        oldest: the first moment whose windows it can serve: its last day.
        customers: None in a use case without windows by customer.
        terminals: None in a use case without windows by terminal.
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

    def place(self, event_id: Id, day: int) -> int:
        """Return where an event of a day (since 1970) is in the index of ids, `NOWHERE` when it is not there."""
        at = self._ids.find(event_id) if self._ids else NOWHERE
        while at != NOWHERE and self.time(at) // DAY != day:
            at = self._ids.next(at) if self._ids else NOWHERE
        return at

    def time(self, place: int) -> int:
        """Return when the event at a place of the index happened."""
        if self.customers and self._customer_rows is not None:
            return self.customers.times[self._customer_rows[place]]
        assert self.terminals and self._terminal_rows is not None, "an event is indexed for a side's sake"
        return self.terminals.times[self._terminal_rows[place]]

    def customer_row(self, place: int) -> int:
        """Return the row of an event in `customers`, `NOWHERE` in a use case without them."""
        return NOWHERE if self._customer_rows is None else self._customer_rows[place]

    def terminal_row(self, place: int) -> int:
        """Return the row of an event in `terminals`, `NOWHERE` in a use case without them."""
        return NOWHERE if self._terminal_rows is None else self._terminal_rows[place]
