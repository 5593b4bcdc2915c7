"""The stores of a use case, and their files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nightshift import registry, storage
from nightshift.contracts.state import State
from nightshift.erasure import listing
from nightshift.runtime.errors import UserError
from pipelines import records

RECORDS = "erasures"  # folder of the decisions below the audit root
LOCKS = (".lock", ".gate")
ONLINE_LOG = re.compile(r"/state/[0-9]+\.log$")  # of an online state, which `online.py` opens
EVENTS, QUARANTINE, ONLINE, SCRATCH = "events", "quarantine", "online", "scratch"
DERIVED = ("features", "scores")


@dataclass(frozen=True)
class StoredFile:
    """A file of a use case: its store, such as `events` or `runs`, its URI and its bytes."""

    store: str
    uri: str
    size: int


def list_files(state: State, use_case: str) -> Iterator[StoredFile]:
    """Yield every file that may hold rows or words of a use case; no locks, logs of online states and own records."""
    lake = storage.join(state.lake, use_case)
    yield from (StoredFile(_find_table(lake, file.uri), file.uri, file.size) for file in _walk(lake, (listing.FILE,)))
    yield from list_folder("checkpoints", storage.join(state.checkpoints, use_case))
    yield from (file for file in list_folder("audit", state.audit) if f"/{RECORDS}/" not in file.uri)
    if not registry.is_remote(state.registry):
        root = registry.root(state.registry)
        for folder in ("models", "endpoint"):
            yield from list_folder(folder, storage.join(root, folder, use_case))
        for file in list_folder("releases", storage.join(root, "releases")):
            if file.uri.rsplit("/", 1)[1].startswith(f"{use_case}."):
                yield file
    for run in list_runs(state.runs, use_case):
        yield from list_folder("runs", str(run))


def list_runs(runs: str, use_case: str) -> Iterator[Path]:
    """Yield what lies in the folder of runs, without the runs of other use cases."""
    for path in sorted(Path(runs).glob("*")):
        if path.is_dir() and not path.is_symlink() and path.name != ".locks" and _is_of(path, use_case):
            yield path


def _is_of(folder: Path, use_case: str) -> bool:
    try:
        return records.read(folder).use_case == use_case
    except UserError:  # no run, or one that cannot be read: whose it is nobody knows
        return True


def list_folder(store: str, folder: str) -> Iterator[StoredFile]:
    """Yield the files of a folder that belongs to a store."""
    yield from (StoredFile(store, file.uri, file.size) for file in _walk(folder))


def _walk(folder: str, skipped: tuple[str, ...] = ()) -> Iterator[storage.FileEntry]:
    for file in storage.walk(folder):
        names = (*LOCKS, "/lock", *(f"/{name}" for name in skipped))
        if not file.uri.endswith(names) and not ONLINE_LOG.search(file.uri):
            yield file


def _find_table(lake: str, uri: str) -> str:
    """Return the table of a file in the lake, or `lake` of one that lies beside them."""
    table, _, rest = uri.removeprefix(lake).lstrip("/").partition("/")
    return table if rest else "lake"
