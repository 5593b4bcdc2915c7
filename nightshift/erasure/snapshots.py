"""Ids in snapshots of the online state: arrays by entity and by event, which stay sorted when rows go."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift import storage
from nightshift.contracts.online import Snapshot
from nightshift.data import values
from nightshift.erasure.subject import DataSubject
from nightshift.tabular.declarations import EntityGroup, entity_groups
from nightshift.tabular.online import snapshot
from nightshift.tabular.online.base import NOWHERE, Keys, name_arrays
from nightshift.tabular.online.event import Id
from nightshift.tabular.online.layout import Integers

Array = npt.NDArray[np.integer[Any]]
Arrays = dict[str, Array]
Mask = npt.NDArray[np.bool_]


def count(data: bytes, manifest: Snapshot, subject: DataSubject) -> int:
    """Return how many of a snapshot's events are an entity's; 1 of a file that is not its manifest's."""
    if storage.sha256(data) != manifest.sha256:  # an erasure was killed between the two
        return 1
    return int(_find_events(read(data, manifest), manifest, subject).sum())


def read(data: bytes, manifest: Snapshot) -> Arrays:
    """Return the arrays of a snapshot's file."""
    return {name: np.frombuffer(data, at.dtype, at.count, at.offset) for name, at in manifest.arrays.items()}


def erase(uri: str, data: bytes, manifest: Snapshot, subject: DataSubject) -> None:
    """Write a snapshot without the events of an entity: what the same days give where it never was.

    Args:
        uri: where it is to lie.
        data: the file with the events.
        manifest: its manifest.
        subject: the entity.
    """
    arrays = read(data, manifest)
    own = _find_events(arrays, manifest, subject)
    groups = entity_groups(manifest.features)
    kept = {name: array for number, group in enumerate(groups) for name, array in _keep(arrays, number, group, own)}
    index: Arrays = {name: arrays[name][~own] for name in ("events", "events_check") if name in arrays}
    rows = {f"event_rows_{number}": _renumber(arrays[f"event_rows_{number}"], own) for number in range(len(groups))}
    left = {group.name: len(kept[name_arrays(number)]) for number, group in enumerate(groups)}
    example = None if is_example(manifest, subject) else manifest.example
    described = {"rows": manifest.rows - int(own.sum()), "entities": left, "example": example}
    snapshot.write(uri, {**kept, **index, **rows}, manifest.model_copy(update=described))


def _find_events(arrays: Arrays, manifest: Snapshot, subject: DataSubject) -> Mask:
    """Return which positions in the index of events are an entity's, bool (n,)."""
    groups = entity_groups(manifest.features)
    own = np.zeros(len(arrays["events"]) if groups else 0, bool)
    if not groups:
        return own
    ids = Keys(_views(arrays), "events")
    for event in subject.events:
        own[[*ids.find_all(_type_id(event, "event_id", manifest))]] = True
    for number, group in enumerate(groups):
        if group.entity == (subject.role,):
            owner = Keys(_views(arrays), name_arrays(number)).find(_type_id(subject.value, subject.role, manifest))
            if owner != NOWHERE:
                first, end = arrays[f"{name_arrays(number)}_starts"][owner : owner + 2]
                rows = arrays[f"event_rows_{number}"]
                own |= (rows >= first) & (rows < end)
    return own


def _views(arrays: Arrays) -> dict[str, Integers]:
    return {name: array.data for name, array in arrays.items()}


def _type_id(value: str, role: str, manifest: Snapshot) -> Id:
    """Return an id as the events of a snapshot have it."""
    number = values.parse_integer(value) if role in manifest.events.integers else None
    return value if number is None else number


def is_example(manifest: Snapshot, subject: DataSubject) -> bool:
    """Return whether the example of a snapshot is an entity's."""
    event: Mapping[str, object] = manifest.example.event if manifest.example else {}
    return values.canonical(event.get(subject.column)) == subject.value


def _keep(arrays: Arrays, number: int, group: EntityGroup, own: Mask) -> Iterator[tuple[str, Array]]:
    """Yield the arrays of a group of features without some events."""
    name = name_arrays(number)
    starts = arrays[f"{name}_starts"]
    rows = np.ones(starts[-1], bool)
    rows[arrays[f"event_rows_{number}"][own]] = False
    counts = np.bincount(np.repeat(np.arange(len(starts) - 1), np.diff(starts))[rows], minlength=len(starts) - 1)
    for keys in (name, f"{name}_check"):
        if keys in arrays:
            yield keys, arrays[keys][counts > 0]
    left = _accumulate(counts[counts > 0])
    yield f"{name}_starts", left
    yield f"{name}_times", arrays[f"{name}_times"][rows]
    for column in group.numbers:
        for totals in (f"{name}_totals_{column}", f"{name}_squares_{column}"):
            if totals in arrays:
                yield totals, _accumulate(np.diff(arrays[totals])[rows])
    for column in group.categories:
        yield f"{name}_values_{column}", arrays[f"{name}_values_{column}"][rows]
    if group.reads_labels:
        labels = arrays[f"{name}_labels"][rows]
        yield f"{name}_labels", labels
        yield f"{name}_positive_starts", _accumulate(labels == 1)[left]
        yield f"{name}_positive_times", arrays[f"{name}_times"][rows][labels == 1]


def _accumulate(counts: Array | Mask) -> Array:
    return np.concatenate([np.zeros(1, "int64"), np.cumsum(counts, dtype="int64")])


def _renumber(rows: Array, own: Mask) -> Array:
    """Return the rows of the events that stay, counted without those of the others."""
    stays = np.ones(len(rows), bool)
    stays[rows[own]] = False
    numbers: Array = np.cumsum(stays) - 1
    return numbers[rows[~own]].astype(rows.dtype)
