"""Plans an erasure, or carries it out: the list's entry, the stores, the proof and the record."""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from nightshift import registry, storage
from nightshift.config.columns import Holds
from nightshift.contracts.erasure import (
    AbsenceProof,
    ErasedEntity,
    ErasedStore,
    ErasureDecision,
    ErasureList,
)
from nightshift.erasure import listing
from nightshift.erasure.subject import DataSubject
from nightshift.runtime.errors import UserError
from pipelines.engines.local import runs
from pipelines.erasure import online, replacing, search, stores
from pipelines.erasure.kept import list_kept
from pipelines.erasure.online import ErasableState
from pipelines.erasure.replacing import Erasure
from pipelines.erasure.request import ErasureRequest
from pipelines.erasure.search import SubjectFile
from pipelines.erasure.stores import EVENTS, RECORDS


@dataclass(frozen=True)
class SubjectData:
    """Where an entity is.

    Attributes:
        subject: the entity, with the ids of its events.
        files: that name it.
        stores: all of it in sum.
    """

    subject: DataSubject
    files: list[SubjectFile]
    stores: list[ErasedStore]


def plan(request: ErasureRequest) -> ErasureDecision:
    """Return what would be done, and do nothing.

    Raises:
        UserError: when the entity is nowhere.
        UnavailableError: when a store does not answer.
    """
    with online.open_states(request.state, request.config.name, request.redis_url, alone=False) as states:
        data = _look(request, states)
    if not data.stores:
        raise _nowhere(request)
    return _describe(request, data, None)


def carry_out(request: ErasureRequest) -> ErasureDecision:
    """Erase an entity from every store of a use case, search for it, and write the record.

    Meanwhile no run of the use case starts, and nothing is promoted or collected.

    Raises:
        UserError: when the entity is nowhere, or a run or the endpoint is in progress.
        UnavailableError: when a store does not answer; calling it again resumes.
    """
    state, name = request.state, request.config.name
    with (
        runs.none_under_way(Path(state.runs), name),
        registry.lock(state.registry),
        online.open_states(state, name, request.redis_url, alone=True) as states,
    ):
        data = _look(request, states)
        entry = _begin(request, bool(data.stores))
        request = replace(request, subject=data.subject)
        uri = storage.join(state.audit, RECORDS, f"{entry.decision}.json")
        if not storage.exists(uri):  # of an attempt that was killed, which has found more
            _describe(request, data, entry).write(uri)
        replacing.erase(Erasure(request, entry, data.files, states))
        proof = _prove(request, states)
        decision = ErasureDecision.read(uri).model_copy(update={"proof": proof})
        decision.write(uri)
        if not proof.hits:
            listing.change(state.lake, name, lambda erasures: _complete(erasures, entry))
    return decision


def _look(request: ErasureRequest, states: list[ErasableState]) -> SubjectData:
    """Find an entity in files and online states."""
    files = list(stores.list_files(request.state, request.config.name))
    subject = online.identify(states, search.identify(files, request.subject))
    named = list(search.find(files, subject))
    if request.config.columns.holding(Holds.FILE, Holds.TEXT):
        shown = {one.file: one for one in search.find_shown(request.state, request.config.name, named)}
        named = [*(one for one in named if one.file not in shown), *shown.values()]
    return SubjectData(subject, named, [*_sum_up(named), *online.describe(states, subject)])


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


def _prove(request: ErasureRequest, states: list[ErasableState]) -> AbsenceProof:
    """Search every file and online state for the entity."""
    files = list(stores.list_files(request.state, request.config.name))
    hits = {finding.file.uri: finding.hits for finding in search.find(files, request.subject)}
    hits |= {store.store: store.rows for store in online.describe(states, request.subject)}
    return AbsenceProof(files=len(files), size_bytes=sum(file.size for file in files), hits=hits)


def _complete(erasures: ErasureList, entry: ErasedEntity) -> ErasureList:
    done = entry.model_copy(update={"complete": True})
    entities = [done if entity.decision == entry.decision else entity for entity in erasures.erased]
    return erasures.model_copy(update={"erased": entities})


def _describe(request: ErasureRequest, data: SubjectData, entry: ErasedEntity | None) -> ErasureDecision:
    """Return the record as it is before the proof; it names nobody."""
    return ErasureDecision(
        decision=entry and entry.decision,
        use_case=request.config.name,
        role=request.subject.role,
        digest=entry and entry.digest,
        by=registry.user(),
        reason=request.reason,
        erased_at=entry.erased_at if entry else datetime.now(UTC),
        stores=data.stores,
        kept=list_kept(request.state, request.config, _list_days(data.files)),
        proof=None,
    )


def _sum_up(findings: list[SubjectFile]) -> Iterator[ErasedStore]:
    for (store, action), own in sorted(search.count_by_store(findings).items()):
        rows, size = sum(one.hits for one in own), sum(one.file.size for one in own)
        yield ErasedStore(store=store, action=action, files=len(own), rows=rows, size_bytes=size)


def _list_days(findings: Iterable[SubjectFile]) -> list[date]:
    """Return the days on which the entity has events."""
    uris = [finding.file.uri for finding in findings if finding.file.store == EVENTS]
    return sorted({date.fromisoformat(uri.rsplit("/", 2)[1].removeprefix("date=")) for uri in uris})
