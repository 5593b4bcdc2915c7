"""What a registry's endpoint serves: the release record's versions, or those that a change of the record tries.

Only the record decides. Whoever changes it holds the registry's lock and first has the endpoint serve the versions, by
its pointer; a change that is killed loses the lock, and the endpoint goes back to what the record says.
"""

from dataclasses import replace
from functools import lru_cache

from nightshift import registry, storage
from nightshift.contracts import package
from nightshift.contracts.release_record import Release, ReleasedVersion
from nightshift.registry.release_record import ReleaseRef
from nightshift.serving import files
from nightshift.serving.files import Challenger, DeploymentPointer


def read_pointer(root: str, name: str) -> DeploymentPointer:
    """Return the versions that an endpoint has to serve now.

    Args:
        root: folder of the registry.
        name: the registered model.

    Raises:
        UserError: when the pointer or the record is missing or not valid, or names a version that does not exist.
    """
    pointer = files.read_pointer(files.pointer_uri(root, name))
    # before the record: a change that ends in between is in the record that is read next
    if pointer.trial and pointer.trial == registry.read_holder(root):
        return pointer
    uri = ReleaseRef(root, name).uri
    return _follow(root, name, pointer, storage.read_bytes(uri)) if storage.exists(uri) else pointer


@lru_cache(2)  # an endpoint reads both files several times a second
def _follow(root: str, name: str, pointer: DeploymentPointer, content: bytes) -> DeploymentPointer:
    """Return the pointer to a record's versions: the pointer itself where it names them."""
    record = Release.parse_record(content, ReleaseRef(root, name).uri)
    live, challenger = record.live, record.challenger
    # one in shadow answers no requests
    beside = _point(root, name, challenger) if challenger and challenger.traffic else None
    if (pointer.version, pointer.sha256) == (live.version, live.sha256):
        return pointer if pointer.challenger == beside else replace(pointer, challenger=beside, trial=None)
    uri = registry.find(root, name, live.version).uri
    since = record.live_since[live.version].isoformat(timespec="seconds")
    return DeploymentPointer(live.version, uri, live.sha256, since, _find_snapshot(pointer.snapshot, uri), beside)


def _point(root: str, name: str, version: ReleasedVersion) -> Challenger:
    uri = registry.find(root, name, version.version).uri
    return Challenger(version.version, uri, version.sha256, version.traffic)


def _find_snapshot(last: str | None, uri: str) -> str | None:
    """Return the snapshot for a version: the last one, or one beside it with the version's windows."""
    from nightshift.tabular.online import snapshot  # its libraries take a second

    model = package.load(uri)
    if last is None or not model.preprocessing.takes_events:
        return None
    return last if snapshot.serves(snapshot.read(last), model.tabular) else snapshot.newest_beside(last, model.tabular)
