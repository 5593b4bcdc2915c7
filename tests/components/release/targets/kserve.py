"""What the tests of KServe's modes share: the stand-in of its controllers, and clients that are counted."""

from collections.abc import Callable
from typing import Any

from kubernetes import client

from components.release.targets.kserve import KServe, Place
from tests.cluster.api import Api
from tests.cluster.cluster import Cluster
from tests.cluster.kinds import Json, Kind
from tests.components.release.targets.versions import Counted, Fleet


class Controller:
    """The controllers, which act when time passes."""

    def __init__(self, api: Api, fleet: Fleet) -> None:
        self.api, self.fleet = api, fleet
        self.kind: Kind = next(kind for kind in api.kinds if kind.plural == "inferenceservices")

    @property
    def objects(self) -> list[Json]:
        return self.api.store.copies(self.kind, "nightshift")

    def say(self, value: Json, status: Json) -> None:
        """Write the status of an object."""
        self.api.operations.change(
            self.kind, value["metadata"]["name"], lambda found: found.update(status=status), "nightshift"
        )

    def clear(self) -> None:
        """Delete all objects, and what was made of them."""
        for value in self.objects:
            self.api.operations.delete(self.kind, value["metadata"]["name"], "nightshift")

    def saved(self) -> Callable[[], None]:
        """A function that brings everything back to what it is now."""
        before = self.objects

        def restore() -> None:
            self.clear()
            for value in before:
                self.api.store.add(self.kind, value)

        return restore

    def pause(self, _: float) -> None:
        raise NotImplementedError

    def ask(self, url: str, body: bytes) -> bytes:
        raise NotImplementedError


class Serving:
    """A cluster with KServe, and how it is reached."""

    def __init__(
        self, cluster: Cluster, api: client.CustomObjectsApi, controller: Controller, kind: type[KServe], place: Place
    ) -> None:
        self.cluster, self.controller, self.counted = cluster, controller, Counted()
        self._kind, self._place, self._calls = kind, place, Calls(api, self.counted)

    def target(self, pause: Callable[[float], None] | None = None) -> KServe:
        controller = self.controller
        return self._kind("fraud", self._place, self._calls, controller.ask, pause or controller.pause)

    @property
    def objects(self) -> list[Json]:
        return self.controller.objects

    def state(self) -> list[tuple[Json, dict[int, float]]]:
        return [(value["spec"], self.target().serving()) for value in self.objects]

    def edit(self, edit: Callable[[Json], None]) -> None:
        """Change the object as somebody else would."""
        self.cluster.api.operations.change(self.controller.kind, "fraud", edit, "nightshift")


def uri(spec: Json) -> str:
    """The model that pods of a spec serve."""
    (container,) = spec["containers"]
    args = container["args"]
    return str(args[args.index("--model") + 1])


class Calls:
    """Counts the calls of a client, and ends the process before one of them."""

    def __init__(self, client: Any, counted: Counted) -> None:
        self._client, self._counted = client, counted

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(**given: Any) -> Any:
            self._counted.count(name)
            return method(**given)

        return call
