"""Replaces an entity's files, in an order that makes a second attempt do what a killed one has left.

What identifies an entity's events, the days of events, goes last. Whatever replaces a file has a name that follows from
the old one and the decision, so a second attempt writes the same files again.
"""

from dataclasses import asdict, dataclass, field, replace

from components.ingestion import erased
from nightshift import storage
from nightshift.contracts.erasure import ErasedEntity, ErasureAction
from nightshift.contracts.online import SUFFIX, Snapshot
from nightshift.contracts.tables import Manifest, Partition, find_partition
from nightshift.erasure import formats, listing, snapshots, tables
from pipelines.erasure import search, stores
from pipelines.erasure.online import ErasableState
from pipelines.erasure.request import ErasureRequest
from pipelines.erasure.search import SubjectFile
from pipelines.erasure.stores import DERIVED, EVENTS, ONLINE, QUARANTINE
from pipelines.gc import retention, sweep


@dataclass
class Erasure:
    """An erasure under way.

    Attributes:
        request: what is asked for.
        entry: the list's, which names the decision.
        findings: files that name the entity.
        states: online states.
        moved: name of a partition, as `retention.find_partition` says it -> what replaces it.
        outdated: files that something replaces, to be removed in this order.
        renamed: tombstones of days of events, see `ErasureList.renamed`.
    """

    request: ErasureRequest
    entry: ErasedEntity
    findings: list[SubjectFile]
    states: list[ErasableState]
    moved: dict[str, Partition] = field(default_factory=dict)
    outdated: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)

    def list_uris(self, *tables: str) -> list[str]:
        """Return the files of some tables that name the entity."""
        return [finding.file.uri for finding in self.findings if finding.file.store in tables]

    def rename(self, uri: str, purpose: str = "") -> str:
        """Return where what replaces a partition lies: its name is a hash of the old one and the decision."""
        folder, _, name = uri.rpartition("/")
        key = storage.fingerprint([name, self.entry.decision, purpose])[: listing.KEY]
        return storage.join(folder, f"{key}.parquet")


def erase(erasure: Erasure) -> None:
    """Write what replaces a file, then remove it; what identifies the entity's events goes last."""
    state, name = erasure.request.state, erasure.request.config.name
    for uri in erasure.list_uris(*DERIVED):
        if uri.endswith(".parquet"):
            _replace_derived(erasure, uri)
    for uri in dict.fromkeys(map(_events_uri, erasure.list_uris(EVENTS, QUARANTINE))):
        _replace_day(erasure, uri)
    renamed = erasure.renamed
    listing.change(state.lake, name, lambda known: known.model_copy(update={"renamed": known.renamed | renamed}))
    for finding in erasure.findings:
        _change_in_place(erasure, finding)
    _rename_in_manifests(erasure)  # by which the runs were found whose reports may show the entity
    for one in erasure.states:
        one.erase(erasure.request.subject)
    for uri in [*_list_spares(erasure), *erasure.outdated]:
        storage.remove(uri)


def _events_uri(uri: str) -> str:
    """Return the Parquet file of the day of events to which a file belongs."""
    return _beside(uri, EVENTS).removesuffix(".json").removesuffix(".npy")


def _beside(uri: str, table: str) -> str:
    """Return the file of the same day and name in another table."""
    lake, _, day, name = uri.rsplit("/", 3)
    return storage.join(lake, table, day, name)


def _replace_derived(erasure: Erasure, uri: str) -> None:
    """Write a day of features or scores anew; a run makes it from other events, and looks elsewhere."""
    partition = find_partition(uri)
    if partition:
        before, subject = storage.read_bytes(uri), erasure.request.subject
        data = formats.PARQUET.without(before, subject)
        rows = partition.rows - formats.PARQUET.count(before, subject)
        new = replace(partition, uri=erasure.rename(uri), rows=rows, sha256=storage.sha256(data))
        storage.write_bytes(new.uri, data)
        if storage.exists(shard := f"{uri}.npy"):
            storage.write_bytes(f"{new.uri}.npy", tables.without_beside(storage.read_bytes(shard), before, subject))
        storage.write_json(f"{new.uri}.json", asdict(new))
        _note(erasure, uri, new)
    erasure.outdated[:0] = [f"{uri}.json", f"{uri}.npy", uri]


def _replace_day(erasure: Erasure, uri: str) -> None:
    """Write a day of events anew, and say where runs find it; what is no whole day only goes."""
    partition = find_partition(uri)
    if partition:
        request = erasure.request
        new = erased.rewrite(erased.LakeDay.read(partition), erasure.rename(uri), request.subject, request.config)
        again = new.partition.uri if new.is_whole else erasure.rename(uri, "from the source")
        erasure.renamed[_tombstone(uri)] = _tombstone(again).partition("/")[2]
        _note(erasure, uri, new.partition)
    erasure.outdated += [f"{uri}.json", f"{uri}.npy", _beside(uri, QUARANTINE), uri]


def _tombstone(uri: str) -> str:
    day, name = uri.rsplit("/", 2)[1:]
    return f"{day.removeprefix('date=')}/{name.removesuffix('.parquet')}"


def _note(erasure: Erasure, uri: str, new: Partition) -> None:
    name = retention.find_partition(uri)
    assert name, "a partition of a table"
    erasure.moved[name] = new


def _rename_in_manifests(erasure: Erasure) -> None:
    """Have the tables of runs name what replaces their days, so that they can still be read."""
    for folder in stores.list_runs(erasure.request.state.runs, erasure.request.config.name):
        for path, manifest in sweep.list_manifests(folder):
            names = [retention.find_partition(part["uri"]) or "" for part in manifest["partitions"]]
            if not erasure.moved.keys().isdisjoint(names):
                table = Manifest.read(str(path))
                pairs = zip(names, table.partitions, strict=True)
                parts = [_like(part, erasure.moved.get(name, part)) for name, part in pairs]
                table.model_copy(update={"partitions": parts}).write(str(path))


def _like(before: Partition, after: Partition) -> Partition:
    """Return a partition with as many details as a manifest has of it."""
    return after if before.details else replace(after, details={})


def _change_in_place(erasure: Erasure, finding: SubjectFile) -> None:
    """Change a file that has no hash in its name, or whose readers know it by its name."""
    uri, subject = finding.file.uri, erasure.request.subject
    if finding.file.store in (EVENTS, QUARANTINE) or (finding.file.store in DERIVED and uri.endswith(".parquet")):
        return
    if finding.action is ErasureAction.REMOVED:
        storage.remove(uri)
    elif uri.endswith((SUFFIX, search.MANIFEST_SUFFIX)) and finding.file.store == ONLINE:
        _replace_snapshot(erasure, uri.removesuffix(".json"))
    elif not search.is_packaged(uri):
        data = formats.find(uri).without(storage.read_bytes(uri), subject)
        if data is not None:
            storage.write_bytes(uri, data)


def _replace_snapshot(erasure: Erasure, uri: str) -> None:
    """Write a snapshot anew under its name, which endpoints know, from a spare one that a second attempt finds."""
    spare = _name_spare(erasure, uri)
    if not storage.exists(f"{spare}.json"):
        snapshots.erase(spare, storage.read_bytes(uri), Snapshot.read(f"{uri}.json"), erasure.request.subject)
    storage.copy(spare, uri)
    storage.copy(f"{spare}.json", f"{uri}.json")


def _name_spare(erasure: Erasure, uri: str) -> str:
    return erasure.rename(uri).removesuffix(".parquet") + SUFFIX


def _list_spares(erasure: Erasure) -> list[str]:
    """Return the spare snapshots that are there, also of an attempt that was killed, their manifests first."""
    lake = storage.join(erasure.request.state.lake, erasure.request.config.name, ONLINE)
    stored = [file.uri for file in storage.walk(lake)]
    spares = [_name_spare(erasure, uri) for uri in stored if uri.endswith(SUFFIX)]
    return [uri for spare in spares for uri in (f"{spare}.json", spare) if uri in stored]
