"""Deployments, stateful sets and daemon sets: pods, as many as they want of their present template."""

import copy
import hashlib
import json
from collections.abc import Iterator

from nightshift_testkit.cluster import events, scheduling
from nightshift_testkit.cluster.kinds import CLAIM, DAEMON_SET, DEPLOYMENT, NODE, POD, STATEFUL_SET, Json, ResourceKind
from nightshift_testkit.cluster.operations import Operations, condition, is_ready
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.store import ResourceStore

HASH = "pod-template-hash"


class Workloads:
    """The controllers of what runs for ever."""

    def __init__(self, store: ResourceStore, operations: Operations) -> None:
        self._store, self._operations = store, operations

    def sync(self) -> None:
        for kind in (DEPLOYMENT, STATEFUL_SET, DAEMON_SET):
            for value in self._store.select(kind):
                if "deletionTimestamp" not in value["metadata"]:
                    self._advance(kind, value)

    def _advance(self, kind: ResourceKind, value: Json) -> None:
        wanted, there = self._wanted(kind, value), {pod["metadata"]["name"] for pod in self._pods(value)}
        for name in there - wanted.keys():
            self._operations.delete(POD, name, value["metadata"]["namespace"])
        for name in wanted.keys() - there:
            self._make(kind, value, name, wanted[name])
        self._write(kind, value, len(wanted))

    def _wanted(self, kind: ResourceKind, value: Json) -> dict[str, str]:
        """The names of a workload's pods, and the nodes of a daemon set's."""
        name = f"{value['metadata']['name']}-{_digest(value)}"
        if kind == DAEMON_SET:
            spec = value["spec"]["template"]["spec"]
            nodes = [node for node in self._store.select(NODE) if not scheduling.unwelcome(spec, node)]
            return {f"{name}-{node['metadata']['name']}": node["metadata"]["name"] for node in nodes}
        numbers = range(value["spec"].get("replicas", 1))
        return {f"{value['metadata']['name'] if kind == STATEFUL_SET else name}-{number}": "" for number in numbers}

    def _pods(self, value: Json) -> Iterator[Json]:
        for pod in self._store.select(POD, value["metadata"]["namespace"]):
            if any(item["uid"] == value["metadata"]["uid"] for item in pod["metadata"].get("ownerReferences", [])):
                yield pod

    def _make(self, kind: ResourceKind, value: Json, name: str, node: str) -> None:
        pod, meta = copy.deepcopy(value["spec"]["template"]), value["metadata"]
        owner = {"apiVersion": kind.api_version, "kind": kind.name, "name": meta["name"], "uid": meta["uid"]}
        pod["metadata"] = pod.get("metadata", {}) | {"name": name, "ownerReferences": [owner | {"controller": True}]}
        pod["metadata"]["labels"] = pod["metadata"].get("labels", {}) | {HASH: _digest(value)}
        if node:
            pod["spec"]["nodeName"] = node
        try:
            for claim in value["spec"].get("volumeClaimTemplates", []):
                self._claim(claim, pod, meta["namespace"])
            self._operations.create(POD, pod, meta["namespace"])
        except StatusError as error:
            # the next round tries again
            events.record(self._store, value, "FailedCreate", f"Error creating: {error}", "Warning")

    def _claim(self, template: Json, pod: Json, namespace: str) -> None:
        """Make the claim that one pod of a stateful set keeps, and let the pod mount it."""
        title = template["metadata"]["name"]
        name = f"{title}-{pod['metadata']['name']}"
        if self._store.peek(CLAIM, name, namespace) is None:
            self._operations.create(CLAIM, {"metadata": {"name": name}, "spec": template["spec"]}, namespace)
        volume = {"name": title, "persistentVolumeClaim": {"claimName": name}}
        pod["spec"]["volumes"] = [*pod["spec"].get("volumes", []), volume]

    def _write(self, kind: ResourceKind, value: Json, wanted: int) -> None:
        staying = (pod for pod in self._pods(value) if "deletionTimestamp" not in pod["metadata"])
        ready = sum(map(is_ready, staying))
        counts = {"numberReady": ready, "desiredNumberScheduled": wanted, "currentNumberScheduled": wanted}
        counts |= {"numberMisscheduled": 0}
        if kind != DAEMON_SET:
            counts = {"replicas": wanted, "readyReplicas": ready, "updatedReplicas": wanted, "availableReplicas": ready}

        counts["observedGeneration"] = value["metadata"]["generation"]

        def edit(current: Json) -> None:
            current["status"] = current.get("status", {}) | counts
            if kind == DEPLOYMENT:
                condition(current, "Available", str(ready == wanted))

        if not counts.items() <= value.get("status", {}).items():
            self._operations.change(kind, value["metadata"]["name"], edit, value["metadata"]["namespace"])


def _digest(value: Json) -> str:
    return hashlib.sha256(json.dumps(value["spec"]["template"], sort_keys=True).encode()).hexdigest()[:8]
