"""What the online state keeps of an event: its identifiers and categories, and its numbers in whole units."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from nightshift.contracts.online import Events
from nightshift.contracts.preprocessing import FeatureSpec
from nightshift.tabular.declarations import EntityGroup, decimals, entity_groups, state_columns
from nightshift.tabular.online.event import Event, Id

Integers = Sequence[int]  # memoryviews and arrays of integers are such


class EventRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is kept of an event; its columns are those of a `RecordLayout`, numbers in whole units."""

    event_id: Id
    time: int
    columns: list[Id]


class GroupLayout:
    """Where the columns of an entity's features lie in a record."""

    def __init__(self, group: EntityGroup, columns: Sequence[str]) -> None:
        self.group = group
        self._entity = [columns.index(name) for name in group.entity]
        self._values = {name: columns.index(name) for name in group.categories}
        self._numbers = {name: columns.index(name) for name in group.numbers}

    def key(self, record: EventRecord) -> Id:
        """Return the entity of a record's event: a column's value, or one text for several."""
        columns, (first, *further) = record.columns, self._entity
        return join_key([columns[first], *(columns[index] for index in further)]) if further else columns[first]

    def columns(self, record: EventRecord) -> list[int]:
        """Return the numbers that stand for values, then the whole numbers."""
        columns = record.columns
        whole = [columns[index] for index in self._numbers.values()]
        return [*(encode_value(columns[index]) for index in self._values.values()), *whole] if self._values else whole  # type: ignore[return-value,list-item]

    def values(self, record: EventRecord) -> dict[str, int]:
        """Return column -> a number that stands for the value."""
        return {name: encode_value(record.columns[index]) for name, index in self._values.items()}

    def numbers(self, record: EventRecord) -> dict[str, int]:
        """Return column -> number in whole units."""
        return {name: record.columns[index] for name, index in self._numbers.items()}  # type: ignore[misc]


class RecordLayout:
    """The columns that are kept of an event, and how they follow from it.

    Attributes:
        columns: their names: identifiers and categories, then numbers.
        groups: where each entity's lie.
        keeps_categories: whether some are categories.
        scales: column of numbers -> units in one.
    """

    def __init__(self, spec: FeatureSpec, events: Events) -> None:
        groups = entity_groups(spec)
        values, numbers = state_columns(groups)
        self.columns = [*values, *numbers]
        self.keeps_categories = not {*values}.isdisjoint(events.categorical)
        self.groups = [GroupLayout(group, self.columns) for group in groups]
        self.scales = {name: 10 ** decimals(spec, name) for name in numbers}
        getters = [_getter(name, events) for name in self.columns]
        self._values, self._numbers = (
            getters[: len(values)],
            list(zip(getters[len(values) :], self.scales.values(), strict=True)),
        )

    def record(self, event: Event) -> EventRecord:
        """Return what is kept of an event."""
        columns = [get(event) for get in self._values]
        columns += [round(get(event) * scale) for get, scale in self._numbers]
        return EventRecord(event.event_id, event.time, columns)


def _getter(name: str, events: Events) -> Callable[[Event], Any]:
    for field in ("numeric", "categorical"):
        names = getattr(events, field)
        if name in names:
            read, item = attrgetter(field), itemgetter(names.index(name))
            return lambda event: item(read(event))
    return attrgetter(name)


def halves(key: str) -> tuple[int, int]:
    """Return a text as two int64; two texts of 5 million share both with a probability of 4e-26."""
    digest = blake2b(key.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little", signed=True), int.from_bytes(digest[8:], "little", signed=True)


def encode_key(key: Id) -> str:
    """Return what a key is called in a shared store: a number is itself, a text its hash."""
    return str(key) if isinstance(key, int) else "{}:{}".format(*halves(key))


def encode_value(value: Id) -> int:
    """Return the int64 that stands for a value: a number itself, the first half of a text's hash."""
    return value if isinstance(value, int) else halves(value)[0]


def join_key(values: Sequence[Id]) -> str:
    """Return one text for several values, which no other values have: each begins with its length."""
    return "".join(f"{len(text)}:{text}" for text in map(str, values))
