"""Carries out an erasure, in an order that makes a second attempt do what a killed one has left.

What identifies an entity's events, the days of events, goes last. Whatever replaces a file has a name that follows from
the old one and the decision, so a second attempt writes the same files again.
"""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

from components.ingestion import erased
from nightshift import registry, storage
from nightshift.config import Config
from nightshift.contracts.erasure import (
    AbsenceProof,
    ErasedEntity,
    ErasedStore,
    ErasureDecision,
    ErasureList,
)
from nightshift.contracts.online import SUFFIX, Snapshot
from nightshift.contracts.state import State
from nightshift.contracts.tables import Manifest, Partition, find_partition
from nightshift.erasure import formats, listing, snapshots
from nightshift.erasure.subject import DataSubject
from nightshift.runtime.errors import UserError
from pipelines.engines.local import runs
from pipelines.erasure import search, stores
from pipelines.erasure.kept import list_kept
from pipelines.erasure.search import SubjectFile
from pipelines.erasure.stores import DERIVED, EVENTS, QUARANTINE, RECORDS, SCRATCH
from pipelines.gc import retention, sweep


@dataclass(frozen=True)
class ErasureRequest:
    """What is asked for.

    Attributes:
        state: where things lie; runs are a folder.
        config: the use case.
        subject: the entity.
        reason: why.
    """

    state: State
    config: Config
    subject: DataSubject
    reason: str


@dataclass
class Erasure:
    """An erasure under way.

    Attributes:
        request: what is asked for.
        entry: the list's, which names the decision.
        findings: files that name the entity.
        moved: name of a partition, as `retention.find_partition` says it -> what replaces it.
        outdated: files that something replaces, to be removed in this order.
        renamed: tombstones of days of events, see `ErasureList.renamed`.
    """

    request: ErasureRequest
    entry: ErasedEntity
    findings: list[SubjectFile]
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


def plan(request: ErasureRequest) -> ErasureDecision:
    """Return what would be done, and do nothing.

    Raises:
        UserError: when the entity is nowhere.
    """
    files = list(stores.list_files(request.state, request.config.name))
    request = replace(request, subject=search.identify(files, request.subject))
    findings = list(search.find(files, request.subject))
    if not findings:
        raise _nowhere(request)
    return _describe(request, findings, None, None)


def carry_out(request: ErasureRequest) -> ErasureDecision:
    """Erase an entity from every store of a use case, search for it, and write the record.

    Meanwhile no run of the use case starts, and nothing is promoted or collected.

    Raises:
        UserError: when the entity is nowhere, or a run or the endpoint is in progress.
        UnavailableError: when a store does not answer; calling it again resumes.
    """
    state, name = request.state, request.config.name
    with runs.none_under_way(Path(state.runs), name), registry.lock(state.registry):
        files = list(stores.list_files(state, name))
        request = replace(request, subject=search.identify(files, request.subject))
        findings = list(search.find(files, request.subject))
        entry = _begin(request, bool(findings))
        erasure = Erasure(request, entry, findings)
        _erase(erasure)
        proof = _prove(erasure)
        decision = _describe(request, findings, entry, proof)
        decision.write(storage.join(state.audit, RECORDS, f"{entry.decision}.json"))
        if not proof.hits:
            listing.change(state.lake, name, lambda erasures: _complete(erasures, entry))
    return decision


def _begin(request: ErasureRequest, is_there: bool) -> ErasedEntity:
    """Return the list's entry of the entity; from now on no run brings it back.

    Raises:
        UserError: when it is nowhere, and no erasure of it was cut short.
    """
    state, name, subject = request.state, request.config.name, request.subject
    known = _find_entry(listing.read(state.lake, name), subject)
    if not is_there and (known is None or known.complete):
        raise _nowhere(request)
    decision, now = known.decision if known and not known.complete else secrets.token_hex(8), datetime.now(UTC)

    def add(erasures: ErasureList) -> ErasureList:
        digest = listing.digest(erasures.salt, subject.role, subject.value)
        others = [entity for entity in erasures.erased if entity.digest != digest]
        since = known.erased_at if known and not known.complete else now
        entry = ErasedEntity(role=subject.role, digest=digest, decision=decision, erased_at=since, complete=False)
        return erasures.model_copy(update={"erased": [*others, entry]})

    return next(entry for entry in listing.change(state.lake, name, add).erased if entry.decision == decision)


def _find_entry(erasures: ErasureList | None, subject: DataSubject) -> ErasedEntity | None:
    if erasures is None:
        return None
    digest = listing.digest(erasures.salt, subject.role, subject.value)
    return next((entity for entity in erasures.erased if entity.digest == digest), None)


def _nowhere(request: ErasureRequest) -> UserError:
    subject, name = request.subject, request.config.name
    entry = _find_entry(listing.read(request.state.lake, name), subject)
    if entry:
        return UserError(
            f"nothing of this {subject.role} is in the stores of {name!r}: it was erased on "
            f"{entry.erased_at:%Y-%m-%d} by decision {entry.decision}"
        )
    return UserError(
        f"{subject.role} {subject.value!r} is in no store of use case {name!r}; check the id, as column "
        f"{subject.column!r} has it, the --config and the --workspace"
    )


def _erase(erasure: Erasure) -> None:
    """Write what replaces a file, then remove it; the days of events last."""
    state, name = erasure.request.state, erasure.request.config.name
    for uri in erasure.list_uris(*DERIVED):
        if uri.endswith(".parquet"):
            _replace_derived(erasure, uri)
    for uri in dict.fromkeys(map(_events_uri, erasure.list_uris(EVENTS, QUARANTINE))):
        _replace_day(erasure, uri)
    renamed = erasure.renamed
    listing.change(state.lake, name, lambda known: known.model_copy(update={"renamed": known.renamed | renamed}))
    _rename_in_manifests(erasure)
    for finding in erasure.findings:
        _change_in_place(erasure, finding)
    for uri in erasure.outdated:
        storage.remove(uri)


def _events_uri(uri: str) -> str:
    """Return the Parquet file of the day of events to which a file belongs."""
    return uri.replace("/quarantine/", "/events/").removesuffix(".json").removesuffix(".npy")


def _replace_derived(erasure: Erasure, uri: str) -> None:
    """Write a day of features or scores anew; a run makes it from other events, and looks elsewhere."""
    partition = find_partition(uri)
    if partition:
        data = formats.PARQUET.without(storage.read_bytes(uri), erasure.request.subject)
        rows = partition.rows - formats.PARQUET.count(storage.read_bytes(uri), erasure.request.subject)
        new = replace(partition, uri=erasure.rename(uri), rows=rows, sha256=storage.sha256(data))
        storage.write_bytes(new.uri, data)
        storage.write_json(f"{new.uri}.json", asdict(new))
        _note(erasure, uri, new)
    erasure.outdated[:0] = [f"{uri}.json", uri]


def _replace_day(erasure: Erasure, uri: str) -> None:
    """Write a day of events anew, and say where runs find it; what is no whole day only goes."""
    partition = find_partition(uri)
    if partition:
        request = erasure.request
        new = erased.rewrite(erased.LakeDay.read(partition), erasure.rename(uri), request.subject, request.config)
        again = new.partition.uri if new.is_whole else erasure.rename(uri, "from the source")
        erasure.renamed[_tombstone(uri)] = _tombstone(again).partition("/")[2]
        _note(erasure, uri, new.partition)
    quarantine = uri.replace("/events/", "/quarantine/")
    erasure.outdated += [f"{uri}.json", f"{uri}.npy", quarantine, uri]


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
            names = [retention.find_partition(part["uri"]) for part in manifest["partitions"]]
            if not erasure.moved.keys().isdisjoint(names):
                table = Manifest.read(str(path))
                parts = [
                    erasure.moved.get(name or "", part) for name, part in zip(names, table.partitions, strict=True)
                ]
                table.model_copy(update={"partitions": [*_like(table, parts)]}).write(str(path))


def _like(table: Manifest, parts: Iterable[Partition]) -> Iterator[Partition]:
    """Yield partitions with as many details as their table's manifest has of them."""
    for part, before in zip(parts, table.partitions, strict=True):
        yield part if before.details else replace(part, details={})


def _change_in_place(erasure: Erasure, finding: SubjectFile) -> None:
    """Change a file that has no hash in its name, or whose readers know it by its name."""
    uri, subject = finding.file.uri, erasure.request.subject
    if finding.file.store in (EVENTS, QUARANTINE) or (finding.file.store in DERIVED and uri.endswith(".parquet")):
        return
    if finding.file.store == SCRATCH:
        storage.remove(uri)
    elif uri.endswith(SUFFIX):
        snapshots.erase(uri, storage.read_bytes(uri), Snapshot.read(f"{uri}.json"), subject)
    elif not (uri.endswith(f"{SUFFIX}.json") or search.is_packaged(uri)):
        data = formats.find(uri).without(storage.read_bytes(uri), subject)
        if data is not None:
            storage.write_bytes(uri, data)


def _prove(erasure: Erasure) -> AbsenceProof:
    """Search every file for the entity."""
    request = erasure.request
    files = list(stores.list_files(request.state, request.config.name))
    hits = {finding.file.uri: finding.hits for finding in search.find(files, request.subject)}
    return AbsenceProof(files=len(files), size_bytes=sum(file.size for file in files), hits=hits)


def _complete(erasures: ErasureList, entry: ErasedEntity) -> ErasureList:
    done = entry.model_copy(update={"complete": True})
    entities = [done if entity.decision == entry.decision else entity for entity in erasures.erased]
    return erasures.model_copy(update={"erased": entities})


def _describe(
    request: ErasureRequest, findings: list[SubjectFile], entry: ErasedEntity | None, proof: AbsenceProof | None
) -> ErasureDecision:
    """Return the record, which names nobody."""
    return ErasureDecision(
        decision=entry and entry.decision,
        use_case=request.config.name,
        role=request.subject.role,
        digest=entry and entry.digest,
        by=registry.user(),
        reason=request.reason,
        erased_at=entry.erased_at if entry else datetime.now(UTC),
        stores=[*_sum_up(findings)],
        kept=list_kept(request.state, request.config, _list_days(findings)),
        proof=proof,
    )


def _sum_up(findings: list[SubjectFile]) -> Iterator[ErasedStore]:
    for (store, action), own in sorted(search.count_by_store(findings).items()):
        rows, size = sum(one.hits for one in own), sum(one.file.size for one in own)
        yield ErasedStore(store=store, action=action, files=len(own), rows=rows, size_bytes=size)


def _list_days(findings: Iterable[SubjectFile]) -> list[date]:
    """Return the days on which the entity has events."""
    uris = [finding.file.uri for finding in findings if finding.file.store == EVENTS]
    return sorted({date.fromisoformat(uri.rsplit("/", 2)[1].removeprefix("date=")) for uri in uris})
