"""Where the server of a registry's model keeps its files on this machine: below `<registry>/endpoint/<name>/`."""

from dataclasses import dataclass

import msgspec

from nightshift import storage
from nightshift.errors import UserError


@dataclass(frozen=True)
class Challenger:
    """A version that answers some of the entities beside the one that is served.

    Attributes:
        version: its number.
        uri: folder of its files.
        sha256: what `ModelPackage.sha256` of these files must be.
        share: of the entities, above 0 and below 1.
    """

    version: int
    uri: str
    sha256: str
    share: float


@dataclass(frozen=True)
class Pointer:
    """Which version is to be served.

    Attributes:
        version: its number.
        uri: folder of its files.
        sha256: what `ModelPackage.sha256` of these files must be.
        since: when it became the champion, ISO 8601, UTC.
        snapshot: the online state's snapshot over which raw events are taken in; None: features are sent only.
        challenger: what answers beside it; None: nothing does.
    """

    version: int
    uri: str
    sha256: str
    since: str
    snapshot: str | None = None
    challenger: Challenger | None = None


@dataclass(frozen=True)
class State:
    """Where a running server can be reached."""

    pid: int
    host: str
    port: int

    @property
    def url(self) -> str:
        """Root of its routes."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def folder(registry: str, name: str) -> str:
    """Return where pointer, state and log of an endpoint lie."""
    return storage.join(registry, "endpoint", name)


def pointer_uri(registry: str, name: str) -> str:
    """Return the file that names the version to be served."""
    return storage.join(folder(registry, name), "current.json")


def state_uri(registry: str, name: str) -> str:
    """Return the file in which the server says where it listens."""
    return storage.join(folder(registry, name), "state.json")


def settings_uri(registry: str, name: str) -> str:
    """Return the file that says how the server is started, where a load test has found out."""
    return storage.join(folder(registry, name), "settings.json")


def state_folder(registry: str, name: str) -> str:
    """Return where the online state is kept."""
    return storage.join(folder(registry, name), "state")


def lock_path(registry: str, name: str) -> str:
    """Return the file that a server holds a lock on as long as it runs."""
    return storage.join(folder(registry, name), "server.lock")


def pointed_at(uri: str) -> Pointer:
    """Read the file that names the version to be served.

    Raises:
        UserError: when it is missing, or does not name one.
    """
    try:
        return msgspec.json.decode(storage.read_bytes(uri), type=Pointer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(
            f"{uri} does not name the version to be served ({error}); move it away, and deploy again: `nightshift run`"
        ) from None
