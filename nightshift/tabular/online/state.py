"""The past of a snapshot and what has come in since: takes events and labels, and says what the windows hold."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from nightshift.runtime.errors import UserError
from nightshift.tabular.online.base import NOWHERE, Base
from nightshift.tabular.online.event import Event, Id
from nightshift.tabular.online.inputs import EventInputs
from nightshift.tabular.online.layout import EventRecord
from nightshift.tabular.online.limits import NOW, Clock, EventGuard
from nightshift.tabular.online.overlay import Overlay, Positives
from nightshift.tabular.online.refusals import RefusedEventError, another, too_old
from nightshift.tabular.online.window import History
from nightshift.tabular.windows import DAY

UNKNOWN = -1  # what a snapshot has for a label that was not known


class Label(NamedTuple):
    """A label that has arrived for an event of the time's UTC day."""

    event_id: Id
    time: int
    label: int


NONE: dict[Id, EventRecord] = {}


class OnlineState:
    """Answers events; not safe for threads.

    Attributes:
        base: the snapshot.
    """

    def __init__(self, base: Base, clock: Clock = NOW) -> None:
        self.base, self._limits = base, EventGuard(base.snapshot, clock)
        self._inputs = EventInputs(base.snapshot.features, base.layout.scales)
        self._records: dict[int, dict[Id, EventRecord]] = defaultdict(dict)  # by UTC day
        self._changed: dict[tuple[int, Id], bool] = {}  # whether events are positive that the snapshot says are not
        # a single event stands for itself: most keys have no more between two snapshots, and it takes less memory
        self._overlays: list[dict[Id, Overlay | EventRecord]] = [{} for _ in base.layout.groups]
        self._empty = [Overlay(layout) for layout in base.layout.groups]
        # by group: of the events since the snapshot, and by an entity's index in the snapshot
        self._positives: list[dict[Id, Positives]] = [defaultdict(Positives) for _ in base.layout.groups]
        self._relabeled: list[dict[int, Positives]] = [defaultdict(Positives) for _ in base.layout.groups]

    def check(self, events: Sequence[Event]) -> None:
        """Check a request's events before the first one is taken in.

        Raises:
            RefusedEventError: for what `take` would raise.
        """
        records: dict[tuple[int, Id], EventRecord] = {}
        for number, event in enumerate(events):
            try:
                record, *_ = self._check_event(event)
                if record != records.setdefault((event.time // DAY, event.event_id), record):
                    raise another(event.event_id, self.base.layout.columns)
            except UserError as error:
                raise RefusedEventError(number, error) from None

    def take(self, event: Event) -> tuple[list[float], EventRecord | None]:
        """Take an event in, unless it is known.

        Returns:
            its numeric inputs in the order of `declarations.numeric_inputs`, and what to keep of it; None when it is
            known.

        Raises:
            UserError: when it is over a limit, older than the snapshot's last day, or known as another one.
        """
        record, known, index = self._check_event(event)
        is_new = self.base.is_stateful and not known and index == NOWHERE
        if is_new:
            self.add(record)
        return self._inputs.row(event, self._histories(record, index)), record if is_new else None

    def add(self, record: EventRecord) -> None:
        """Take in an event that is not known."""
        self._records[record.time // DAY][record.event_id] = record
        for layout, overlays in zip(self.base.layout.groups, self._overlays, strict=True):
            key = layout.key(record)
            overlay = overlays.get(key)
            if overlay is None:
                overlays[key] = record
            elif isinstance(overlay, EventRecord):
                overlays[key] = Overlay(layout, overlay, record)
            else:
                overlay.add(record)

    def label(self, label: Label) -> bool:
        """Take a label in; return whether its event is known."""
        day = label.time // DAY
        record = self._records.get(day, NONE).get(label.event_id)
        index = NOWHERE if record else self.base.locate(label.event_id, day)
        if not record and index == NOWHERE:
            return False
        if self.base.labeled:
            self._relabel((day, label.event_id), label.label == 1, record, index)
        return True

    def _relabel(self, key: tuple[int, Id], is_positive: bool, record: EventRecord | None, index: int) -> None:
        """Note an event's label: of a record since the snapshot, or of the snapshot's event at an index."""
        was_first = not record and self.base.label(index) == 1
        if is_positive != self._changed.get(key, was_first):
            time = record.time if record else self.base.time(index)
            for group in self.base.labeled:
                self._find_positives(group, record, index).change(time, is_positive, was_first)
        if is_positive != was_first:
            self._changed[key] = is_positive
        else:
            self._changed.pop(key, None)

    def _find_positives(self, group: int, record: EventRecord | None, index: int) -> Positives:
        if record:
            return self._positives[group][self.base.layout.groups[group].key(record)]
        history = self.base.histories[group]
        return self._relabeled[group][history.find_owner(self.base.row(group, index))]

    def covers(self, record: EventRecord | Label) -> bool:
        """Return whether the snapshot makes superfluous what came in over an earlier one."""
        if record.time >= self.base.until:
            return False
        if isinstance(record, EventRecord):
            return True
        index = self.base.locate(record.event_id, record.time // DAY)
        return index == NOWHERE or not self.base.labeled or self.base.label(index) != UNKNOWN

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
        record = self.base.layout.record(event)
        known = self._records.get(time // DAY, NONE).get(event_id)
        if known and known != record:
            raise another(event_id, self.base.layout.columns)
        index = NOWHERE if known or time >= self.base.until else self.base.find(record)
        return record, known, index

    def _histories(self, record: EventRecord, index: int) -> list[History]:
        """Return the histories of an event's entities up to it; its index in the snapshot, or `NOWHERE`."""
        return [self._history(group, record, index) for group in range(len(self._overlays))]

    def _history(self, group: int, record: EventRecord, index: int) -> History:
        layout, past, time = self.base.layout.groups[group], self.base.histories[group], record.time
        key = layout.key(record)
        overlay = self._overlays[group].get(key, self._empty[group])
        new = Overlay(layout, overlay) if isinstance(overlay, EventRecord) else overlay
        owner, is_past = past.keys.find(key), index != NOWHERE
        row = self.base.row(group, index) if is_past else None
        low, high = past.locate(owner, time if time < self.base.until else None, row)
        end = bisect_left(new.times, time) if is_past else new.until(record)
        corrections = (self._positives[group].get(key), self._relabeled[group].get(owner))
        return History(record, past, owner, low, high, new, end, is_past, [some for some in corrections if some])
