"""Look after a release by hand. `nightshift release` calls these functions.

They change the record. An endpoint on this machine follows it at once, another target in the next run of the pipeline
`release`.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from components.release import core, section
from components.release.core import Moment
from nightshift import registry
from nightshift.contracts.release_record import Entry, Release
from nightshift.contracts.state import State
from nightshift.local import endpoint
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError


def read(state: State, name: str | None) -> Release:
    """Return the release record of a use case, by default of the registry's only one.

    Raises:
        UserError: when the use case has no champion.
    """
    use_case = registry.choose_name(state.registry, name)
    record = release_record.read(ReleaseRef.from_state(state, use_case))
    if record is None:
        raise UserError(f"{use_case!r} has no champion in registry {state.registry}; train one first: nightshift run")
    return record


def status(state: State, name: str | None) -> str:
    """Return how far a release is, and what led there, in lines.

    Raises:
        UserError: when the use case has no champion.
    """
    record = read(state, name)
    lines = [f"{record.use_case}: {section.headline(record)}"]
    lines += [f"{entry.since:%Y-%m-%d %H:%M}  {_describe(entry)}" for entry in reversed(record.entries)]
    return "\n".join(lines)


def start(state: State, name: str | None, number: int) -> str:
    """Begin to release a version; see `core.start`.

    Raises:
        UserError: when there is no such version.
    """
    version = registry.find(state.registry, registry.choose_name(state.registry, name), number)
    return _change(state, name, lambda record, at: core.start(record, release_record.describe(version), at))


def pause(state: State, name: str | None) -> str:
    """Keep a challenger from getting more of the requests; see `core.pause`."""
    return _change(state, name, core.pause)


def resume(state: State, name: str | None) -> str:
    """Undo `pause`."""
    return _change(state, name, core.resume)


def abort(state: State, name: str | None) -> str:
    """End a release; the champion stays, and this says who answers the requests by now.

    Raises:
        UnavailableError: when the endpoint on this machine does not follow.
    """
    status = _change(state, name, lambda record, at: core.withdraw(record, at, ["It was ended by hand."]))
    record = read(state, name)
    server = None if registry.is_remote(state.registry) else endpoint.await_released(state.registry, record.use_case)
    headline, *lines = status.split("\n")
    now = f" at {server.url}" if server else f" in the record; {endpoint.ABSENT.format(number=record.live.version)}"
    return "\n".join([headline + now, *lines])


def _change(state: State, name: str | None, act: Callable[[Release, Moment], Entry | None]) -> str:
    ref = ReleaseRef.from_state(state, read(state, name).use_case)
    at = Moment(datetime.now(UTC), registry.user())

    def decide(record: Release | None) -> Entry | None:
        assert record
        return act(record, at)

    with registry.lock(state.registry):
        release_record.change(ref, decide)
    return status(state, name)


def _describe(entry: Entry) -> str:
    parts = ", ".join(f"version {served.version} {served.traffic:.0%}" for served in entry.versions)
    return " ".join([f"{entry.action.replace('_', ' ')} by {entry.by}: {parts}.", *entry.reasons])
