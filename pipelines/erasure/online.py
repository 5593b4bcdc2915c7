"""The online states of a use case: in files of this machine's endpoint, or in a Redis that servers share."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from pathlib import Path
from typing import Protocol

from nightshift import registry, storage
from nightshift.contracts.erasure import ErasedStore, ErasureAction
from nightshift.contracts.online import SUFFIX, Snapshot
from nightshift.contracts.state import State
from nightshift.erasure.embedded_state import EmbeddedState
from nightshift.erasure.shared_state import SharedState
from nightshift.erasure.subject import DataSubject
from nightshift.runtime.errors import UserError
from nightshift.serving import files
from nightshift.tabular.online import embedded, shared

STORES = {EmbeddedState: "online state in files", SharedState: "online state in Redis"}


class ErasableState(Protocol):
    """An online state."""

    def identify(self, subject: DataSubject) -> DataSubject:
        """Return an entity with the ids of its events here too."""

    def count(self, subject: DataSubject) -> int:
        """Return how many records are an entity's."""

    def erase(self, subject: DataSubject) -> None:
        """Remove them."""


@contextmanager
def open_states(state: State, use_case: str, redis_url: str | None, alone: bool) -> Iterator[list[ErasableState]]:
    """Open the online states.

    Args:
        state: where things lie.
        use_case: its name.
        redis_url: of the Redis that servers share, None without one.
        alone: whether no server may have the files meanwhile.

    Raises:
        UserError: when a server has the files, or the endpoint shares a Redis that is not given.
        UnavailableError: when the Redis does not answer.
    """
    snapshot = _find_snapshot(storage.join(state.lake, use_case, "online"))
    with ExitStack() as stack:
        states: list[ErasableState] = []
        folder = None if registry.is_remote(state.registry) else _find_folder(state, use_case, redis_url)
        if snapshot and folder:
            if alone:
                stack.enter_context(embedded.alone(folder, seconds=0))
            states.append(EmbeddedState(folder, snapshot))
        if snapshot and redis_url:
            client = stack.enter_context(shared.connect(redis_url))
            states.append(SharedState(client, use_case, snapshot))
        yield states


def identify(states: Sequence[ErasableState], subject: DataSubject) -> DataSubject:
    """Return an entity with the ids of its events in some states too."""
    return reduce(lambda known, one: one.identify(known), states, subject)


def describe(states: Sequence[ErasableState], subject: DataSubject) -> Iterator[ErasedStore]:
    """Yield what is an entity's in some states."""
    for one in states:
        if rows := one.count(subject):
            name = STORES[type(one)]
            yield ErasedStore(store=name, action=ErasureAction.REMOVED, files=1, rows=rows, size_bytes=0)


def _find_folder(state: State, use_case: str, redis_url: str | None) -> Path | None:
    """Return the folder of the endpoint's state, None without one.

    Raises:
        UserError: when the endpoint shares a Redis that is not given.
    """
    root = registry.root(state.registry)
    uri = files.state_uri(root, use_case)
    flags = storage.read_json(uri).get("flags", []) if storage.exists(uri) else []
    if redis_url is None and any("redis-file" in flag for flag in flags):
        raise UserError(f"the endpoint of {use_case!r} keeps its state in a Redis; give --redis-file with its URL")
    folder = Path(files.state_folder(root, use_case))
    return folder if folder.exists() else None


def _find_snapshot(folder: str) -> Snapshot | None:
    """Return the manifest of the newest snapshot, None without one."""
    manifests = [file.uri for file in storage.walk(folder) if file.uri.endswith(f"{SUFFIX}.json")]
    return Snapshot.read(max(manifests)) if manifests else None
