"""This machine: the endpoint that the deployment step starts. It answers each customer by one of the two versions.

Only raw events name a customer; who sends features is answered by the champion.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from components.release.targets import TOLERANCE, BadVersionError, VersionShare
from nightshift import registry
from nightshift.contracts.state import State
from nightshift.http.client import NO_HEADERS
from nightshift.local import endpoint, examples, processes
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.progress import Patience, Progress, cpu_seconds
from nightshift.serving.files import Challenger


class Local:
    """The endpoint of a use case."""

    splits, tolerance = True, TOLERANCE

    def __init__(
        self, state: State, name: str, port: int = endpoint.PORT, patience: Patience = endpoint.PATIENCE
    ) -> None:
        """Makes no calls.

        Args:
            state: where the registry and the snapshots of the online state are.
            name: the use case.
            port: where the first server listens, see `endpoint.start_or_update`.
            patience: how long the server is waited for.
        """
        self._state, self._name, self._port, self._patience = state, name, port, patience

    def apply(self, split: Sequence[VersionShare]) -> None:
        """Have the server load versions beside those that answer, and check them; see `ReleaseTarget`."""
        version, challenger = split[0].version, _challenger(split)
        serves = self.serving() == {share.version.version: share.traffic for share in split}
        if serves and self._points_at(version, challenger):
            return
        try:
            example = examples.build_example(self._state, self._name, version.uri)
            endpoint.start_or_update(self._state, version, example, self._port, challenger, self._patience)
        except UserError as error:
            raise BadVersionError(str(error)) from None

    def serving(self) -> dict[int, float]:
        """Return what the server says; see `ReleaseTarget`."""
        if not endpoint.find_running(self._state.registry, self._name):
            return {}
        answer = self._call("/model")
        beside = {answer["challenger"]["version"]: answer["challenger"]["share"]} if answer["challenger"] else {}
        return {answer["version"]: 1 - sum(beside.values())} | beside

    def ask(self, share: VersionShare) -> Any:
        """Ask a version, whoever the server answers otherwise; see `ReleaseTarget`."""
        return self._call("/score", share.request, {"X-Model-Version": str(share.version.version)})

    def measure(self, *_: object) -> None:
        """Not available: the server counts the requests of both versions together; see `ReleaseTarget`."""

    def clean(self, split: Sequence[VersionShare]) -> None:
        """Stop the server when nothing is wanted; the files of versions are the registry's; see `ReleaseTarget`."""
        if not split:
            endpoint.stop(self._state.registry, self._name)

    def _points_at(self, version: registry.Version, challenger: Challenger | None) -> bool:
        """Return whether the server stays with what it serves: it follows its pointer within a moment."""
        uri = self._state.registry
        is_version = endpoint.find_version(uri, self._name) == version.version
        return is_version and endpoint.find_challenger(uri, version) == challenger

    def _call(self, path: str, body: object = None, headers: Mapping[str, str] = NO_HEADERS) -> Any:
        waited, seconds = Progress(self._patience), min(endpoint.CALL_SECONDS, self._patience.still)
        while server := endpoint.find_running(registry.root(self._state.registry), self._name):
            if reply := processes.call(server, path, seconds, body, headers):
                return reply.content
            # whole seconds: a server that only waits takes a little of them too
            if stalled := waited.stall_reason(int(cpu_seconds(server.pid) or 0)):
                raise UnavailableError(f"{server.url} does not answer {stalled}; run it again")
            time.sleep(0.05)
        raise UnavailableError(f"the endpoint of {self._name!r} has ended meanwhile; run it again")


def _challenger(split: Sequence[VersionShare]) -> Challenger | None:
    if len(split) == 1:
        return None
    version = split[1].version
    return Challenger(version.version, version.uri, version.sha256, split[1].traffic)
