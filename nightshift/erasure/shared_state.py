"""Ids in the online state that servers share in a Redis: keys of events, and members of entities' sets and hashes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from nightshift.contracts.online import Snapshot
from nightshift.data import values
from nightshift.erasure.subject import DataSubject
from nightshift.tabular.declarations import entity_groups
from nightshift.tabular.online.layout import encode_key
from nightshift.tabular.online.shared import answering, name_prefix

if TYPE_CHECKING:
    from redis import Redis

BATCH = 1000  # keys that are read at once


class StoredEvent(NamedTuple):
    """An event: its day and id, its number, and the name of each of its entities."""

    name: str
    number: str
    entities: list[str]


@dataclass(frozen=True)
class SharedState:
    """The state of a use case in a Redis.

    Attributes:
        redis: the server.
        use_case: its name.
        snapshot: manifest of a snapshot of the use case, which says what keys hold.
    """

    redis: "Redis"
    use_case: str
    snapshot: Snapshot

    def identify(self, subject: DataSubject) -> DataSubject:
        """Return an entity with the ids of its events in the state too.

        Raises:
            UnavailableError: when the server does not answer; so do the other methods.
        """
        with answering():
            own = {event.name.partition(":")[2] for event in self._find(subject)}
        return replace(subject, events=subject.events | own)

    def count(self, subject: DataSubject) -> int:
        """Return how many keys and events are an entity's."""
        with answering():
            keys = sum(bool(self.redis.exists(key)) for key in self._list_keys(subject))
            return len([*self._find(subject)]) + keys

    def erase(self, subject: DataSubject) -> None:
        """Remove an entity's events, also from the sets of others that they concern, then its own keys."""
        with answering():
            for event in self._find(subject):
                for number, entity in enumerate(event.entities):
                    self._remove(event, f"{number}:{entity}")
                self.redis.delete(f"{self._prefix}event:{event.name}")
            if keys := self._list_keys(subject):
                self.redis.delete(*keys)

    @property
    def _prefix(self) -> str:
        return name_prefix(self.use_case)

    def _find(self, subject: DataSubject) -> Iterator[StoredEvent]:
        own = {int(key.split(":")[0]): key.partition(":")[2] for key in self._name_entities(subject)}
        keys = [*self.redis.scan_iter(match=f"{self._prefix}event:*", count=BATCH)]
        for first in range(0, len(keys), BATCH):
            batch = keys[first : first + BATCH]
            for key, text in zip(batch, self.redis.mget(batch), strict=True):
                event = self._read(key, text or "")
                is_own = any(event.entities[number : number + 1] == [name] for number, name in own.items())
                if is_own or values.canonical(event.name.partition(":")[2]) in subject.events:
                    yield event

    def _read(self, key: str, text: str) -> StoredEvent:
        number, _, _, *rest = [*text.split(" "), "", "", ""]
        return StoredEvent(key.removeprefix(f"{self._prefix}event:"), number, rest[: len(self._groups)])

    @property
    def _groups(self) -> list[tuple[str, ...]]:
        return [group.entity for group in entity_groups(self.snapshot.features)]

    def _name_entities(self, subject: DataSubject) -> list[str]:
        """Return the number and the name of an entity in each group that is by it alone."""
        number = values.parse_integer(subject.value) if subject.role in self.snapshot.events.integers else None
        name = encode_key(subject.value if number is None else number)
        return [f"{group}:{name}" for group, entity in enumerate(self._groups) if entity == (subject.role,)]

    def _list_keys(self, subject: DataSubject) -> list[str]:
        kinds = ("events", "labels", "labeled")
        return [f"{self._prefix}{kind}:{name}" for kind in kinds for name in self._name_entities(subject)]

    def _remove(self, event: StoredEvent, entity: str) -> None:
        """Remove an event from what is kept of one of its entities."""
        events = f"{self._prefix}events:{entity}"
        members = [text for text in self.redis.zrange(events, 0, -1) if text.split(" ")[0] == event.number]
        if members:
            self.redis.zrem(events, *members)
        self.redis.zrem(f"{self._prefix}labeled:{entity}", event.name)
        self.redis.hdel(f"{self._prefix}labels:{entity}", event.name)
