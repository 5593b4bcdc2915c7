"""Objects for tests of the cluster."""

import json
import os
import secrets
from typing import Any

import pytest
from kubernetes.client import ApiException

from nightshift.runtime.image import image
from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import POD, Json
from nightshift_testkit.processes import wait_until
from pipelines.environments import Role, site

KUBECONFIG = os.environ.get("NIGHTSHIFT_TEST_KUBECONFIG", "")  # kubeconfig of a cluster other than the stand-in
NAMESPACE = f"nightshift-tests-{secrets.token_hex(4)}" if KUBECONFIG else "default"
IMAGE = site("aws").placements[Role.LIGHT].image if KUBECONFIG else image("base")
needs_the_stand_in = pytest.mark.skipif(
    bool(KUBECONFIG), reason="needs the stand-in: another cluster has other nodes, volumes or names"
)
SAFE = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(script: str = "true", name: str = "step", *, container: Json | None = None, **spec: Any) -> Json:
    """A pod that runs a shell script."""
    base = {"name": "base", "image": IMAGE, "command": ["sh", "-c", script]} | (container or {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": [base]} | spec,
    }


def gpu(count: int = 1, name: str = "step") -> Json:
    return pod(name=name, container={"resources": {"limits": {"nvidia.com/gpu": str(count)}}})


def named(kind: str, name: str, version: str = "v1", **fields: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}} | fields


def phase(cluster: SimulatedCluster, wanted: str, name: str = "step") -> Json:
    """Wait until a pod is in a phase, and return its status."""
    return until(cluster, lambda pod: pod["status"]["phase"] == wanted, f"{name} is {wanted}", name)["status"]


def until(cluster: SimulatedCluster, ask: Any, what: str, name: str = "step") -> Json:
    """Wait until something is true of a pod, and return it."""

    def look() -> Any:
        pod = cluster.peek(POD, name)
        return pod if pod and ask(pod) else None

    return wait_until(look, what)


def gone(cluster: SimulatedCluster, name: str = "step") -> bool:
    return wait_until(lambda: cluster.peek(POD, name) is None, f"{name} is gone")


def state(status: Json) -> Json:
    """The state of a pod's only container."""
    (container,) = status["containerStatuses"]
    return container["state"]


def waiting(cluster: SimulatedCluster, reason: str) -> str:
    """Wait until a pod's container waits for a reason; return the message."""

    def waits(pod: Json) -> bool:
        return any(
            item["state"].get("waiting", {}).get("reason") == reason
            for item in pod["status"].get("containerStatuses", [])
        )

    return str(state(until(cluster, waits, reason)["status"])["waiting"].get("message", ""))


def unplaced(cluster: SimulatedCluster) -> str:
    """Wait until a pod has no node; return why."""

    def waits(pod: Json) -> Any:
        return [
            item
            for item in pod["status"].get("conditions", [])
            if item["type"] == "PodScheduled" and item["status"] == "False"
        ]

    return str(waits(until(cluster, waits, "it has no node"))[0]["message"])


class Refusal:
    """What a server has refused, and why."""

    def __init__(self, error: "pytest.ExceptionInfo[ApiException]") -> None:
        body = json.loads(error.value.body)
        self.code, self.reason, self.message = body["code"], body["reason"], body["message"]

    @property
    def kind(self) -> tuple[int, str]:
        return self.code, self.reason


def refused(do: Any, *arguments: Any, **options: Any) -> Refusal:
    """Do what is to be refused."""
    with pytest.raises(ApiException) as error:
        do(*arguments, **options)
    return Refusal(error)
