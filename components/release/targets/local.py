"""This machine: the endpoint that the deployment step starts. One version answers, so a release has no shares here."""

import http.client
import json
from collections.abc import Sequence
from typing import Any

from components.common import registry
from components.common.contracts import package
from components.common.contracts.state import State
from components.common.errors import UnavailableError
from components.deployment import endpoint
from components.release.targets import Part
from components.tabular.online import snapshot


class Local:
    """The endpoint of a use case."""

    splits = False

    def __init__(self, state: State, name: str, port: int = endpoint.PORT) -> None:
        """Call nothing.

        Args:
            state: where the registry and the snapshots of the online state are.
            name: the use case.
            port: where the first server listens, see `endpoint.start_or_update`.
        """
        self._state, self._name, self._port = state, name, port

    def apply(self, parts: Sequence[Part]) -> None:
        """Have the server load a version beside the one that answers, and check it; see `Target`."""
        (part,) = parts
        version = part.version
        if self.serving() == {version.version: 1.0}:
            return
        online = snapshot.newest(self._state.lake, self._name, package.load(version.uri).preprocessing)
        endpoint.start_or_update(self._state, version, endpoint.example(version.uri, online), self._port)

    def serving(self) -> dict[int, float]:
        """Return what the server says; see `Target`."""
        if not endpoint.running(self._state.registry, self._name):
            return {}
        return {int(self._call("GET", "/model")["version"]): 1.0}

    def ask(self, part: Part) -> Any:
        """Ask the server; see `Target`."""
        return self._call("POST", "/score", json.dumps(part.request))

    def measured(self, *_: object) -> None:
        """Say nothing: no challenger answers here; see `Target`."""

    def clean(self, parts: Sequence[Part]) -> None:
        """Stop the server when nothing is wanted; the files of versions are the registry's; see `Target`."""
        if not parts:
            endpoint.stop(self._state.registry, self._name)

    def _call(self, method: str, path: str, body: str | None = None) -> Any:
        server = endpoint.running(registry.root(self._state.registry), self._name)
        if server is None:
            raise UnavailableError(f"the endpoint of {self._name!r} has ended meanwhile; run it again")
        connection = http.client.HTTPConnection(server.host, server.port, timeout=10)
        try:
            connection.request(method, path, body)
            return json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnavailableError(f"{server.url} does not answer: {error}; run it again") from None
        finally:
            connection.close()
