"""Which version of a model is live: one record a use case, changed only by compare-and-set.

The record lies in the registry's folder. A tracking server cannot write on a condition, so its records lie below the
audit root, which is kept for good, while runs are subject to retention. The registry's alias `champion` mirrors the
record; it is set after the record, and set again by whoever next finds that it is not so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Self

from nightshift import registry, storage
from nightshift.contracts.release_record import Action, Entry, Release, ReleasedVersion
from nightshift.contracts.state import State
from nightshift.contracts.verdict import Decision
from nightshift.registry import Version
from nightshift.runtime.errors import UserError
from nightshift.storage import conditional

# tags of a version: last day of its training data, identity of the version it was held to, decision of the evaluation
TRAINED_UNTIL, REFERENCE, EVALUATION = "train_last", "reference", "evaluation"


@dataclass(frozen=True)
class ReleaseRef:
    """Where a use case's versions and its release record are kept.

    Attributes:
        registry: folder of the model registry, or the URL of a tracking server.
        name: the registered model, which is the use case.
        audit: root of what is kept for good; needed with a tracking server.
    """

    registry: str
    name: str
    audit: str = ""

    @classmethod
    def from_state(cls, state: State, name: str) -> Self:
        """Return where a state keeps a use case's releases."""
        return cls(state.registry, name, state.audit)

    @property
    def uri(self) -> str:
        """The record."""
        if not registry.is_remote(self.registry):
            return storage.join(registry.root(self.registry), "releases", f"{self.name}.json")
        if not self.audit:
            raise UserError(
                f"registry {self.registry} is a tracking server, which cannot hold release records; "
                "give the audit root, a folder, s3://... or gs://..."
            )
        return storage.join(self.audit, "releases", f"{self.name}.json")


def read(ref: ReleaseRef) -> Release | None:
    """Return the record, None when nothing was ever promoted.

    Raises:
        UserError: when it is not a release record.
    """
    return _parse(ref.uri, conditional.read(ref.uri)[0])


def champion(ref: ReleaseRef) -> Version | None:
    """Return the live version with files that can be read at its `uri`, or None when there is none."""
    record = read(ref)
    if record is None:
        return None
    mirror(ref, record)
    return registry.find(ref.registry, ref.name, record.live.version)


def require_champion(ref: ReleaseRef) -> Version:
    """Return the live version with files that can be read at its `uri`.

    Raises:
        UserError: when there is none.
    """
    version = champion(ref)
    if version is None:
        raise UserError(f"registry {ref.registry} has no champion of {ref.name!r}; run training first: nightshift run")
    return version


def settle(uri: str, name: str, decide: Callable[[Release | None], Entry | None]) -> Release | None:
    """Change a record from what it says; when another writer comes first, read and decide again.

    Args:
        uri: the record.
        name: the use case.
        decide: gets the record, None when there is none; returns its next state, or None to leave it as it is.

    Returns:
        the record as it is then.

    Raises:
        UnavailableError: when other writers come first all the time.
    """

    def write(content: bytes | None) -> bytes | None:
        record = _parse(uri, content)
        entry = decide(record)
        if entry is None:
            return None
        wanted = record.followed_by(entry) if record else Release(use_case=name, **dict(entry))
        return wanted.model_dump_json(indent=2).encode()

    return _parse(uri, conditional.settle(uri, write))


def change(ref: ReleaseRef, decide: Callable[[Release | None], Entry | None]) -> Release | None:
    """Change a use case's record as `settle` does, and have the registry's alias follow."""
    record = settle(ref.uri, ref.name, decide)
    if record:
        mirror(ref, record)
    return record


def mirror(ref: ReleaseRef, record: Release) -> None:
    """Point the registry's alias at the live version, also when the record changes meanwhile."""
    if registry.alias(ref.registry, ref.name) == record.live.version:
        return
    while True:
        registry.tag_live(ref.registry, ref.name, record)
        registry.set_alias(ref.registry, ref.name, record.live.version)
        # another process may have set a newer one before; whoever comes last sees the newest record
        now = read(ref)
        if now is None or now.live.version == record.live.version:
            return
        record = now


def entry(action: Action, version: Version, run: str = "", reasons: list[str] | None = None) -> Entry:
    """Return the state in which a version is live from now on."""
    stamp: dict[str, Any] = {"since": datetime.now(UTC), "by": registry.user(), "run": run, "reasons": reasons or []}
    return Entry(versions=[describe(version)], action=action, **stamp)


def challenge(record: Release, version: Version, run: str, reasons: list[str]) -> Entry:
    """Return the first state of a version's release."""
    return record.add_challenger(
        describe(version), since=datetime.now(UTC), by=registry.user(), run=run, reasons=reasons
    )


def describe(version: Version) -> ReleasedVersion:
    """Return how the record names a version."""
    return ReleasedVersion(
        version=version.version, sha256=version.sha256, trained_until=version.tags.get(TRAINED_UNTIL)
    )


def promote(
    ref: ReleaseRef, number: int, before: Callable[[Version], None] = lambda _: None, reason: str = ""
) -> Version:
    """Make a version the champion by hand; the champion before it is remembered for `rollback`.

    Args:
        ref: of the use case.
        number: the version.
        before: called with the version before the record changes, so that what fails there changes nothing.
        reason: why, in the person's words; may be empty.

    Raises:
        UserError: when there is no such version; the message lists what exists.
    """
    chosen = registry.find(ref.registry, ref.name, number)

    def decide(record: Release | None) -> Entry | None:
        before(chosen)
        is_live = record is not None and record.live.version == number
        return None if is_live else entry(Action.PROMOTED, chosen, reasons=_quote(reason))

    change(ref, decide)
    return chosen


def rollback(ref: ReleaseRef, before: Callable[[Version], None] = lambda _: None, reason: str = "") -> Version:
    """Take the newest version out of service: a challenger, else the champion; for the arguments see `promote`.

    Then the champion before it is the champion again.

    Raises:
        UserError: when there was none.
    """
    target: list[Version] = []

    def decide(record: Release | None) -> Entry:
        target[:] = [_previous(ref, record)]
        before(target[0])
        return entry(Action.ROLLED_BACK, target[0], reasons=_quote(reason))

    change(ref, decide)
    return target[0]


def _quote(reason: str) -> list[str]:
    return [f"By hand: {reason}"] if reason else []


def predecessor(ref: ReleaseRef, record: Release | None) -> int | None:
    """Return the newest version that was live before the one that is, and still exists."""
    if record is None:
        return None
    existing = {version.version for version in registry.versions(ref.registry, ref.name)}
    earlier = [number for number in record.trail if number in existing and number != record.live.version]
    return earlier[-1] if earlier else None


def find_reference(ref: ReleaseRef, since: date) -> Version | None:
    """Return the best version so far beside the live one, with files that can be read; see `choose_reference`."""
    record = read(ref)
    best = choose_reference(_list_live_versions(ref, record), since) if record else None
    return best and registry.find(ref.registry, ref.name, best.version)


def choose_reference(trail: Sequence[Version], since: date) -> Version | None:
    """Return the best version so far beside the live one, None without one.

    It is the version which the live one was itself held to, by its tag, or else the oldest one. What was live before a
    person overruled the evaluation does not count.

    Args:
        trail: the versions that were live one after the other, at least one; the last one is.
        since: first day on which the training days of a reference may have ended.
    """
    *earlier, live = trail[_find_overruled(trail) :]
    recent = [version for version in earlier if version.tags.get(TRAINED_UNTIL, "") >= str(since)]
    if not recent or live.tags.get(REFERENCE) == live.sha256:
        return None
    return _find_held_to(recent, live) or recent[0]


def _list_live_versions(ref: ReleaseRef, record: Release) -> list[Version]:
    """Return the versions that were live one after the other, as far as they exist; the last one is."""
    existing = {version.version: version for version in registry.versions(ref.registry, ref.name)}
    return [existing[number] for number in record.trail if number in existing]


def _find_held_to(versions: Sequence[Version], live: Version) -> Version | None:
    return next((version for version in versions if version.sha256 == live.tags.get(REFERENCE)), None)


def _find_overruled(trail: Sequence[Version]) -> int:
    """Return the position of the newest version that had not passed its evaluation, 0 without one."""
    overruled = [version.tags.get(EVALUATION, Decision.PASS) != Decision.PASS for version in trail]
    return max((position for position, is_overruled in enumerate(overruled) if is_overruled), default=0)


def list_pinned(ref: ReleaseRef) -> dict[int, str]:
    """Return the versions that are needed however old they are, and as what."""
    record = read(ref)
    if record is None:
        return {}
    before = predecessor(ref, record)
    challenger = {record.challenger.version: "challenger"} if record.challenger else {}
    trail = _list_live_versions(ref, record)
    best = _find_held_to(trail, trail[-1]) if trail else None
    return (
        ({best.version: "reference"} if best else {})
        | ({before: "rollback target"} if before else {})
        | challenger
        | {record.live.version: registry.CHAMPION}
    )


def _previous(ref: ReleaseRef, record: Release | None) -> Version:
    number = record.live.version if record and record.challenger else predecessor(ref, record)
    if number is None:
        raise UserError(
            f"{ref.name!r} has no previous champion, so there is nothing to roll back to; "
            "`nightshift models` lists the versions, `nightshift promote VERSION` picks one"
        )
    return registry.find(ref.registry, ref.name, number)


def _parse(uri: str, content: bytes | None) -> Release | None:
    return None if content is None else Release.parse_record(content, uri)
