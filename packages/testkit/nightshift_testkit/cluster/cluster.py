"""A cluster for a test: the API server, its nodes, and what runs on them."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

from nightshift_testkit.cluster.access import Access, Certificate
from nightshift_testkit.cluster.api import ClusterApi, served
from nightshift_testkit.cluster.controllers import Controllers
from nightshift_testkit.cluster.kinds import (
    BUILT_IN,
    DEFINITION,
    NAMESPACE,
    NODE,
    POD,
    Json,
    ResourceKind,
    custom,
    definitions,
)
from nightshift_testkit.cluster.kubelet import Kubelet, Settings
from nightshift_testkit.cluster.operations import condition
from nightshift_testkit.cluster.problems import StatusError, missing
from nightshift_testkit.cluster.rbac import ADMIN, User
from nightshift_testkit.cluster.runtimes import Runtime
from nightshift_testkit.cluster.store import ResourceStore, now

CRDS = Path(__file__).parents[5] / "shared" / "charts" / "crds"
ROOM = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
UNREACHABLE = "node.kubernetes.io/unreachable"
CONFIG = """
apiVersion: v1
kind: Config
current-context: cluster
contexts: [{name: cluster, context: {cluster: cluster, user: user}}]
clusters: [{name: cluster, cluster: {server: "%s"}}]
users: [{name: user, user: {token: "%s"}}]
"""


class SimulatedCluster:
    """Everything that a test does to a cluster other than through its API."""

    def __init__(self, api: ClusterApi, kubelet: Kubelet) -> None:
        self.api = api
        self._operations = api.operations
        self._kubelet = kubelet

    @property
    def url(self) -> str:
        return self.api.url

    def config(self, path: Path, token: str = "") -> Path:
        """Write a kubeconfig."""
        path.write_text(CONFIG % (self.url, token))
        return path

    def log_in(self, token: str, user: User = ADMIN) -> str:
        """Let requests with a token be a user's; from the first one on, all requests need a token."""
        self.api.tokens[token] = user
        return token

    def apply(self, *values: Json) -> None:
        """Create objects, or patch those that are there, as the administrator."""
        for value in values:
            kind = next(
                (
                    kind
                    for kind in self.api.kinds
                    if (kind.api_version, kind.name) == (value["apiVersion"], value["kind"])
                ),
                None,
            )
            if kind is None:
                raise StatusError(404, f"no matches for kind {value['kind']!r} in version {value['apiVersion']!r}")
            meta = value["metadata"]
            namespace = meta.get("namespace", "default") if kind.namespaced else ""
            self._operations.patch(kind, meta["name"], value, "application/apply-patch+yaml", namespace)

    def add_namespace(self, name: str, **labels: str) -> None:
        spelled = {label.replace("__", "/").replace("_", "-"): value for label, value in labels.items()}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": spelled}})

    def add_node(
        self, name: str, labels: dict[str, str] | None = None, taints: Iterable[Json] = (), **room: Any
    ) -> None:
        """Add a node; `room` is what it has besides or instead of a plain one, e.g. `gpus=1`."""
        if "gpus" in room:
            room["nvidia.com/gpu"] = str(room.pop("gpus"))
        node_labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"} | (labels or {})
        node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": node_labels}, "spec": {}}
        if taints:
            node["spec"]["taints"] = list(taints)
        node["status"] = {"capacity": ROOM | room, "allocatable": ROOM | room}
        condition(node, "Ready", "True", "KubeletReady")
        self._kubelet.find(name)
        self.api.store.add(NODE, node)

    def taint(self, node: str, key: str, effect: str = "NoSchedule", value: str = "") -> None:
        new = {"key": key, "effect": effect, "timeAdded": now()} | ({"value": value} if value else {})
        self._operations.change(NODE, node, lambda value: value["spec"].setdefault("taints", []).append(new))

    def untaint(self, node: str, key: str) -> None:
        def edit(value: Json) -> None:
            value["spec"]["taints"] = [taint for taint in value["spec"].get("taints", []) if taint["key"] != key]

        self._operations.change(NODE, node, edit)

    def cordon(self, node: str, unschedulable: bool = True) -> None:
        self._operations.change(NODE, node, lambda value: value["spec"].update(unschedulable=unschedulable))

    def drain(self, node: str) -> list[str]:
        """Cordon a node and evict its pods; return the names of those that a budget keeps."""
        self.cordon(node)
        kept = []
        for pod in self.pods():
            if pod["spec"].get("nodeName") == node:
                try:
                    self._operations.evict(pod["metadata"]["name"], pod["metadata"]["namespace"])
                except StatusError:
                    kept.append(pod["metadata"]["name"])
        return kept

    def lose(self, node: str) -> None:
        """A machine is gone: its pods end and nobody says so, and some time later the node is known as not ready."""

        def edit(value: Json) -> None:
            condition(value, "Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")

        if self.api.store.peek(NODE, node) is None:
            raise missing(NODE, node)
        self._kubelet.lose(node)
        self._operations.change(NODE, node, edit)
        for effect in ("NoSchedule", "NoExecute"):
            self.taint(node, UNREACHABLE, effect)

    def remove_node(self, node: str) -> None:
        """The cloud has taken a machine away: its node and pods are deleted."""
        self._kubelet.lose(node)
        self._operations.delete(NODE, node)

    def kill(self, pod: str, namespace: str, number: int = SIGKILL) -> None:
        """Send a signal to a pod's containers."""
        self._kubelet.kill(self.api.store.get(POD, pod, namespace), number)

    def get(self, kind: ResourceKind, name: str, namespace: str = "default") -> Json:
        """Return an object.

        Raises:
            StatusError: when there is none.
        """
        return self.api.store.get(kind, name, namespace if kind.namespaced else "")

    def peek(self, kind: ResourceKind, name: str, namespace: str = "default") -> Json | None:
        """Return an object, if there is one."""
        return self.api.store.peek(kind, name, namespace if kind.namespaced else "")

    def delete(self, kind: ResourceKind, name: str, options: Json | None = None, namespace: str = "default") -> None:
        """Delete an object, as DeleteOptions say."""
        self._operations.delete(kind, name, namespace if kind.namespaced else "", options)

    def pods(self, namespace: str = "") -> list[Json]:
        return self.api.store.copies(POD, namespace)


@contextlib.contextmanager
def running(
    runtime: Runtime,
    folder: Path,
    crds: Path | None = None,
    acts: bool = True,
    accounts: bool = False,
    **settings: Any,
) -> Iterator[SimulatedCluster]:
    """Run a cluster without nodes; its state is below a folder.

    Args:
        runtime: what runs containers.
        folder: for volumes; what a claim holds is in `claims/<namespace>/<name>`.
        crds: with CustomResourceDefinitions, e.g. `CRDS`.
        acts: whether anything happens by itself.
        accounts: whether pods find their accounts' tokens, as they do on a real one, and the API over TLS.
        settings: of the kubelets.
    """
    store = ResourceStore()
    defined = definitions(crds) if crds else []
    api = ClusterApi(store, (*BUILT_IN, *(kind for definition in defined for kind in custom(definition))))
    for definition in defined:
        definition["status"] = {}
        condition(definition, "Established", "True", "InitialNamesAccepted")
        store.add(DEFINITION, definition)
    for name in ("default", "kube-system"):
        api.operations.create(NAMESPACE, {"metadata": {"name": name}})
    certificate = Certificate.create(folder) if accounts else None
    with served(api, certificate) as port:
        access = Access(port, certificate, api.token) if certificate else None
        folders = (folder / "pods", folder / "claims", access)
        kubelet = Kubelet(store, api.operations, Settings(runtime, *folders, **settings))
        api.log = kubelet.log
        controllers = Controllers(store, api.operations, kubelet.sync)
        if acts:
            controllers.start()
        try:
            yield SimulatedCluster(api, kubelet)
        finally:
            if acts:
                controllers.stop()
            kubelet.stop()
