"""How many bytes the online state takes for some declared features: what `snapshot.arrays` writes, without writing it.

A snapshot keeps every event of the days that windows reach back to once for each entity: its time, and the numbers,
squares and values that the entity's features are made of. What comes in later is kept in memory besides.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from nightshift.config.tabular import TableConfig
from nightshift.contracts.preprocessing import FeatureSpec
from nightshift.runtime.errors import UserError
from nightshift.tabular.declarations import EntityGroup, entity_groups

WORD = 8  # bytes of a time, a number, a square, a value, half of a key
MEGABYTE = 10**6
ENOUGH_EVENTS = 1000  # among which one entity at least has two
LABEL, ROW = 1, 4  # bytes of an event's label, and of its row in an entity's order


@dataclass(frozen=True)
class EventCounts:
    """What there is of the days that windows reach back to.

    Attributes:
        events: how many.
        positives: those with a positive label.
        entities: name of an entity -> how many different ones there are.
        texts: columns of identifiers and categories that are no whole numbers.
    """

    events: int
    positives: int
    entities: Mapping[str, int]
    texts: frozenset[str]

    @classmethod
    def from_frame(cls, events: pd.DataFrame, spec: FeatureSpec) -> "EventCounts":
        """Count canonical events with the columns of a declaration."""
        names = {name for group in entity_groups(spec) for name in group.entity} | {"event_id"}
        texts = frozenset(name for name in names if not pd.api.types.is_integer_dtype(events[name]))
        entities = {group.name: len(events[list(group.entity)].drop_duplicates()) for group in entity_groups(spec)}
        positives = int((events["label"].fillna(0) == 1).sum())
        return cls(len(events), positives, entities, texts)


def count_least(events: int, spec: FeatureSpec) -> EventCounts:
    """Return counts of some events of which nothing else is known: the state takes as much at least."""
    return EventCounts(events, 0, {group.name: 0 for group in entity_groups(spec)}, frozenset())


@dataclass(frozen=True)
class EntitySize:
    """The state of one entity's features.

    Attributes:
        group: the features.
        entities: how many different ones there are.
        events: of all of them.
        size: bytes.
    """

    group: EntityGroup
    entities: int
    events: int
    size: int

    @property
    def per_entity(self) -> float:
        """Bytes of one."""
        return self.size / max(self.entities, 1)

    def __str__(self) -> str:
        name = " x ".join(self.group.entity)
        return f"{name}: {self.entities:,} x {self.per_entity:,.0f} bytes"


def count_event_bytes(group: EntityGroup) -> int:
    """Return how many bytes an entity's features keep of an event."""
    words = 1 + len(group.numbers) + len(group.square_columns) + len(group.categories)
    return words * WORD + ROW + (LABEL if group.reads_labels else 0)


def measure_entities(spec: FeatureSpec, counts: EventCounts) -> list[EntitySize]:
    """Return the size of each entity's state, in the order of the declaration."""
    return [
        EntitySize(group, counts.entities[group.name], counts.events, _measure(group, counts))
        for group in entity_groups(spec)
    ]


def measure_index(counts: EventCounts) -> int:
    """Return the bytes of the events' ids, by which a repeated one is known."""
    return counts.events * _key_bytes(("event_id",), counts.texts)


def _measure(group: EntityGroup, counts: EventCounts) -> int:
    entity = _key_bytes(group.entity, counts.texts) + WORD * (2 if group.reads_labels else 1)
    positives = counts.positives * WORD if group.reads_labels else 0
    return counts.entities[group.name] * entity + counts.events * count_event_bytes(group) + positives


def _key_bytes(names: tuple[str, ...], texts: frozenset[str]) -> int:
    """A text's hash, and that of several columns, has two halves."""
    return WORD * (2 if len(names) > 1 or names[0] in texts else 1)


def find_line(config: TableConfig, group: EntityGroup) -> int:
    """Return the number of the first line that declares features of an entity."""
    roles = {column.name: column.role for column in config.columns.read}
    entities = [[roles.get(name, name) for name in line.entities] for line in config.features]
    lines = [number for number, entity in enumerate(entities) if tuple(entity) == group.entity]
    presets = [number for number, line in enumerate(config.features) if line.kind == "preset"]
    return min([*lines, *presets])


def require_room(config: TableConfig, counts: EventCounts) -> None:
    """Check that the state is as small as the config allows.

    Raises:
        UserError: naming the largest entity's line and what to write.
    """
    parts = measure_entities(config.feature_spec, counts)
    total = sum(part.size for part in parts) + measure_index(counts) if parts else 0
    needed, allowed = math.ceil(total / MEGABYTE), config.task.state_megabytes
    if needed > allowed:
        largest = max(parts, key=lambda part: part.size)
        longest = max(config.feature_spec.features, key=lambda feature: feature.length + feature.offset)
        raise UserError(
            f"features.{find_line(config, largest.group)}: the declared features need {needed:,} MB of online state "
            f"for {counts.events:,} events, of which {' x '.join(largest.group.entity)} takes "
            f"{math.ceil(largest.size / MEGABYTE):,}, and task.state_megabytes allows {allowed:,}; give windows "
            f"shorter than that of {longest.name}, leave lines out, or set task.state_megabytes: {needed}"
        )


def require_repeats(config: TableConfig, counts: EventCounts) -> None:
    """Check that some events are of the same entity, or else its windows hold none before the event.

    Raises:
        UserError: naming the entity's line and what to write.
    """
    for group in entity_groups(config.feature_spec):
        if counts.events >= ENOUGH_EVENTS and counts.entities[group.name] == counts.events:
            raise UserError(
                f"features.{find_line(config, group)}.entity: no two of {counts.events:,} events have the same "
                f"{' x '.join(group.entity)}, so its windows hold no earlier event; leave the line out, or name a "
                "column whose values repeat"
            )
