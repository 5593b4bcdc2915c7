"""The kinds of object that the server knows."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True)
class ResourceKind:
    """A kind, and where the API has it."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    has_status: bool = False
    schema: Json | None = field(default=None, compare=False, hash=False, repr=False)  # schema of a custom resource

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As messages and roles name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def root(self) -> str:
        """The path of its API group."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def described(self) -> Json:
        """Its entry in the discovery documents."""
        return {
            "name": self.plural,
            "singularName": self.name.lower(),
            "namespaced": self.namespaced,
            "kind": self.name,
            "verbs": VERBS,
            "shortNames": list(self.short),
        }


def _core(name: str, plural: str, *short: str, namespaced: bool = True, has_status: bool = False) -> ResourceKind:
    return ResourceKind("", "v1", name, plural, namespaced, short, has_status)


NAMESPACE = _core("Namespace", "namespaces", "ns", namespaced=False, has_status=True)
POD = _core("Pod", "pods", "po", has_status=True)
EVENT = _core("Event", "events", "ev")
NODE = _core("Node", "nodes", "no", namespaced=False, has_status=True)
SECRET = _core("Secret", "secrets")
CONFIG_MAP = _core("ConfigMap", "configmaps", "cm")
SERVICE_ACCOUNT = _core("ServiceAccount", "serviceaccounts", "sa")
CLAIM = _core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", has_status=True)
VOLUME = _core("PersistentVolume", "persistentvolumes", "pv", namespaced=False, has_status=True)
QUOTA = _core("ResourceQuota", "resourcequotas", "quota", has_status=True)
LIMITS = _core("LimitRange", "limitranges", "limits")
PRIORITY = ResourceKind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",))
LEASE = ResourceKind("coordination.k8s.io", "v1", "Lease", "leases")
BUDGET = ResourceKind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",), True)
JOB = ResourceKind("batch", "v1", "Job", "jobs", has_status=True)
DEPLOYMENT = ResourceKind("apps", "v1", "Deployment", "deployments", True, ("deploy",), True)
STATEFUL_SET = ResourceKind("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",), True)
DAEMON_SET = ResourceKind("apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), True)
DEFINITION = ResourceKind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, ("crd",)
)
_RBAC = "rbac.authorization.k8s.io"
ROLE = ResourceKind(_RBAC, "v1", "Role", "roles")
BINDING = ResourceKind(_RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = ResourceKind(_RBAC, "v1", "ClusterRole", "clusterroles", False)
CLUSTER_BINDING = ResourceKind(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False)

BUILT_IN = (
    NAMESPACE, POD, EVENT, NODE, SECRET, CONFIG_MAP, SERVICE_ACCOUNT, CLAIM, VOLUME, QUOTA, LIMITS,
    _core("Service", "services", "svc", has_status=True),
    _core("Endpoints", "endpoints", "ep"),
    PRIORITY, LEASE, BUDGET, JOB, ROLE, BINDING, CLUSTER_ROLE, CLUSTER_BINDING,
    ResourceKind("batch", "v1", "CronJob", "cronjobs", True, ("cj",), True),
    DEPLOYMENT, STATEFUL_SET, DAEMON_SET, DEFINITION,
    ResourceKind("apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), True),
    ResourceKind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, ("netpol",)),
    ResourceKind("networking.k8s.io", "v1", "Ingress", "ingresses", True, ("ing",), True),
    ResourceKind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, ("sc",)),
    ResourceKind("events.k8s.io", "v1", "Event", "events", True, ("ev",)),
)  # fmt: skip


def definitions(folder: Path) -> list[Json]:
    """The CustomResourceDefinitions that lie in a folder."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def custom(definition: Json) -> Iterator[ResourceKind]:
    """The kinds of a CustomResourceDefinition, one for each version that is served."""
    for version in definition["spec"]["versions"]:
        if version.get("served", True):
            yield _custom(definition["spec"], version)


def _custom(definition: Json, version: Json) -> ResourceKind:
    names = definition["names"]
    return ResourceKind(
        definition["group"],
        version["name"],
        names["kind"],
        names["plural"],
        definition["scope"] == "Namespaced",
        tuple(names.get("shortNames", ())),
        "status" in version.get("subresources", {}),
        version.get("schema", {}).get("openAPIV3Schema", {}),
    )
