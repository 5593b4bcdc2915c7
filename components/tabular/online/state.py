"""The past of a snapshot and what has come in since: takes events and labels, and says what the windows hold."""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from typing import NamedTuple

from components.common.errors import UserError
from components.tabular.online.base import NOWHERE, Base, Found, counted, within
from components.tabular.online.event import Event, Id
from components.tabular.online.inputs import Inputs, added, minus, plus
from components.tabular.windows import DAY, LARGEST_SUM

UNKNOWN = -1  # what a snapshot has for a label that was not known


class Entry(NamedTuple):
    """What is kept of an event; the amount in minor units."""

    event_id: Id
    time: int
    customer: Id | None
    terminal: Id | None
    units: int
    label: int | None


class Label(NamedTuple):
    """A label that has arrived for an event of the time's UTC day."""

    event_id: Id
    time: int
    label: int


NONE: dict[Id, Entry] = {}


class Customer:
    """A customer's events since the snapshot, in order of time; `totals` are cumulative, one more than events."""

    __slots__ = ("ids", "times", "totals")

    def __init__(self) -> None:
        self.ids: list[Id] = []
        self.times, self.totals = array("q"), array("q", [0])

    def add(self, entry: Entry) -> int:
        """Put an event in its place, after those of its time; return how many there are up to it."""
        at = bisect_right(self.times, entry.time)
        self.ids.insert(at, entry.event_id)
        self.times.insert(at, entry.time)
        self.totals.insert(at + 1, self.totals[at] + entry.units)
        for later in range(at + 2, len(self.totals)):
            self.totals[later] += entry.units
        return at + 1

    def until(self, entry: Entry) -> int:
        """Return how many events there are up to one of them."""
        return self.ids.index(entry.event_id, bisect_left(self.times, entry.time)) + 1


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


class Terminal(Positives):
    """A terminal's events since the snapshot, in order of time."""

    __slots__ = ("times",)

    def __init__(self) -> None:
        super().__init__()
        self.times = array("q")


class State:
    """Answers events; not safe for threads.

    Attributes:
        base: the snapshot.
    """

    def __init__(self, base: Base) -> None:
        spec = base.snapshot.windows
        self.base = base
        self._inputs = Inputs(spec)
        self._entries: dict[int, dict[Id, Entry]] = defaultdict(dict)  # by UTC day
        self._labels: dict[tuple[int, Id], int] = {}  # those that came in
        self._customers: dict[Id | None, Customer] = defaultdict(Customer)
        self._terminals: dict[Id | None, Terminal] = defaultdict(Terminal)
        self._relabeled: dict[int, Positives] = defaultdict(Positives)  # by a terminal's place in the snapshot
        self._sum = base.customers.totals[-1] if base.customers else 0

    def take(self, event: Event) -> tuple[list[float], Entry | None]:
        """Take an event in, unless it is known.

        Returns:
            its numeric inputs in the order of `windows.numeric_inputs`, and what to keep of it; None when it is known.

        Raises:
            UserError: when it is older than the snapshot's last day, known as another one, or its amount is too large.
        """
        if not (self.base.customers or self.base.terminals):
            return self._row(event, None, None), None
        day = event.time // DAY
        if known := self._entries.get(day, NONE).get(event.event_id):
            self._check(event, known)
            end = self._customers[known.customer].until(known) if self.base.customers else 0
            return self._row(event, None, end), None
        if event.time < self.base.until and (place := self._in_base(event, day)) != NOWHERE:
            return self._row(event, self.base.customer_row(place), None), None
        entry = self._entry(event)
        return self._row(event, None, self.add(entry)), entry

    def add(self, entry: Entry) -> int:
        """Take in an event that is not known; return how many of its customer came in up to it."""
        self._entries[entry.time // DAY][entry.event_id] = entry
        self._sum += entry.units
        if self.base.terminals:
            insort(self._terminals[entry.terminal].times, entry.time)
        if entry.label is not None:
            self.label(Label(entry.event_id, entry.time, entry.label))
        return self._customers[entry.customer].add(entry) if self.base.customers else 0

    def label(self, label: Label) -> bool:
        """Take a label in; return whether its event is known."""
        day = label.time // DAY
        key, terminals = (day, label.event_id), self.base.terminals
        if entry := self._entries.get(day, NONE).get(label.event_id):
            moved: Positives = self._terminals[entry.terminal]
            time, first = entry.time, UNKNOWN
        elif (place := self.base.place(label.event_id, day)) != NOWHERE and terminals:
            row = self.base.terminal_row(place)
            time, first = terminals.times[row], terminals.labels[row]
            moved = self._relabeled[terminals.of(row)]
        else:
            return place != NOWHERE
        before = self._labels.get(key, first)
        self._labels[key] = label.label
        if (before == 1) != (label.label == 1):
            moved.change(time, label.label == 1, first == 1)
        return True

    def covers(self, record: Entry | Label) -> bool:
        """Return whether the snapshot makes superfluous what came in over an earlier one."""
        if record.time >= self.base.until:
            return False
        if isinstance(record, Entry):
            return True
        place, terminals = self.base.place(record.event_id, record.time // DAY), self.base.terminals
        return place == NOWHERE or not terminals or terminals.labels[self.base.terminal_row(place)] != UNKNOWN

    def restore(self, record: Entry | Label) -> None:
        """Take in what a log holds."""
        if isinstance(record, Entry):
            self.add(record)
        else:
            self.label(record)

    def _entry(self, event: Event) -> Entry:
        if event.time < self.base.oldest:
            raise UserError(
                f"event {event.event_id!r} is of a day before {self.base.snapshot.last}, the first whose windows the "
                "state covers; send newer events"
            )
        entry = Entry(
            event.event_id, event.time, event.customer, event.terminal, self._inputs.units(event.amount), event.label
        )
        if self._sum + entry.units >= LARGEST_SUM:
            raise UserError(f"amount {event.amount:g} is too large to be summed exactly; check its unit")
        return entry

    def _check(self, event: Event, known: Entry) -> None:
        """Refuse an event whose id another one has."""
        given = (event.time, event.customer, event.terminal, self._inputs.units(event.amount))
        if given != (known.time, known.customer, known.terminal, known.units):
            raise _another(event)

    def _in_base(self, event: Event, day: int) -> int:
        """Return the place of an event in the snapshot, `NOWHERE` if it is not there; refuse another one of its id."""
        place = self.base.place(event.event_id, day)
        if place == NOWHERE:
            return NOWHERE
        customers, terminals = self.base.customers, self.base.terminals
        same = self.base.time(place) == event.time
        if customers:
            row, owner = self.base.customer_row(place), customers.keys.find(event.customer or 0)
            same &= owner != NOWHERE and customers.starts[owner] <= row < customers.starts[owner + 1]
            same &= customers.totals[row + 1] - customers.totals[row] == self._inputs.units(event.amount)
        if terminals:
            row = self.base.terminal_row(place)
            same &= terminals.of(row) == terminals.keys.find(event.terminal or 0)
        if not same:
            raise _another(event)
        return place

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

    def _customer(self, event: Event, row: int | None, end: int | None) -> Found:
        assert self.base.customers and event.customer is not None, "the reader sees to it"
        edges = self._inputs.customer_edges(event.time)
        last = event.time if event.time < self.base.until else None
        found = self.base.customers.windows(event.customer, last, edges, row)
        if rows := self._customers.get(event.customer):
            high = bisect_left(rows.times, event.time) if end is None else end
            return added(found, within(rows.times, rows.totals, 0, high, edges))
        return found

    def _terminal(self, event: Event) -> Found:
        assert self.base.terminals and event.terminal is not None, "the reader sees to it"
        last, edges = self._inputs.terminal_edges(event.time)
        counts, positives = [0] * len(edges), [0] * len(edges)
        owner = self.base.terminals.keys.find(event.terminal)
        if owner != NOWHERE:
            counts, positives = self.base.terminals.windows(owner, last, edges)
        seen, moved = self._terminals.get(event.terminal), self._relabeled.get(owner)
        if seen:
            counts = plus(counts, counted(seen.times, 0, len(seen.times), last, edges))
        for each in filter(None, (seen, moved)):
            positives = plus(positives, counted(each.added, 0, len(each.added), last, edges))
            positives = minus(positives, counted(each.retracted, 0, len(each.retracted), last, edges))
        return counts, positives


def _another(event: Event) -> UserError:
    return UserError(
        f"event {event.event_id!r} is known with another time, customer, terminal or amount; an event does not change, "
        "and another one needs an id of its own"
    )
