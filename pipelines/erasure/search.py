"""Looks for an entity in the files of a use case, by what each of them is."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from components.ingestion import erased
from nightshift import registry, storage
from nightshift.contracts import section
from nightshift.contracts.erasure import ErasureAction
from nightshift.contracts.online import SUFFIX, Snapshot
from nightshift.contracts.package import MANIFEST
from nightshift.contracts.state import State
from nightshift.erasure import formats, snapshots, tables
from nightshift.erasure.subject import DataSubject
from nightshift.serving import files
from pipelines.erasure.stores import DERIVED, EVENTS, QUARANTINE, SCRATCH, StoredFile, list_folder, list_runs
from pipelines.gc import retention, sweep

KEYS, MANIFEST_SUFFIX = ".parquet.npy", f"{SUFFIX}.json"
REPORT = re.compile(rf"(?:{re.escape(section.SUFFIX)}|/{re.escape(section.PAGE)}|/report(?:\.html)?|/overview)$")
EXAMPLE = re.compile(r"/example\.[a-z]+$")  # request of an endpoint, an image or a text


@dataclass(frozen=True)
class SubjectFile:
    """A file that names an entity.

    Attributes:
        file: the file.
        hits: rows, events or words.
        shows: whether it may show the entity's images or texts, so that it goes as a whole.
    """

    file: StoredFile
    hits: int
    shows: bool = False

    @property
    def action(self) -> ErasureAction:
        """What has to be done to it."""
        if self.file.store == SCRATCH or self.shows:
            return ErasureAction.REMOVED
        is_table = formats.find(self.file.uri) is formats.PARQUET
        is_keyed = self.file.uri.endswith((SUFFIX, MANIFEST_SUFFIX, KEYS))
        return ErasureAction.REWRITTEN if is_table or is_keyed else ErasureAction.REDACTED


def identify(stored: Iterable[StoredFile], subject: DataSubject) -> DataSubject:
    """Return the entity with the ids of its events, which tables without a column of entities hold too."""
    events: set[str] = set()
    for file in stored:
        if file.store in (EVENTS, QUARANTINE, *DERIVED, "landing") and formats.find(file.uri) is formats.PARQUET:
            events |= tables.list_events(tables.read(storage.read_bytes(file.uri)), subject)
    return replace(subject, events=frozenset(events))


def find(stored: Iterable[StoredFile], subject: DataSubject) -> Iterator[SubjectFile]:
    """Yield the files that name an entity, with how often."""
    for file in stored:
        if hits := count(file, subject):
            yield SubjectFile(file, hits)


def find_shown(state: State, use_case: str, findings: Iterable[SubjectFile]) -> Iterator[SubjectFile]:
    """Yield the files that may show images or texts of an entity: reports of runs that read its days, and the example.

    Args:
        state: where things lie.
        use_case: its name.
        findings: files that name the entity.
    """
    days = {retention.find_partition(one.file.uri) for one in findings if one.file.store in (EVENTS, *DERIVED)} - {None}
    folders = [folder for folder in list_runs(state.runs, use_case) if days and _reads(folder, days)]
    for file in (file for folder in folders for file in list_folder("runs", str(folder))):
        if REPORT.search(file.uri):
            yield SubjectFile(file, 1, shows=True)
    if days and not registry.is_remote(state.registry):
        for file in list_folder("endpoint", files.folder(registry.root(state.registry), use_case)):
            if EXAMPLE.search(file.uri):
                yield SubjectFile(file, 1, shows=True)


def _reads(folder: Path, days: Container[str | None]) -> bool:
    """Return whether a run's tables have one of some days."""
    parts = (part for _, manifest in sweep.list_manifests(folder) for part in manifest["partitions"])
    return any(retention.find_partition(part["uri"]) in days for part in parts)


def count(file: StoredFile, subject: DataSubject) -> int:
    """Return how often a file names an entity."""
    if file.uri.endswith(MANIFEST_SUFFIX):
        return int(snapshots.is_example(Snapshot.read(file.uri), subject))
    data = storage.read_bytes(file.uri)
    if file.store == EVENTS and file.uri.endswith(KEYS):
        return erased.count_keys(data, subject)
    if file.uri.endswith(SUFFIX) and storage.exists(f"{file.uri}.json"):
        return snapshots.count(data, Snapshot.read(f"{file.uri}.json"), subject)
    return formats.find(file.uri).count(data, subject)


def is_packaged(uri: str) -> bool:
    """Return whether a file is part of a model, whose manifest has its hash."""
    folder, _, name = uri.rpartition("/")
    return name != MANIFEST and storage.exists(storage.join(folder, MANIFEST))


def count_by_store(findings: Iterable[SubjectFile]) -> dict[tuple[str, ErasureAction], list[SubjectFile]]:
    """Return the files of each store and action."""
    stores: dict[tuple[str, ErasureAction], list[SubjectFile]] = defaultdict(list)
    for one in findings:
        stores[one.file.store, one.action].append(one)
    return stores
