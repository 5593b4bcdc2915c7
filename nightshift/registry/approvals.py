"""Which versions wait for a person, and what persons approved: a record beside the release record, by compare-and-set.

With `release.approval: required` a run notes here that a version has passed its gates; a person's approval takes it
live. An approval is of one model beside one champion: of any other pair it says nothing, and it overrules no gate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nightshift import registry
from nightshift.contracts.approvals import Approval, ApprovalRecord, WaitingVersion
from nightshift.contracts.release_record import Action, Entry, Release, ReleasedVersion
from nightshift.registry import Version, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError
from nightshift.storage import conditional


@dataclass(frozen=True)
class ApprovalReason:
    """Why a version is approved.

    Attributes:
        reason: in the person's words; not empty.
        by: the person.
    """

    reason: str
    by: str = field(default_factory=registry.user)


def read(ref: ReleaseRef) -> ApprovalRecord:
    """Return the record of a use case.

    Raises:
        UserError: when it is not an approval record.
    """
    return _parse(ref, conditional.read(_find_uri(ref))[0])


def list_waiting(ref: ReleaseRef, release: Release | None) -> list[WaitingVersion]:
    """Return the versions that wait for a person beside the champion of now."""
    return _list_waiting(read(ref), release)


def is_approved(ref: ReleaseRef, sha256: str, champion: str | None) -> bool:
    """Return whether a person has approved a model beside a champion, both by their identity."""
    return read(ref).is_approved(sha256, champion)


def describe(version: ReleasedVersion, champion: str | None, run: str, reasons: Sequence[str]) -> WaitingVersion:
    """Return how the record names a version that waits from now on; for the arguments see `WaitingVersion`."""
    return WaitingVersion(
        version=version.version,
        sha256=version.sha256,
        champion=champion,
        since=datetime.now(UTC),
        run=run,
        reasons=list(reasons),
    )


def note(ref: ReleaseRef, version: int, waiting: WaitingVersion | None) -> None:
    """Write down that a version waits, or by None that it does not; what waited beside another champion is removed."""

    def decide(record: ApprovalRecord) -> ApprovalRecord:
        others = [other for other in record.waiting if other.version != version]
        if waiting:
            others = [*(other for other in others if other.champion == waiting.champion), _keep_since(waiting, record)]
        return record.model_copy(update={"waiting": others})

    _change(ref, decide)


def _keep_since(waiting: WaitingVersion, record: ApprovalRecord) -> WaitingVersion:
    """Return a version that waits since it first did."""
    pair = (waiting.sha256, waiting.champion)
    earlier = [other.since for other in record.waiting if (other.sha256, other.champion) == pair]
    return waiting.model_copy(update={"since": earlier[0]}) if earlier else waiting


def approve(
    ref: ReleaseRef, number: int, why: ApprovalReason, before: Callable[[Version], None] = lambda _: None
) -> Release:
    """Approve a version that waits, which makes it the champion, or one that is being released.

    The latter goes live by the next run of the release, as long as its gates pass.

    Args:
        ref: of the use case.
        number: the version.
        why: who approves, and why.
        before: see `release_record.promote`.

    Returns:
        the release record as it is then.

    Raises:
        UserError: when the version does not wait, is not there, or the champion changes meanwhile.
    """
    if not why.reason.strip():
        raise UserError("the reason of an approval is empty; say why in a few words, as in --reason 'checked by risk'")
    chosen = registry.find(ref.registry, ref.name, number)
    approval = _record_approval(ref, chosen, why)

    def promote(record: Release | None) -> Entry | None:
        champion = _identify(record)
        if champion == chosen.sha256 or (record and record.challenger and record.challenger.version == number):
            return None
        if champion != approval.champion:
            raise UserError(f"the champion of {ref.name!r} has changed since version {number} was judged; run it again")
        before(chosen)
        entry = release_record.entry(Action.PROMOTED, chosen, reasons=[f"Approved by {approval.by}: {approval.reason}"])
        return entry.model_copy(update={"by": approval.by})

    release = release_record.change(ref, promote)
    assert release
    return release


def _record_approval(ref: ReleaseRef, version: Version, why: ApprovalReason) -> Approval:
    settled: list[Approval] = []

    def decide(record: ApprovalRecord) -> ApprovalRecord:
        release = release_record.read(ref)
        _check_waiting(ref, version, record, release)
        pair = (version.sha256, _identify(release))
        known = [entry for entry in record.approvals if (entry.sha256, entry.champion) == pair]
        settled[:] = known or [
            Approval(
                version=version.version,
                sha256=version.sha256,
                champion=pair[1],
                at=datetime.now(UTC),
                by=why.by,
                reason=why.reason,
            )
        ]
        return record if known else record.model_copy(update={"approvals": [*record.approvals, *settled]})

    _change(ref, decide)
    return settled[0]


def _check_waiting(ref: ReleaseRef, version: Version, record: ApprovalRecord, release: Release | None) -> None:
    number = version.version
    if release and release.live.version == number:
        raise UserError(f"version {number} is the champion of {ref.name!r} already; there is nothing to approve")
    waiting = {entry.version: entry.sha256 for entry in _list_waiting(record, release)}
    if release and release.challenger:
        waiting[release.challenger.version] = release.challenger.sha256
    if waiting.get(number) != version.sha256:
        others = ", ".join(map(str, waiting)) or "none"
        raise UserError(
            f"version {number} of {ref.name!r} does not wait for an approval; versions that do: {others}. "
            f"`nightshift promote {number}` makes it the champion whatever its gates say"
        )


def _list_waiting(record: ApprovalRecord, release: Release | None) -> list[WaitingVersion]:
    champion, rolled_back = _identify(release), release.rolled_back if release else set()
    challenger = release.challenger.version if release and release.challenger else None
    return [
        waiting
        for waiting in record.waiting
        if waiting.champion == champion
        and waiting.version not in rolled_back
        # with its approval a challenger waits for its next run alone
        and not (waiting.version == challenger and record.is_approved(waiting.sha256, champion))
    ]


def _identify(release: Release | None) -> str | None:
    """Return the identity of the champion."""
    return release.live.sha256 if release else None


def _find_uri(ref: ReleaseRef) -> str:
    return f"{ref.uri.removesuffix('.json')}.approvals.json"


def _change(ref: ReleaseRef, decide: Callable[[ApprovalRecord], ApprovalRecord]) -> None:
    def write(content: bytes | None) -> bytes | None:
        record = _parse(ref, content)
        wanted = decide(record)
        return None if wanted == record else wanted.model_dump_json(indent=2).encode()

    conditional.settle(_find_uri(ref), write)


def _parse(ref: ReleaseRef, content: bytes | None) -> ApprovalRecord:
    uri = _find_uri(ref)
    return ApprovalRecord.parse_record(content, uri) if content is not None else ApprovalRecord(use_case=ref.name)
