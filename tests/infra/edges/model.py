"""A cluster with our objects and those of the charts, as far as calls between pods go."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from infra.cluster import core
from infra.terraform import INFRA

Json = dict[str, Any]
# facts of every object that the charts make with our values: its README
CHARTS = INFRA.parents[1] / "shared" / "charts" / "objects"
_WORKLOADS = ("DaemonSet", "Deployment", "Job", "StatefulSet")


@dataclass(frozen=True)
class Pod:
    """Pods of one workload.

    Attributes:
        name: of the workload.
        namespace: they run in.
        labels: by which policies and services choose them.
        account: they run under.
        ports: they listen at, by name.
        says: everything the workload is given, as a text.
        on_host: they have their node's address, which no network policy covers.
    """

    name: str
    namespace: str
    labels: Mapping[str, str] = field(hash=False)
    account: str = "default"
    ports: Mapping[str, int] = field(default_factory=dict, hash=False)
    says: str = ""
    on_host: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Service:
    """A name, and the pods behind it."""

    name: str
    namespace: str
    ports: tuple[Json, ...] = field(hash=False)
    selector: Mapping[str, str] = field(hash=False)
    labels: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True)
class Cluster:
    """Everything that is there."""

    objects: tuple[Json, ...]
    pods: tuple[Pod, ...]
    services: tuple[Service, ...]

    def of_kind(self, *kinds: str) -> list[Json]:
        """Return the objects of some kinds."""
        return [fact for fact in self.objects if fact["kind"] in kinds]

    def service(self, namespace: str, name: str) -> Service | None:
        """Return a service by its name."""
        return next((one for one in self.services if (one.namespace, one.name) == (namespace, name)), None)

    def behind(self, service: Service) -> list[Pod]:
        """Return the pods that a service chooses."""
        return [
            pod
            for pod in self.pods
            if pod.namespace == service.namespace and service.selector.items() <= pod.labels.items()
        ]


def cluster(ours: Iterable[Json], cloud: str, more: Iterable[Pod] = ()) -> Cluster:
    """Put together our objects, the charts', and pods that are started later."""
    objects = [*map(_flat, ours), *_of_charts(cloud)]
    pods = [_pod(fact) for fact in objects if fact["kind"] in _WORKLOADS]
    return Cluster(
        tuple(objects), (*pods, *more), tuple(_service(fact) for fact in objects if fact["kind"] == "Service")
    )


def _flat(value: Json) -> Json:
    """Return an object of ours in the form that the charts' facts have."""
    spec = value.get("spec", {})
    template = spec.get("template", {})
    flat = {**value, **value["metadata"], "apiVersion": value["apiVersion"]}
    if value["kind"] == "Service":
        return flat | {"ports": spec["ports"], "selector": spec["selector"]}
    if value["kind"] in _WORKLOADS:
        pod = template["spec"]
        return (
            flat
            | pod
            | {
                "podLabels": template.get("metadata", {}).get("labels", {}),
                "serviceAccount": pod.get("serviceAccountName"),
            }
        )
    return flat


def _of_charts(cloud: str) -> Iterator[Json]:
    rows = yaml.safe_load((Path(core.__file__).parent / "charts.yaml").read_text())
    for row in rows:
        path = CHARTS / f"{row['name']}.yaml"
        if cloud in row["clouds"] and path.exists():
            for value in yaml.safe_load_all(path.read_text()):
                yield {"namespace": row["namespace"], **value}


def _pod(value: Json) -> Pod:
    ports = {
        port.get("name", str(port["containerPort"])): port["containerPort"]
        for container in value.get("containers", [])
        for port in container.get("ports") or []
    }
    account = value.get("serviceAccount") or "default"
    on_host = bool(value.get("hostNetwork"))
    return Pod(value["name"], value["namespace"], value["podLabels"], account, ports, json.dumps(value), on_host)


def _service(value: Json) -> Service:
    return Service(
        value["name"],
        value["namespace"],
        tuple(value.get("ports", [])),
        value.get("selector") or {},
        value.get("labels") or {},
    )
