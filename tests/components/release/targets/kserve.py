"""What the tests of KServe's modes share: the stand-in of its controllers, and clients that are counted."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes import client

from components.release.targets import rollout
from components.release.targets.kserve import NEWEST, KServe, Place, notes
from nightshift.errors import UnavailableError, UserError
from tests.cluster.api import Api
from tests.cluster.cluster import Cluster
from tests.cluster.kinds import LIMITS, POD, QUOTA, Json, Kind
from tests.cluster.problems import RefusedError
from tests.components.release.targets.versions import Counted, Fleet

# what is KServe's in a predictor, and no pod's
EXTENSION = (
    "minReplicas", "maxReplicas", "scaleMetric", "scaleTarget", "deploymentStrategy", "canaryTrafficPercent"
)  # fmt: skip


def furnish(cluster: Cluster) -> None:
    """Add what pods of a served model ask for."""
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nightshift", "labels": labels}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    cluster.apply(account | {"metadata": {"name": "serving", "namespace": "nightshift"}})
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    cluster.apply(priority | {"metadata": {"name": "nightshift-serving"}})


class Controller:
    """The controllers, which act when time passes."""

    def __init__(self, api: Api, fleet: Fleet) -> None:
        self.api, self.fleet = api, fleet
        self.adds: Json = {}  # what a webhook of somebody else's adds to pods
        self.kind: Kind = next(kind for kind in api.kinds if kind.plural == "inferenceservices")

    @property
    def objects(self) -> list[Json]:
        return self.api.store.copies(self.kind, "nightshift")

    def say(self, value: Json, status: Json) -> None:
        """Write the status of an object."""
        self.api.operations.change(
            self.kind, value["metadata"]["name"], lambda found: found.update(status=status), "nightshift"
        )

    def refusal(self, spec: Json) -> str:
        """What Kubernetes says to a pod of a spec; empty when it lets it in."""
        pod = {"metadata": {"name": "fraud-predictor-0"}, "spec": copy.deepcopy(spec) | self.adds}
        try:
            self.api.operations.create(POD, pod, "nightshift", dry=True)
        except RefusedError as error:
            return str(error)
        return ""

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
        self._kind, self.place, self._calls = kind, place, Calls(api, self.counted)

    def target(self, pause: Callable[[float], None] | None = None) -> KServe:
        controller = self.controller
        return self._kind("fraud", self.place, self._calls, controller.ask, pause or controller.pause)

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


@contextmanager
def bounded(serving: Serving, kind: Kind, spec: Json) -> Iterator[None]:
    """Have the namespace bounded for a while."""
    meta = {"name": "bound", "namespace": "nightshift"}
    serving.cluster.apply({"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec})
    try:
        yield
    finally:
        serving.cluster.api.operations.delete(kind, "bound", "nightshift")


def waits_for_room(serving: Serving, fleet: Fleet) -> None:
    """Bring a version while a quota leaves no room, and when there is some."""
    full = {"hard": {"count/inferenceservices.serving.kserve.io": "0"}}
    said = "create inferenceservices .*exceeded quota"
    with bounded(serving, QUOTA, full), pytest.raises(UnavailableError, match=said):
        rollout(serving.target(), fleet.parts(v1=1))
    rollout(serving.target(), fleet.parts(v1=1))
    with bounded(serving, QUOTA, {"hard": {"pods": "0"}}):
        with pytest.raises(UnavailableError, match=r"pods .* is forbidden: exceeded quota: bound, .*; run it again"):
            rollout(serving.target(), fleet.parts(v2=1), fleet.parts(v1=1))
        assert notes(serving.objects[0])[NEWEST].startswith("2:")  # nothing is taken back
        with pytest.raises(InterruptedError):
            serving.target(interrupted).apply(fleet.parts(v1=1))
        assert notes(serving.objects[0])[NEWEST].startswith("1:")  # unless it is asked for, without a wait before it
    rollout(serving.target(), fleet.parts(v2=1), fleet.parts(v1=1))
    assert serving.target().serving() == {2: 1}


def interrupted(_: float) -> None:
    raise InterruptedError


def blames_no_version(serving: Serving, fleet: Fleet) -> None:
    """Bring a version whose pods are refused: by Pod Security, then by a range of limits."""
    refused = "gets no pods in 'nightshift', whatever the version: .*pods .* is forbidden: "
    serving.controller.adds = {"hostNetwork": True}
    with pytest.raises(UserError, match=f'{refused}violates PodSecurity "baseline:latest"') as security:
        rollout(serving.target(), fleet.parts(v1=1))
    serving.controller.adds = {}
    rollout(serving.target(), fleet.parts(v1=1))
    limits = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
    with bounded(serving, LIMITS, limits), pytest.raises(UserError, match=f"{refused}maximum memory usage") as limit:
        serving.target().apply(fleet.parts(v2=1))
    rollout(serving.target(), fleet.parts(v1=1))
    assert serving.target().serving() == {1: 1}
    assert {type(security.value), type(limit.value)} == {UserError}
