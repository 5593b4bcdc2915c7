"""What a request does to the objects, whoever asks."""

import copy
import secrets
from collections.abc import Callable
from typing import Any

from nightshift_testkit.cluster import admission, immutability, patches, selectors, validation
from nightshift_testkit.cluster.kinds import BUDGET, CONFIG_MAP, NAMESPACE, POD, SERVICE_ACCOUNT, Json, ResourceKind
from nightshift_testkit.cluster.problems import StatusError, invalid, missing
from nightshift_testkit.cluster.store import ResourceStore, conflict, now

LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # letters of names that the server makes
ENDED = ("Succeeded", "Failed")
FOREGROUND = "foregroundDeletion"  # keeps an object until all that it owns is gone
# what a client may not set
OURS = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


class Operations:
    """Creates, changes and deletes objects as the API server does."""

    def __init__(self, store: ResourceStore) -> None:
        self._store = store
        self.webhooks: list[Callable[[ResourceKind, Json], None]] = []  # refuse what is created or changed

    def create(self, kind: ResourceKind, value: Any, namespace: str = "", dry: bool = False) -> Json:
        created = _read(kind, value, namespace)
        meta = created["metadata"]
        if "generateName" in meta and not meta.get("name"):
            meta["name"] = meta["generateName"] + "".join(secrets.choice(LETTERS) for _ in range(5))
        if meta.pop("resourceVersion", None):
            raise StatusError(500, "resourceVersion should not be set on objects to be created")
        for name in OURS:
            meta.pop(name, None)
        created = validation.defaulted(kind, created)
        self._check(kind, created)
        if kind.has_status:
            created.pop("status", None)
        with self._store.changed:
            admitted = admission.admit(self._store, kind, created)
            if kind == NAMESPACE:
                _begin_namespace(admitted)
            return admitted if dry else self._added(kind, admitted)

    def _check(self, kind: ResourceKind, value: Json) -> None:
        validation.validate(kind, value)
        for webhook in self.webhooks:
            webhook(kind, value)

    def _added(self, kind: ResourceKind, value: Json) -> Json:
        done = self._store.add(kind, value)
        if kind == NAMESPACE:
            name = value["metadata"]["name"]
            self.create(SERVICE_ACCOUNT, _bare(SERVICE_ACCOUNT, "default"), name)
            self.create(CONFIG_MAP, _bare(CONFIG_MAP, "kube-root-ca.crt") | {"data": {"ca.crt": ""}}, name)
        return done

    def update(
        self, kind: ResourceKind, name: str, value: Any, namespace: str = "", part: str = "", dry: bool = False
    ) -> Json:
        """Replace an object, or with `part` its status."""
        changed = _read(kind, value, namespace)
        if changed["metadata"].get("name", name) != name:
            raise StatusError(400, "the name of the object does not match the name on the URL")
        with self._store.changed:
            before = self._store.get(kind, name, namespace)
            if changed["metadata"].get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
                raise conflict(kind, name)
            after = _combined(kind, before, changed, part)
            self._check(kind, after)
            immutability.check(kind, before, after)
            return after if dry else self._replaced(kind, before, after)

    def _replaced(self, kind: ResourceKind, before: Json, after: Json) -> Json:
        done = self._store.replace(kind, after)
        # an object that somebody has deleted goes with its last finalizer
        if before["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers") and kind != POD:
            self._store.remove(kind, done)
        return done

    def patch(
        self,
        kind: ResourceKind,
        name: str,
        patch: Any,
        media: str,
        namespace: str = "",
        part: str = "",
        dry: bool = False,
    ) -> Json:
        if media == "application/strategic-merge-patch+json" and kind.schema is not None:
            raise StatusError(415, "strategic merge patch is not supported for custom resources")
        with self._store.changed:
            if media == "application/apply-patch+yaml" and not self._store.peek(kind, name, namespace):
                return self.create(kind, patch, namespace, dry)
            before = self._store.get(kind, name, namespace)
            return self.update(kind, name, patches.patched(before, patch, media), namespace, part, dry)

    def change(self, kind: ResourceKind, name: str, edit: Callable[[Json], Any], namespace: str = "") -> Json | None:
        """Change an object from inside the server; one that is gone is left alone."""
        with self._store.changed:
            if self._store.peek(kind, name, namespace) is None:
                return None
            value = self._store.get(kind, name, namespace)
            edit(value)
            return self._store.replace(kind, value)

    def delete(self, kind: ResourceKind, name: str, namespace: str = "", options: Json | None = None) -> Json:
        options = options or {}
        with self._store.changed:
            value = self._store.get(kind, name, namespace)
            _precondition(kind, value, options.get("preconditions", {}))
            if options.get("dryRun"):
                return value
            if options.get("propagationPolicy") == "Foreground":
                value["metadata"].setdefault("finalizers", []).append(FOREGROUND)
            if options.get("propagationPolicy") == "Orphan":
                self._orphan(value["metadata"]["uid"])
            return self._delete(kind, value, options.get("gracePeriodSeconds"))

    def _delete(self, kind: ResourceKind, value: Json, grace: int | None) -> Json:
        meta = value["metadata"]
        seconds = _grace(kind, value, grace)
        if not seconds and not meta.get("finalizers") and kind != NAMESPACE:
            self._store.remove(kind, value)
            return value
        if "deletionTimestamp" not in meta or seconds < meta.get("deletionGracePeriodSeconds", 0):
            meta["deletionTimestamp"] = meta.get("deletionTimestamp", now())
            meta["deletionGracePeriodSeconds"] = seconds
        if kind == NAMESPACE:
            value["status"] = {"phase": "Terminating"}
        return self._store.replace(kind, value)

    def release(self, kind: ResourceKind, name: str, namespace: str = "") -> None:
        """Let an object go that has waited for what it owned."""
        with self._store.changed:
            before = self._store.get(kind, name, namespace)
            after = copy.deepcopy(before)
            after["metadata"]["finalizers"].remove(FOREGROUND)
            self._replaced(kind, before, after)

    def _orphan(self, owner: str) -> None:
        for kind in self._store.kinds():
            for value in self._store.copies(kind):
                owners = value["metadata"].get("ownerReferences", [])
                kept = [item for item in owners if item["uid"] != owner]
                if kept != owners:
                    value["metadata"]["ownerReferences"] = kept
                    self._store.replace(kind, value)

    def evict(
        self, name: str, namespace: str, options: Json | None = None, reason: str = "EvictionByEvictionAPI"
    ) -> None:
        """Delete a pod if no budget forbids it.

        Raises:
            StatusError: 429, when one does.
        """
        with self._store.changed:
            pod = self._store.get(POD, name, namespace)
            if pod["status"]["phase"] not in ENDED:
                self._budgeted(pod)
            self.change(POD, name, lambda pod: condition(pod, "DisruptionTarget", "True", reason), namespace)
            self.delete(POD, name, namespace, options)

    def _budgeted(self, pod: Json) -> None:
        meta = pod["metadata"]
        for budget in self._store.select(BUDGET, meta["namespace"]):
            if selectors.fits(meta.get("labels", {}), budget["spec"].get("selector")) and not self._spare(budget):
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                cause = {"reason": "DisruptionBudget", "message": f"budget {budget['metadata']['name']} allows none"}
                raise StatusError(429, message, causes=[cause])

    def _spare(self, budget: Json) -> int:
        """How many pods of a budget may be evicted now."""
        spec = budget["spec"]
        pods = [
            pod
            for pod in self._store.select(POD, budget["metadata"]["namespace"])
            if selectors.fits(pod["metadata"].get("labels", {}), spec.get("selector"))
        ]
        ready = [pod for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
        if "maxUnavailable" in spec:
            least = len(pods) - _share(spec["maxUnavailable"], len(pods))
        else:
            least = _share(spec.get("minAvailable", 1), len(pods))
        return max(0, len(ready) - least)


def is_ready(pod: Json) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in pod["status"].get("conditions", []))


def condition(value: Json, kind: str, status: str, reason: str = "", message: str = "") -> None:
    """Set a condition of an object."""
    conditions = value.setdefault("status", {}).setdefault("conditions", [])
    same = next((item for item in conditions if item["type"] == kind), None)
    if same and (same["status"], same.get("reason", ""), same.get("message", "")) == (status, reason, message):
        return
    changed = same["lastTransitionTime"] if same and same["status"] == status else now()
    new = {"type": kind, "status": status, "lastTransitionTime": changed}
    new |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
    conditions[:] = [item for item in conditions if item["type"] != kind] + [new]


def _share(amount: int | str, total: int) -> int:
    """A number, or a share in percent, rounded up."""
    return -(-int(amount[:-1]) * total // 100) if isinstance(amount, str) else amount


def _bare(kind: ResourceKind, name: str) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}}


def _read(kind: ResourceKind, value: Any, namespace: str) -> Json:
    if not isinstance(value, dict):
        raise StatusError(400, f"the body is not an object of kind {kind.name}")
    done: Json = validation.cleaned(value)
    declared = (done.setdefault("apiVersion", kind.api_version), done.setdefault("kind", kind.name))
    if declared != (kind.api_version, kind.name):
        raise StatusError(400, f"{declared[1]} in version {declared[0]!r} cannot be handled as a {kind.name}")
    meta = done.setdefault("metadata", {})
    meta.pop("managedFields", None)
    if kind.namespaced and meta.setdefault("namespace", namespace) != namespace:
        raise StatusError(400, "the namespace of the provided object does not match the namespace sent on the request")
    if kind.namespaced and not namespace:
        raise missing(NAMESPACE, "")
    if not kind.namespaced and "namespace" in meta:
        raise invalid(kind, meta.get("name", ""), "metadata.namespace: Forbidden: not allowed on this type")
    return done


def _combined(kind: ResourceKind, before: Json, changed: Json, part: str) -> Json:
    """What an update leaves of the old object: all but the status, or only it."""
    version = changed["metadata"].get("resourceVersion")
    if part == "status":
        after = before | {"status": changed.get("status", {})}
        after["metadata"] = dict(before["metadata"])
    else:
        kept = {"status": before["status"]} if kind.has_status and "status" in before else {}
        after = changed if not kind.has_status else {k: v for k, v in changed.items() if k != "status"} | kept
        ours = {name: before["metadata"][name] for name in OURS if name in before["metadata"]}
        after["metadata"] = {name: item for name, item in changed["metadata"].items() if name not in OURS} | ours
    after["metadata"]["resourceVersion"] = version or before["metadata"]["resourceVersion"]
    if after.get("spec") != before.get("spec"):
        after["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
    return after


def _precondition(kind: ResourceKind, value: Json, wanted: Json) -> None:
    for name in ("uid", "resourceVersion"):
        if wanted.get(name, value["metadata"][name]) != value["metadata"][name]:
            raise conflict(kind, value["metadata"]["name"])


def _grace(kind: ResourceKind, value: Json, grace: int | None) -> int:
    """The seconds that a pod on a node has to end; nothing else has any."""
    if kind != POD or not value["spec"].get("nodeName") or value["status"]["phase"] in ENDED:
        return 0
    return int(value["spec"].get("terminationGracePeriodSeconds", admission.GRACE) if grace is None else grace)


def _begin_namespace(value: Json) -> None:
    meta = value["metadata"]
    meta["labels"] = meta.get("labels", {}) | {"kubernetes.io/metadata.name": meta["name"]}
    value["status"] = {"phase": "Active"}
