"""The past of a snapshot and what has come in since: takes events and labels, and says what the windows hold."""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from operator import add, attrgetter, sub
from typing import NamedTuple

import msgspec

from nightshift.runtime.errors import UserError
from nightshift.tabular.online.base import NOTHING, NOWHERE, Base, WindowTotals, count_windows, sum_windows
from nightshift.tabular.online.event import Event, Id
from nightshift.tabular.online.inputs import EventInputs
from nightshift.tabular.online.limits import NOW, Clock, EventGuard
from nightshift.tabular.online.refusals import RefusedEventError, another, too_old
from nightshift.tabular.windows import DAY, LARGEST_SUM

UNKNOWN = -1  # what a snapshot has for a label that was not known


class EventRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is kept of an event; the amount in minor units."""

    event_id: Id
    time: int
    customer: Id | None
    terminal: Id | None
    units: int


class Label(NamedTuple):
    """A label that has arrived for an event of the time's UTC day."""

    event_id: Id
    time: int
    label: int


NONE: dict[Id, EventRecord] = {}


class Customer:
    """A customer's events since the snapshot, in order of time; `totals` are cumulative, one more than events."""

    __slots__ = ("ids", "times", "totals")

    def __init__(self, first: EventRecord) -> None:
        self.ids, self.times = [first.event_id], array("q", [first.time])
        self.totals: array[int] | list[int] = array("q", [0, first.units])

    def add(self, entry: EventRecord) -> int:
        """Put an event in its place, after those of its time; return how many there are up to it."""
        at = bisect_right(self.times, entry.time)
        if any(abs(total + entry.units) >= LARGEST_SUM for total in self.totals[at:]):
            self.totals = list(self.totals)  # whose integers have no end
        self.ids.insert(at, entry.event_id)
        self.times.insert(at, entry.time)
        self.totals.insert(at + 1, self.totals[at] + entry.units)
        for later in range(at + 2, len(self.totals)):
            self.totals[later] += entry.units
        return at + 1

    def until(self, entry: EventRecord) -> int:
        """Return how many events there are up to one of them."""
        return self.ids.index(entry.event_id, bisect_left(self.times, entry.time)) + 1


class Arrivals:
    """Terminals' events since the snapshot. Those that are too young for any window, with a label delay most, wait."""

    def __init__(self) -> None:
        self._events: list[EventRecord] = []  # in order of time
        self._first = 0  # the first of them that waits
        self._times: dict[Id | None, array[int]] = defaultdict(partial(array, "q"))  # the others', in order

    def add(self, entry: EventRecord) -> None:
        """Put an event in its place among those that wait, where an event that comes late belongs too."""
        events = self._events
        if self._first < len(events) and entry.time < events[-1].time:
            insort(events, entry, self._first, key=attrgetter("time"))
        else:
            events.append(entry)

    def times(self, terminal: Id | None, last: int) -> Sequence[int] | None:
        """Return when a terminal's events were, in order: those up to a moment, maybe later ones; None without any."""
        events = self._events
        while self._first < len(events) and (entry := events[self._first]).time <= last:
            insort(self._times[entry.terminal], entry.time)
            self._first += 1
        return self._times.get(terminal)


class Positives:
    """Sorted times of a terminal's positives that the snapshot lacks, and of those that are none any more."""

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

    def correct(self, positives: Iterable[int], last: int, edges: Sequence[int]) -> list[int]:
        """Return what windows hold of positives, corrected; see `Terminals.windows`."""
        more, less = count_windows(self.added, last, edges), count_windows(self.retracted, last, edges)
        return list(map(sub, map(add, positives, more), less))


class OnlineState:
    """Answers events; not safe for threads.

    Attributes:
        base: the snapshot.
    """

    def __init__(self, base: Base, clock: Clock = NOW) -> None:
        spec = base.snapshot.windows
        self.base, self._limits = base, EventGuard(base.snapshot, clock)
        self._inputs = EventInputs(spec)
        self._entries: dict[int, dict[Id, EventRecord]] = defaultdict(dict)  # by UTC day
        self._changed: dict[tuple[int, Id], bool] = {}  # whether events are positive that the snapshot says are not
        # a single event stands for itself: most keys have no more between two snapshots, and it takes less memory
        self._customers: dict[Id | None, Customer | EventRecord] = {}
        self._arrivals = Arrivals()
        self._positives: dict[Id | None, Positives] = defaultdict(Positives)  # among these
        self._relabeled: dict[int, Positives] = defaultdict(Positives)  # by a terminal's index in the snapshot

    def check(self, events: Sequence[Event]) -> None:
        """Check a request's events before the first one is taken in.

        Raises:
            RefusedEventError: for what `take` would raise.
        """
        entries: dict[tuple[int, Id], EventRecord] = {}
        for number, event in enumerate(events):
            try:
                entry, *_ = self._check_event(event)
                if entry != entries.setdefault((event.time // DAY, event.event_id), entry):
                    raise another(event)
            except UserError as error:
                raise RefusedEventError(number, error) from None

    def take(self, event: Event) -> tuple[list[float], EventRecord | None]:
        """Take an event in, unless it is known.

        Returns:
            its numeric inputs in the order of `windows.numeric_inputs`, and what to keep of it; None when it is known.

        Raises:
            UserError: when it is over a limit, older than the snapshot's last day, or known as another one.
        """
        entry, known, index = self._check_event(event)
        if known:
            return self._row(event, None, self._until(known)), None
        if index != NOWHERE:
            return self._row(event, self.base.customer_row(index), None), None
        if not self.base.is_stateful:
            return self._row(event, None, None), None
        return self._row(event, None, self.add(entry)), entry

    def add(self, entry: EventRecord) -> int:
        """Take in an event that is not known; return how many of its customer came in up to it."""
        self._entries[entry.time // DAY][entry.event_id] = entry
        if self.base.terminals:
            self._arrivals.add(entry)
        return self._add_amount(entry) if self.base.customers else 0

    def label(self, label: Label) -> bool:
        """Take a label in; return whether its event is known."""
        day = label.time // DAY
        key, terminals = (day, label.event_id), self.base.terminals
        if entry := self._entries.get(day, NONE).get(label.event_id):
            time, first, moved = entry.time, UNKNOWN, self._positives[entry.terminal]
        elif (index := self.base.locate(label.event_id, day)) != NOWHERE and terminals:
            row = self.base.terminal_row(index)
            time, first = terminals.times[row], terminals.labels[row]
            moved = self._relabeled[terminals.find_owner(row)]
        else:
            return index != NOWHERE
        was_first, is_positive = first == 1, label.label == 1
        if is_positive != self._changed.get(key, was_first):
            moved.change(time, is_positive, was_first)
        if is_positive != was_first:
            self._changed[key] = is_positive
        else:
            self._changed.pop(key, None)
        return True

    def covers(self, record: EventRecord | Label) -> bool:
        """Return whether the snapshot makes superfluous what came in over an earlier one."""
        if record.time >= self.base.until:
            return False
        if isinstance(record, EventRecord):
            return True
        index, terminals = self.base.locate(record.event_id, record.time // DAY), self.base.terminals
        return index == NOWHERE or not terminals or terminals.labels[self.base.terminal_row(index)] != UNKNOWN

    def restore(self, record: EventRecord | Label) -> None:
        """Take in what a log holds."""
        if isinstance(record, EventRecord):
            self.add(record)
        else:
            self.label(record)

    def _check_event(self, event: Event) -> tuple[EventRecord, EventRecord | None, int]:
        """Return what is kept of an event, the same where it is known, and its index in the snapshot, or `NOWHERE`."""
        event_id, time = event.event_id, event.time
        self._limits.check(event)
        if time < self.base.oldest and self.base.is_stateful:
            raise too_old(event, self.base.snapshot)
        entry = EventRecord(event_id, time, event.customer, event.terminal, self._inputs.units(event.amount))
        known = self._entries.get(time // DAY, NONE).get(event_id)
        if known and known != entry:
            raise another(event)
        index = NOWHERE if known or time >= self.base.until else self.base.find(event, entry.units)
        return entry, known, index

    def _add_amount(self, entry: EventRecord) -> int:
        rows = self._customers.get(entry.customer)
        if rows is None:
            self._customers[entry.customer] = entry
            return 1
        if isinstance(rows, EventRecord):
            rows = self._customers[entry.customer] = Customer(rows)
        return rows.add(entry)

    def _until(self, known: EventRecord) -> int:
        """Return how many of its customer came in up to an event."""
        rows = self._customers.get(known.customer)
        return rows.until(known) if isinstance(rows, Customer) else 1

    def _row(self, event: Event, row: int | None, end: int | None) -> list[float]:
        """Return the numeric inputs.

        Args:
            event: whose they are.
            row: with which of the snapshot's rows its customer's windows end; None: by time.
            end: after how many of the customer's events since then they end; None: before its time.
        """
        customer = self._customer(event, row, end) if self.base.customers else None
        terminal = self._terminal(event) if self.base.terminals else None
        return self._inputs.row(event, customer, terminal)

    def _customer(self, event: Event, row: int | None, end: int | None) -> WindowTotals:
        assert self.base.customers and event.customer is not None, "the reader sees to it"
        past, time, new = self.base.customers, event.time, self._customers.get(event.customer, NOTHING)
        if isinstance(new, EventRecord):
            new = Customer(new)
        if end is None:
            end = bisect_left(new.times, time)
        rows = past.rows(event.customer, time if time < self.base.until else None, row)
        return sum_windows(self._inputs.customer_edges(time), past, rows, new, end)

    def _terminal(self, event: Event) -> WindowTotals:
        past = self.base.terminals
        assert past and event.terminal is not None, "the reader sees to it"
        last, edges = self._inputs.terminal_edges(event.time)
        owner = past.keys.find(event.terminal)
        counts, positives = past.windows(owner, last, edges)
        if times := self._arrivals.times(event.terminal, last):
            counts = list(map(add, counts, count_windows(times, last, edges)))
        if new := self._positives.get(event.terminal):
            positives = new.correct(positives, last, edges)
        if moved := self._relabeled.get(owner):
            positives = moved.correct(positives, last, edges)
        return counts, positives
