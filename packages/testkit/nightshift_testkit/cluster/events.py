"""Events, which say what the cluster does and why."""

import hashlib

from nightshift_testkit.cluster.kinds import EVENT, Json
from nightshift_testkit.cluster.store import ResourceStore, now


def record(store: ResourceStore, about: Json, reason: str, message: str, kind: str = "Normal") -> None:
    """Say it once; what is said again counts."""
    meta = about["metadata"]
    namespace = meta.get("namespace", "default")
    key = hashlib.sha256(f"{meta['uid']}{reason}{message}".encode()).hexdigest()[:16]
    name = f"{meta['name']}.{key}"
    with store.changed:
        if store.peek(EVENT, name, namespace):
            value = store.get(EVENT, name, namespace)
            # at most once a second: an event is a change, after which everybody looks again
            if value["lastTimestamp"] == now():
                return
            store.replace(EVENT, value | {"count": value["count"] + 1, "lastTimestamp": now()})
        else:
            store.add(EVENT, _event(about, name, namespace) | {"reason": reason, "message": message, "type": kind})


def _event(about: Json, name: str, namespace: str) -> Json:
    meta = about["metadata"]
    reference = {"namespace": namespace, "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"apiVersion": about.get("apiVersion", "v1"), "kind": about.get("kind", "Pod")} | reference,
        "source": {"component": "stand-in"},
        "firstTimestamp": now(),
        "lastTimestamp": now(),
        "count": 1,
    }
