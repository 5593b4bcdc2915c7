"""What of an object may not change once it is there."""

import copy

from nightshift_testkit.cluster import quantities
from nightshift_testkit.cluster.kinds import CLAIM, JOB, POD, Json, ResourceKind
from nightshift_testkit.cluster.problems import forbidden, invalid

FIELDS = {
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
    "StorageClass": ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    "PriorityClass": ("value",),
}


def check(kind: ResourceKind, before: Json, after: Json) -> None:
    """Refuse a change of what cannot change.

    Raises:
        RefusedError: 422, or 403 for a claim.
    """
    name = after["metadata"]["name"]
    for field in FIELDS.get(kind.name, ()):
        _same(kind, name, field, before, after)
    if before.get("immutable") and before.get("data") != after.get("data"):
        raise invalid(kind, name, "data: Forbidden: field is immutable when `immutable` is set")
    if kind == POD and _rest_of_a_pod(before) != _rest_of_a_pod(after):
        allowed = "`spec.containers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions)"
        raise invalid(kind, name, f"spec: Forbidden: pod updates may not change fields other than {allowed}")
    if kind == JOB:
        for field in ("template", "selector", "completionMode"):
            _same(kind, name, field, before["spec"], after["spec"], "spec.")
    if kind == CLAIM:
        _claim(name, before["spec"], after["spec"])


def _same(kind: ResourceKind, name: str, field: str, before: Json, after: Json, path: str = "") -> None:
    if before.get(field) != after.get(field):
        raise invalid(kind, name, f"{path}{field}: Invalid value: {after.get(field)}: field is immutable")


def _rest_of_a_pod(pod: Json) -> Json:
    spec = copy.deepcopy(pod["spec"])
    for field in ("tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "nodeName"):
        spec.pop(field, None)
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        container.pop("image", None)
    return spec


def _claim(name: str, before: Json, after: Json) -> None:
    old, new = (quantities.number(spec["resources"]["requests"]["storage"]) for spec in (before, after))
    if old != new and not before.get("storageClassName"):
        raise forbidden(
            CLAIM,
            name,
            "only dynamically provisioned pvc can be resized",
        )
    if new < old:
        raise invalid(CLAIM, name, "spec.resources.requests.storage: Forbidden: less than the previous value")
    if {**before, "resources": 0} != {**after, "resources": 0} and before.get("volumeName"):
        raise invalid(
            CLAIM, name, "spec: Forbidden: immutable after creation except resources.requests for bound claims"
        )
