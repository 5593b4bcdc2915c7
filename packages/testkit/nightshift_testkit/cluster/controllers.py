"""What the cluster does by itself, whenever something changes."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from nightshift_testkit.cluster import admission, events, quantities, scheduling
from nightshift_testkit.cluster.jobs import Jobs
from nightshift_testkit.cluster.kinds import CLAIM, EVENT, NAMESPACE, NODE, POD, QUOTA, VOLUME, Json, ResourceKind
from nightshift_testkit.cluster.operations import FOREGROUND, Operations, condition
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.store import ResourceStore
from nightshift_testkit.cluster.workloads import Workloads

LOOK = 0.2  # seconds after which it looks although nothing has changed
UNSCHEDULABLE = "Unschedulable"


class Controllers(threading.Thread):
    """The scheduler, the garbage collector and what fills in statuses."""

    def __init__(self, store: ResourceStore, operations: Operations, sync: Callable[[], None]) -> None:
        super().__init__(name="controllers", daemon=True)
        self._store, self._operations = store, operations
        self._stopped = threading.Event()
        self._jobs, self._workloads = Jobs(store, operations), Workloads(store, operations)
        self._tainted: dict[str, float] = {}
        # the kubelet last: it starts what the others have placed
        self._steps = (
            self._bind,
            self._schedule,
            self._taints,
            self._orphans,
            self._foreground,
            self._namespaces,
            self._jobs.sync,
            self._workloads.sync,
            self._quotas,
            sync,
        )

    def run(self) -> None:
        seen = 0
        while not self._stopped.is_set():
            with self._store.changed:
                self._store.changed.wait_for(lambda seen=seen: self._store.version != seen, LOOK)
                seen = self._store.version
            for step in self._steps:
                # somebody else was faster: the next round sees it
                with contextlib.suppress(StatusError):
                    step()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _schedule(self) -> None:
        waiting = [pod for pod in self._store.select(POD) if _waits(pod)]
        for pod in sorted(waiting, key=lambda pod: -pod["spec"].get("priority", 0)):
            with self._store.changed:
                node, why = scheduling.choose_node(self._store, pod)
                if node:
                    self._assign(pod, node)
                else:
                    self._unplaced(pod, why)

    def _assign(self, pod: Json, node: str) -> None:
        def edit(value: Json) -> None:
            value["spec"]["nodeName"] = node
            condition(value, "PodScheduled", "True")

        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        self._operations.change(POD, name, edit, namespace)
        events.record(self._store, pod, "Scheduled", f"Successfully assigned {namespace}/{name} to {node}")

    def _unplaced(self, pod: Json, why: str) -> None:
        def edit(value: Json) -> None:
            condition(value, "PodScheduled", "False", UNSCHEDULABLE, why)

        before = {item["type"]: item.get("message") for item in pod["status"].get("conditions", [])}
        if before.get("PodScheduled") != why:
            self._operations.change(POD, pod["metadata"]["name"], edit, pod["metadata"]["namespace"])
            events.record(self._store, pod, "FailedScheduling", why, "Warning")

    def _bind(self) -> None:
        """Give every claim its volume; a claim of a class or volume that is not there waits."""
        classes = {
            value["metadata"]["name"]
            for kind in self._store.kinds()
            if kind.name == "StorageClass"
            for value in self._store.select(kind)
        }
        for claim in self._store.copies(CLAIM):
            spec = claim["spec"]
            known = spec.get("storageClassName", "") in classes | {""}
            if known and self._volume_fits(spec) and claim.get("status", {}).get("phase") != "Bound":
                claim["status"] = {
                    "phase": "Bound",
                    "accessModes": spec["accessModes"],
                    "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                }
                self._store.replace(CLAIM, claim)

    def _volume_fits(self, claim: Json) -> bool:
        """Whether the volume that a claim names, if it does, is there, of its class, and large enough."""
        if "volumeName" not in claim:
            return True
        volume = self._store.peek(VOLUME, claim["volumeName"])
        if volume is None:
            return False
        wanted, capacity = claim["resources"]["requests"]["storage"], volume["spec"]["capacity"]["storage"]
        same = claim.get("storageClassName", "") == volume["spec"].get("storageClassName", "")
        modes = set(claim["accessModes"]) <= set(volume["spec"]["accessModes"])
        return same and modes and quantities.number(wanted) <= quantities.number(capacity)

    def _taints(self) -> None:
        """Delete pods from nodes that no longer want them, at once or when they have been tolerated long enough."""
        for pod in self._store.select(POD):
            node = self._store.peek(NODE, pod["spec"].get("nodeName", ""))
            if node is None or "deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] in admission.ENDED:
                continue
            seconds = scheduling.seconds_left(pod, node["spec"].get("taints", []))
            uid = pod["metadata"]["uid"]
            if seconds is None:
                self._tainted.pop(uid, None)
            elif time.monotonic() >= self._tainted.setdefault(uid, time.monotonic()) + seconds:
                self._displace(pod, "DeletionByTaintManager", None)

    def _displace(self, pod: Json, reason: str, grace: int | None) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        self._operations.change(
            POD, name, lambda value: condition(value, "DisruptionTarget", "True", reason), namespace
        )
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self._operations.delete(POD, name, namespace, options)

    def _orphans(self) -> None:
        """Delete pods whose node is gone, and objects whose owners are."""
        for pod in self._store.select(POD):
            node = pod["spec"].get("nodeName")
            if node and self._store.peek(NODE, node) is None:
                self._displace(pod, "DeletionByPodGC", 0)
        there = {value["metadata"]["uid"] for kind in self._store.kinds() for value in self._store.select(kind)}
        for kind, value in self._everything():
            owners = value["metadata"].get("ownerReferences", [])
            if owners and "deletionTimestamp" not in value["metadata"] and not there & {item["uid"] for item in owners}:
                self._operations.delete(kind, value["metadata"]["name"], value["metadata"].get("namespace", ""))

    def _foreground(self) -> None:
        """Delete what objects own that are to go last."""
        for kind, value in list(self._everything()):
            if "deletionTimestamp" in value["metadata"] and FOREGROUND in value["metadata"].get("finalizers", []):
                self._before(kind, value["metadata"])

    def _before(self, kind: ResourceKind, meta: Json) -> None:
        owned = [
            (other, value)
            for other, value in self._everything()
            if any(item["uid"] == meta["uid"] for item in value["metadata"].get("ownerReferences", []))
        ]
        for other, value in owned:
            if "deletionTimestamp" not in value["metadata"]:
                how = {} if other == POD else {"propagationPolicy": "Foreground"}
                self._operations.delete(other, value["metadata"]["name"], value["metadata"].get("namespace", ""), how)
        if not owned:
            self._operations.release(kind, meta["name"], meta.get("namespace", ""))

    def _everything(self) -> Iterator[tuple[ResourceKind, Json]]:
        return ((kind, value) for kind in self._store.kinds() for value in self._store.select(kind))

    def _namespaces(self) -> None:
        for namespace in self._store.copies(NAMESPACE):
            if "deletionTimestamp" in namespace["metadata"]:
                self._emptied(namespace)

    def _emptied(self, namespace: Json) -> None:
        name = namespace["metadata"]["name"]
        left = [(kind, value) for kind, value in self._everything() if value["metadata"].get("namespace") == name]
        for kind, value in left:
            if "deletionTimestamp" not in value["metadata"]:
                self._operations.delete(kind, value["metadata"]["name"], name)
        if all(kind == EVENT for kind, _ in left):
            self._store.remove(NAMESPACE, namespace)

    def _quotas(self) -> None:
        quotas = list(self._store.select(QUOTA))
        namespaces = {quota["metadata"]["namespace"] for quota in quotas}
        usage = {namespace: admission.usage(self._store, namespace) for namespace in namespaces}
        for quota in quotas:
            hard, current = quota["spec"].get("hard", {}), usage[quota["metadata"]["namespace"]]
            used = {key: quantities.text(quantities.number(str(current[key]))) for key in hard}
            if quota.get("status") != {"hard": hard, "used": used}:
                self._store.replace(QUOTA, quota | {"status": {"hard": hard, "used": used}})


def _waits(pod: Json) -> bool:
    return (
        not pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and pod["status"]["phase"] == "Pending"
    )
