"""The objects, their versions, and what has happened to them."""

import copy
import threading
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from nightshift_testkit.cluster.kinds import Json, ResourceKind
from nightshift_testkit.cluster.problems import StatusError, missing

HISTORY = 2000  # events that a watch can still begin at


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Change:
    """One change of one object; `before` is None when it is new, `after` when it is gone."""

    version: int
    kind: ResourceKind
    before: Json | None
    after: Json | None

    @property
    def last(self) -> Json:
        latest = self.after or self.before
        assert latest
        return latest


class ResourceStore:
    """Guards its objects with `changed`, which is notified of every change.

    What it returns is not to be changed, but for what `get` and `copies` return, which are copies.
    """

    def __init__(self, history: int = HISTORY) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = 1
        self.oldest = 1
        self._history: deque[Change] = deque(maxlen=history)
        self._objects: dict[ResourceKind, dict[tuple[str, str], Json]] = {}

    def peek(self, kind: ResourceKind, name: str, namespace: str = "") -> Json | None:
        """The object itself, to read."""
        return self._by_name(kind).get((namespace, name))

    def get(self, kind: ResourceKind, name: str, namespace: str = "") -> Json:
        with self.changed:
            value = self.peek(kind, name, namespace)
            if value is None:
                raise missing(kind, name)
            return copy.deepcopy(value)

    def copies(self, kind: ResourceKind, namespace: str = "") -> list[Json]:
        """All of a namespace, or of the cluster, by name."""
        with self.changed:
            return copy.deepcopy(list(self.select(kind, namespace)))

    def select(self, kind: ResourceKind, namespace: str = "") -> Iterator[Json]:
        """The objects themselves, to read."""
        with self.changed:
            objects = sorted(self._by_name(kind).items())
        return (value for (object_namespace, _), value in objects if namespace in ("", object_namespace))

    def kinds(self) -> list[ResourceKind]:
        """Those that there are objects of."""
        with self.changed:
            return list(self._objects)

    def add(self, kind: ResourceKind, value: Json) -> Json:
        meta = value["metadata"]
        with self.changed:
            if self.peek(kind, meta["name"], meta.get("namespace", "")):
                raise StatusError(409, f'{kind.resource} "{meta["name"]}" already exists', reason="AlreadyExists")
            meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": now(), "generation": 1}
            return self._write(kind, None, value)

    def replace(self, kind: ResourceKind, value: Json) -> Json:
        """Put another version into an object's place.

        Raises:
            StatusError: when it is not there, or was changed after the version that `value` names.
        """
        meta = value["metadata"]
        with self.changed:
            before = self.peek(kind, meta["name"], meta.get("namespace", ""))
            if before is None:
                raise missing(kind, meta["name"])
            if (
                meta.get("resourceVersion", before["metadata"]["resourceVersion"])
                != before["metadata"]["resourceVersion"]
            ):
                raise conflict(kind, meta["name"])
            return before if value == before else self._write(kind, before, value)

    def remove(self, kind: ResourceKind, value: Json) -> None:
        meta = value["metadata"]
        with self.changed:
            before = self._by_name(kind).pop((meta.get("namespace", ""), meta["name"]), None)
            if before is not None:
                self._note(kind, before, None)

    def since(self, version: int) -> list[Change]:
        """What happened after a version.

        Raises:
            StatusError: 410, when it is forgotten.
        """
        with self.changed:
            if version < self.oldest - 1:
                raise StatusError(410, f"too old resource version: {version} ({self.version})")
            return [change for change in self._history if change.version > version]

    def forget(self) -> None:
        """Compact the history, as etcd does every five minutes."""
        with self.changed:
            self._history.clear()
            self.oldest = self.version + 1

    def _by_name(self, kind: ResourceKind) -> dict[tuple[str, str], Json]:
        return self._objects.setdefault(kind, {})

    def _write(self, kind: ResourceKind, before: Json | None, value: Json) -> Json:
        after = copy.deepcopy(value)
        meta = after["metadata"]
        meta["resourceVersion"] = str(self.version + 1)
        self._by_name(kind)[(meta.get("namespace", ""), meta["name"])] = after
        self._note(kind, before, after)
        return after

    def _note(self, kind: ResourceKind, before: Json | None, after: Json | None) -> str:
        self.version += 1
        if len(self._history) == self._history.maxlen:
            self.oldest = self._history[0].version + 1
        self._history.append(Change(self.version, kind, before, after))
        self.changed.notify_all()
        return str(self.version)


def conflict(kind: ResourceKind, name: str) -> StatusError:
    detail = "the object has been modified; please apply your changes to the latest version and try again"
    return StatusError(409, f'Operation cannot be fulfilled on {kind.resource} "{name}": {detail}')
