"""The files of a registry's server on this machine, below `<registry>/endpoint/<name>/`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from nightshift import storage
from nightshift.runtime.errors import UserError


@dataclass(frozen=True)
class Challenger:
    """A version that answers a share of the entities in place of the champion.

    Attributes:
        version: number of the version.
        uri: folder of its files.
        sha256: expected `ModelPackage.sha256` of these files.
        share: part of the entities, above 0 and below 1.
    """

    version: int
    uri: str
    sha256: str
    share: float


@dataclass(frozen=True)
class DeploymentPointer:
    """The version to serve.

    Attributes:
        version: number of the version.
        uri: folder of its files.
        sha256: expected `ModelPackage.sha256` of these files.
        since: time at which it became the champion, ISO 8601, UTC.
        snapshot: URI of the online state's snapshot, needed for raw events; None: requests send features.
        challenger: version that answers a share of the entities; None: there is none.
        trial: the holder of the registry's lock that tries this version before the release record names it.
    """

    version: int
    uri: str
    sha256: str
    since: str
    snapshot: str | None = None
    challenger: Challenger | None = None
    trial: str | None = None


@dataclass(frozen=True)
class RunningServer:
    """Process and address of a running server.

    Attributes:
        pid: its process.
        host: address that it listens on.
        port: port that it listens on.
        flags: its own, which the next server on this machine gets too: without them it would keep another state.
    """

    pid: int
    host: str
    port: int
    flags: Sequence[str] = field(default=(), kw_only=True)

    @property
    def url(self) -> str:
        """Root of its routes."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def folder(registry: str, name: str) -> str:
    """Return the folder of an endpoint's pointer, state and log."""
    return storage.join(registry, "endpoint", name)


def pointer_uri(registry: str, name: str) -> str:
    """Return the URI of the pointer to the version to serve."""
    return storage.join(folder(registry, name), "current.json")


def state_uri(registry: str, name: str) -> str:
    """Return the URI of the file with the server's process and address."""
    return storage.join(folder(registry, name), "state.json")


def settings_uri(registry: str, name: str) -> str:
    """Return the URI of the server's settings, as a load test has chosen them."""
    return storage.join(folder(registry, name), "settings.json")


def state_folder(registry: str, name: str) -> str:
    """Return the folder of the online state."""
    return storage.join(folder(registry, name), "state")


def lock_path(registry: str, name: str) -> str:
    """Return the path of the lock that a server holds while it runs."""
    return storage.join(folder(registry, name), "server.lock")


def read_pointer(uri: str) -> DeploymentPointer:
    """Read the pointer to the version to serve.

    Raises:
        UserError: when it is missing or not valid.
    """
    try:
        return msgspec.json.decode(storage.read_bytes(uri), type=DeploymentPointer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(
            f"{uri} does not name the version to be served ({error}); move it away, and deploy again: `nightshift run`"
        ) from None
