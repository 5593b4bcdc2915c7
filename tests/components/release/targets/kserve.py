"""What the stand-ins of KServe's targets share: a cluster, and the controllers that act when time passes."""

import copy
import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from kubernetes import client, config

from components.release.targets.kserve import OWNER, KServe, KServeSettings
from nightshift_testkit.cluster.cluster import CRDS, SimulatedCluster, running
from nightshift_testkit.cluster.kinds import POD, Json, ResourceKind
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.runtimes import ProcessRuntime
from tests.components.release.targets.platform import Counted, Platform
from tests.components.release.targets.versions import Fleet


def furnish(cluster: SimulatedCluster) -> None:
    """Add what pods of a served model ask for."""
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nightshift", "labels": labels}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    cluster.apply(account | {"metadata": {"name": "serving", "namespace": "nightshift"}})
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    cluster.apply(priority | {"metadata": {"name": "nightshift-serving"}})


class Controllers(Platform):
    """The controllers of a cluster with KServe, which act when time passes."""

    kind: type[KServe]
    settings: KServeSettings
    crds = CRDS
    plural = "inferenceservices"
    late = "'fraud' does not become ready"
    many = False
    gpu: ClassVar = {"gpus": 1}

    def __init__(self, fleet: Fleet, cluster: SimulatedCluster, connection: client.CustomObjectsApi) -> None:
        super().__init__(fleet)
        self.cluster, self.api = cluster, cluster.api
        self.adds: Json = {}  # what a webhook of somebody else's adds to pods
        self.services: ResourceKind = next(kind for kind in self.api.kinds if kind.plural == self.plural)
        self._calls = Calls(connection, self.counted)

    @classmethod
    @contextmanager
    def running(cls, fleet: Fleet, folder: Path, acts: bool = True) -> Iterator[Self]:
        if not cls.crds.exists():
            pytest.skip(f"{cls.crds} is missing")
        with running(ProcessRuntime(), folder / "cluster", cls.crds, acts=acts) as cluster:
            furnish(cluster)
            with config.new_client_from_config(str(cluster.config(folder / "config"))) as connection:
                yield cls(fleet, cluster, client.CustomObjectsApi(connection))

    @abstractmethod
    def pass_time(self, _: float) -> None:
        """Let each controller take a step."""

    @abstractmethod
    def ask(self, url: str, body: bytes) -> bytes:
        """Answer a request to a model's address."""

    def target(self, name: str = "fraud", **settings: Any) -> KServe:
        return self.waiting(self.pass_time, name, **settings)

    def waiting(self, pause: Callable[[float], None], name: str = "fraud", **settings: Any) -> KServe:
        """A target that waits in another way."""
        return self.kind(name, dataclasses.replace(self.settings, **settings), self._calls, self.ask, pause)

    def nowhere(self) -> None:
        return None

    @contextmanager
    def standing_still(self) -> Iterator[KServe]:
        yield self.waiting(lambda _: None)

    @property
    def objects(self) -> list[Json]:
        return self.api.store.copies(self.services, "nightshift")

    def state(self) -> list[tuple[Json, dict[int, float]]]:
        return [(value["spec"], self.shares()) for value in self.objects]

    def edit(self, edit: Callable[[Json], None]) -> None:
        """Change the object as somebody else would."""
        self.api.operations.change(self.services, "fraud", edit, "nightshift")

    def intrude(self) -> None:
        self.edit(lambda value: value["spec"]["predictor"].update(maxReplicas=3))

    @property
    def foreign(self) -> Sequence[tuple[Callable[[], None], str]]:
        def disown() -> None:
            self.edit(lambda value: value["metadata"]["annotations"].pop(OWNER))

        def convert() -> None:
            self.edit(lambda value: value["status"].update(deploymentMode="Knative"))

        return (
            (disown, "'fraud' exists and has no annotation nightshift/use-case=fraud"),
            (convert, r"is in mode Knative, and state\.serving\.kind means Standard"),
        )

    def command(self) -> list[str]:
        (container,) = self.objects[0]["spec"]["predictor"]["containers"]
        return list(container["args"])

    def say(self, value: Json, status: Json) -> None:
        """Write the status of an object."""
        name = value["metadata"]["name"]
        self.api.operations.change(self.services, name, lambda service: service.update(status=status), "nightshift")

    def refusal(self, spec: Json) -> str:
        """What Kubernetes says to a pod of a spec; empty when it lets it in."""
        pod = {"metadata": {"name": "fraud-predictor-0"}, "spec": copy.deepcopy(spec) | self.adds}
        try:
            self.api.operations.create(POD, pod, "nightshift", dry=True)
        except StatusError as error:
            return str(error)
        return ""

    def clear(self) -> None:
        for value in self.objects:
            self.api.operations.delete(self.services, value["metadata"]["name"], "nightshift")


class Calls:
    """Counts the calls of a client, and ends the process before one of them."""

    def __init__(self, client: Any, counted: Counted) -> None:
        self._client, self._counted = client, counted

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(**arguments: Any) -> Any:
            self._counted.count(name)
            return method(**arguments)

        return call


def number(model: str) -> int:
    """The version of a model, by the end of its URI."""
    return int(model.rpartition("/")[2])
