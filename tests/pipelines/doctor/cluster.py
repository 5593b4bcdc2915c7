"""A healthy environment: our own manifests and nodes on the stand-in of a cluster, with a registry and services."""

import base64
import functools
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kubernetes import config

from nightshift.cluster import MissingError
from nightshift.contracts.health import HealthReport
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_testkit.cluster.cluster import CRDS, SimulatedCluster, running
from nightshift_testkit.cluster.kinds import BUILT_IN, Json, ResourceKind
from nightshift_testkit.cluster.runtimes import ProcessRuntime
from pipelines.doctor.environment import diagnose
from pipelines.doctor.images import LoginError
from pipelines.doctor.kubernetes import KubernetesApi
from pipelines.doctor.services import DCGM
from pipelines.environments import AWS, Role, Site
from tests.infra import rendered
from tests.infra.kustomize import built

INFRA = Path(__file__).parents[3] / "infra"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
GPU_LABELS = {"nightshift/pool": "gpu", "nightshift/gpus": "1", "nvidia.com/cuda.driver.major": "580"}
SECRETS = {
    "nightshift-mlflow": {"username": "nightshift", "password": "x"},
    "nightshift-serving": {"token": "x"},
    "pull": {
        ".dockerconfigjson": json.dumps({"auths": {"images.acme.test": {"username": "a", "password": "b"}}}),
    },
}
REGISTRY = "images.acme.test/nightshift"
# the others take time to apply
LOOKED_AT = {
    "Namespace", "ServiceAccount", "Role", "RoleBinding", "PriorityClass", "ResourceQuota", "LimitRange",
    "PersistentVolume", "PersistentVolumeClaim", "TrainingRuntime",
}  # fmt: skip


def relocate(site: Site) -> Site:
    """Return an environment whose images are in a registry of one's own."""
    placements = {
        role: replace(placement, image=placement.image.replace("registry.example.com/nightshift", REGISTRY))
        for role, placement in site.placements.items()
    }
    return replace(site, placements=placements)


@functools.cache
def manifests(name: str) -> tuple[str, ...]:
    """Return what `infra/` installs into an environment, as its users fill it in, an object a text."""
    if name in rendered.NAMES:
        objects = built(rendered.overlays(name) / "namespaces") + built(rendered.overlays(name))
    else:
        objects = built(INFRA / "cluster" / "namespaces") + built(INFRA / "kubernetes" / name)
    texts = [
        json.dumps(value).replace("registry.example.com/nightshift", REGISTRY)
        for value in sorted(objects, key=lambda value: value["kind"] != "Namespace")
        if value["kind"] in LOOKED_AT
    ]
    return tuple(text.replace("fs-00000000000000000", "fs-0123456789abcdef0") for text in texts)


class ImageStore:
    """A registry that has the images in `images`, to those who log in as `login`."""

    def __init__(self) -> None:
        self.images = {placement.image for placement in relocate(AWS).placements.values()}
        self.login = base64.b64encode(b"a:b").decode()
        self.down = False

    def resolve(self, image: str, login: str) -> str:
        if self.down:
            raise UnavailableError("images.acme.test does not answer")
        if login != self.login:
            raise LoginError("images.acme.test refuses the login")
        if image not in self.images:
            raise UserError(f"images.acme.test answers 404: it has no {image}")
        return "sha256:0"


class ProxiedApi(KubernetesApi):
    """The stand-in has no proxy to services: what they answer is in `answers`, path of a URL -> text or error."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        metrics = "\n".join(f'{name}{{gpu="0"}} 1' for name in DCGM)
        healthy = {part: {"status": "healthy"} for part in ("metadatabase", "scheduler", "triggerer", "dag_processor")}
        self.answers: dict[str, str | Exception] = {
            "ml-pipeline": json.dumps({"tag_name": "2.17.0"}),
            "airflow-api-server": json.dumps(healthy),
            "dcgm-exporter": metrics,
        }

    def log_in(self, token: str) -> None:
        self._client.configuration.api_key["authorization"] = f"Bearer {token}"

    def read_text(self, path: str) -> str:
        proxied = re.search(r"/services/([\w-]+):\d+/proxy/", path)
        if not proxied:
            return super().read_text(path)
        answer = self.answers.get(proxied[1], MissingError(path))
        if isinstance(answer, Exception):
            raise answer
        return answer


class DownApi(ProxiedApi):
    """An API that does not answer."""

    def __init__(self) -> None:
        super().__init__(None)

    def _request(self, method: str, path: str, body: Json | None = None) -> Any:
        raise UnavailableError("Kubernetes does not answer: connection refused")


@dataclass
class Environment:
    """A cluster and what is around it; a fault changes one thing of it."""

    cluster: SimulatedCluster
    api: ProxiedApi
    site: Site
    images: ImageStore = field(default_factory=ImageStore)

    def diagnose(self) -> HealthReport:
        return diagnose(self.api, self.site, self.images, "", self.api.read_text)

    def kind(self, name: str) -> ResourceKind:
        return next(kind for kind in self.cluster.api.kinds if kind.name == name)

    def edit(self, kind: str, name: str, change: Callable[[Json], Any], namespace: str = "kubeflow") -> None:
        """Change an object from inside the server, whatever its rules."""
        api_kind = self.kind(kind)
        where = namespace if api_kind.namespaced else ""
        assert self.cluster.api.operations.change(api_kind, name, change, where)

    def remove(self, kind: str, name: str, namespace: str = "kubeflow") -> None:
        api_kind = self.kind(kind)
        store = self.cluster.api.store
        store.remove(api_kind, store.get(api_kind, name, namespace if api_kind.namespaced else ""))

    def place_steps(self, role: Role, **changes: Any) -> None:
        """Change what a role gets."""
        placements = {**self.site.placements, role: replace(self.site.placements[role], **changes)}
        self.site = replace(self.site, placements=placements)


@contextmanager
def restored(cluster: SimulatedCluster) -> Iterator[None]:
    """Undo what happens to a cluster during the block."""
    store, kinds = cluster.api.store, cluster.api.kinds
    before = {kind: dict(objects) for kind, objects in store._objects.items()}
    yield
    store._objects, cluster.api.kinds = before, kinds
    cluster.api.tokens.clear()


@contextmanager
def healthy(folder: Path, root: str, site: Site = AWS) -> Iterator[Environment]:
    """Run an environment in which nothing is wrong, whose pipeline root is `root`."""
    # all of them take a second to read
    (folder / "crds").mkdir()
    for path in CRDS.glob("trainingruntimes.*") if site.has_kubeflow else ():
        shutil.copy(path, folder / "crds")
    with running(ProcessRuntime(), folder, folder / "crds", acts=False) as fake:
        _install(fake, site)
        if site.has_kubeflow:
            _install_kubeflow(fake, root)
        with connected(fake, folder, site) as environment:
            yield environment


@contextmanager
def connected(fake: SimulatedCluster, folder: Path, site: Site = AWS) -> Iterator[Environment]:
    """Connect to a cluster as its administrator."""
    with config.new_client_from_config(str(fake.config(folder / "kubeconfig"))) as connection:
        yield Environment(fake, ProxiedApi(connection), relocate(site))


def _install(fake: SimulatedCluster, site: Site) -> None:
    known = {(kind.api_version, kind.name) for kind in fake.api.kinds}
    objects = [json.loads(text) for text in manifests(site.name)]
    fake.apply(*(value for value in objects if (value["apiVersion"], value["kind"]) in known))
    for name, values in SECRETS.items():
        _add_secret(fake, name, values)
    _add_service(fake, "nightshift", "mlflow", 5000)
    account = next(kind for kind in BUILT_IN if kind.name == "ServiceAccount")
    pulls = lambda value: value.update(imagePullSecrets=[{"name": "pull"}])  # noqa: E731
    fake.api.operations.change(account, "nightshift", pulls, "kubeflow")
    fake.add_node("general-1", {"nightshift/pool": "general"})
    fake.add_node("gpu-1", GPU_LABELS, [GPU_TAINT], gpus=1)


def _install_kubeflow(fake: SimulatedCluster, root: str) -> None:
    """What the smallest clusters lack: Kubeflow, a Pushgateway and a shared file system."""
    _add_service(fake, "kubeflow", "ml-pipeline", 8888)
    _add_service(fake, "nightshift", "pushgateway", 9091)
    launcher = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kfp-launcher", "namespace": "kubeflow"}}
    fake.apply(launcher | {"data": {"defaultPipelineRoot": root}})
    claim = next(kind for kind in BUILT_IN if kind.name == "PersistentVolumeClaim")
    bound = lambda value: value.setdefault("status", {}).update(phase="Bound")  # noqa: E731
    fake.api.operations.change(claim, "nightshift-lustre", bound, "kubeflow")


def _add_secret(fake: SimulatedCluster, name: str, values: dict[str, str]) -> None:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    meta = {"name": name, "namespace": "kubeflow"}
    fake.apply({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})


def _add_service(fake: SimulatedCluster, namespace: str, name: str, port: int) -> None:
    meta = {"name": name, "namespace": namespace}
    ports = {"ports": [{"port": port}]}
    fake.apply({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": ports | {"selector": {"app": name}}})
    subsets = [{"addresses": [{"ip": "10.0.0.9"}], **ports}]
    fake.apply({"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets})
