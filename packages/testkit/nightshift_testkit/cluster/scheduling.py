"""Which node a pod gets."""

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from nightshift_testkit.cluster import quantities, selectors
from nightshift_testkit.cluster.admission import ENDED, requests
from nightshift_testkit.cluster.kinds import CLAIM, NODE, POD, Json
from nightshift_testkit.cluster.store import ResourceStore


def choose_node(store: ResourceStore, pod: Json) -> tuple[str | None, str]:
    """Return the node that a pod fits on, and if there is none, why."""
    if why := _claims(store, pod):
        return None, why
    nodes, reasons = list(store.select(NODE)), Counter[str]()
    for node in nodes:
        against = list(_against(store, pod, node))
        if not against:
            return node["metadata"]["name"], ""
        reasons.update(against)
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return None, f"0/{len(nodes)} nodes are available: {listed or 'there are none'}."


def _claims(store: ResourceStore, pod: Json) -> str:
    for volume in pod["spec"].get("volumes", []):
        if source := volume.get("persistentVolumeClaim"):
            claim = store.peek(CLAIM, source["claimName"], pod["metadata"]["namespace"])
            if claim is None:
                return f'persistentvolumeclaim "{source["claimName"]}" not found'
            if claim.get("status", {}).get("phase") != "Bound":
                return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def _against(store: ResourceStore, pod: Json, node: Json) -> Iterable[str]:
    """Why a pod cannot run on a node; the first kind of reason only, as the scheduler's filters have it."""
    spec = pod["spec"]
    if node["spec"].get("unschedulable"):
        return ["node(s) were unschedulable"]
    return unwelcome(spec, node) or _short(store, pod, node)


def unwelcome(spec: Json, node: Json) -> list[str]:
    """Why a pod may not run on a node, whatever room it has; nothing where it may."""
    for taint in node["spec"].get("taints", []):
        if taint["effect"] != "PreferNoSchedule" and not tolerated(spec, taint):
            return [f"node(s) had untolerated taint(s) {{{taint['key']}: {taint.get('value', '')}}}"]
    if not _wanted(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return []


def _wanted(spec: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels", {})
    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = affinity["nodeSelectorTerms"] if affinity else [{}]
    chosen = spec.get("nodeSelector", {}).items() <= labels.items()
    return chosen and any(selectors.fits(labels, term) for term in terms)


def _short(store: ResourceStore, pod: Json, node: Json) -> list[str]:
    name = node["metadata"]["name"]
    here = [
        other
        for other in store.select(POD)
        if other["spec"].get("nodeName") == name and other["status"].get("phase") not in ENDED
    ]
    allocated: Counter[str] = Counter()
    for other in here:
        allocated.update(requests(other["spec"]))
    room = {key: quantities.number(amount) for key, amount in node["status"]["allocatable"].items()}
    problems = [] if len(here) < room.get("pods", 110) else ["Too many pods"]
    requested = requests(pod["spec"])
    return problems + [
        f"Insufficient {key}"
        for key in sorted(requested)
        if allocated[key] + requested[key] > room.get(key, Decimal(0))
    ]


def tolerated(spec: Json, taint: Json) -> Json | None:
    """The toleration of a pod that a taint is met by."""
    return next((item for item in spec.get("tolerations", []) if _meets(item, taint)), None)


def _meets(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect", taint["effect"]) != taint["effect"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return bool(toleration.get("key", taint["key"]) == taint["key"])
    return (toleration.get("key"), toleration.get("value", "")) == (taint["key"], taint.get("value", ""))


def seconds_left(pod: Json, taints: list[Any]) -> int | None:
    """How long a pod may stay on a node with these taints: None for ever, 0 not at all."""
    seconds: list[int] = []
    for taint in taints:
        if taint["effect"] == "NoExecute":
            toleration = tolerated(pod["spec"], taint)
            if toleration is None:
                return 0
            if "tolerationSeconds" in toleration:
                seconds.append(toleration["tolerationSeconds"])
    return min(seconds, default=None)
