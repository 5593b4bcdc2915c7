"""Looks for an entity in the files of a use case, by what each of them is."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from components.ingestion import erased
from nightshift import storage
from nightshift.contracts.erasure import ErasureAction
from nightshift.contracts.online import SUFFIX, Snapshot
from nightshift.contracts.package import MANIFEST
from nightshift.erasure import formats, snapshots, tables
from nightshift.erasure.subject import DataSubject
from pipelines.erasure.stores import DERIVED, EVENTS, QUARANTINE, SCRATCH, StoredFile

KEYS, MANIFEST_SUFFIX = ".parquet.npy", f"{SUFFIX}.json"


@dataclass(frozen=True)
class SubjectFile:
    """A file that names an entity.

    Attributes:
        file: the file.
        hits: rows, events or words.
    """

    file: StoredFile
    hits: int

    @property
    def action(self) -> ErasureAction:
        """What has to be done to it."""
        if self.file.store == SCRATCH:
            return ErasureAction.REMOVED
        is_table = formats.find(self.file.uri) is formats.PARQUET
        is_keyed = self.file.uri.endswith((SUFFIX, MANIFEST_SUFFIX, KEYS))
        return ErasureAction.REWRITTEN if is_table or is_keyed else ErasureAction.REDACTED


def identify(files: Iterable[StoredFile], subject: DataSubject) -> DataSubject:
    """Return the entity with the ids of its events, which tables without a column of entities hold too."""
    events: set[str] = set()
    for file in files:
        if file.store in (EVENTS, QUARANTINE, *DERIVED, "landing") and formats.find(file.uri) is formats.PARQUET:
            events |= tables.list_events(tables.read(storage.read_bytes(file.uri)), subject)
    return replace(subject, events=frozenset(events))


def find(files: Iterable[StoredFile], subject: DataSubject) -> Iterator[SubjectFile]:
    """Yield the files that name an entity, with how often."""
    for file in files:
        if hits := count(file, subject):
            yield SubjectFile(file, hits)


def count(file: StoredFile, subject: DataSubject) -> int:
    """Return how often a file names an entity."""
    if file.uri.endswith(MANIFEST_SUFFIX):
        return int(snapshots.is_example(Snapshot.read(file.uri), subject))
    data = storage.read_bytes(file.uri)
    if file.uri.endswith(KEYS):
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
