"""Clusters for tests, and the clients of the `kubernetes` package, which kfp brings."""

import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kubernetes import client, config

from nightshift.runtime.image import image
from nightshift_testkit.cluster import docker
from nightshift_testkit.cluster.cluster import CRDS, SimulatedCluster, running
from nightshift_testkit.cluster.remote import RemoteCluster, reached
from nightshift_testkit.cluster.runtimes import ProcessRuntime
from nightshift_testkit.cluster.samples import IMAGE, KUBECONFIG, NAMESPACE
from pipelines.environments import KUBEFLOW_INSIDE
from pipelines.images import EXAMPLE_REGISTRY


@pytest.fixture
def remote(request: pytest.FixtureRequest) -> Iterator[RemoteCluster | None]:
    """The cluster of `make test-cluster`; None without one, when the stand-in is what is tested on."""
    if not KUBECONFIG:
        yield None
        return
    if "tmp_path" in inspect.signature(request.function).parameters:
        pytest.skip("needs the stand-in, whose pods see this machine's folders")
    with reached(Path(KUBECONFIG), NAMESPACE) as connected:
        yield connected


@pytest.fixture
def cluster(remote: RemoteCluster | None, tmp_path: Path) -> Iterator[SimulatedCluster | RemoteCluster]:
    """A cluster of one node, `cpu`, whose pods are processes of this machine; the image `none` is not there."""
    if remote:
        yield remote
        return
    with running(ProcessRuntime(missing=("none",)), tmp_path) as fake:
        fake.add_node("cpu")
        yield fake


@pytest.fixture
def custom(tmp_path: Path) -> Iterator[SimulatedCluster]:
    """A cluster with the custom resources of all charts."""
    if KUBECONFIG:
        pytest.skip("needs the stand-in, which has the custom resources of all charts")
    if not CRDS.exists():
        pytest.skip(f"{CRDS} is missing")
    with running(ProcessRuntime(), tmp_path, CRDS) as fake:
        yield fake


@pytest.fixture
def containers(remote: RemoteCluster | None, tmp_path: Path) -> Iterator[SimulatedCluster | RemoteCluster]:
    """A cluster of one node whose pods are containers."""
    if remote:
        yield remote
        return
    missing = pytest.fail if os.environ.get("CI") else pytest.skip
    if not docker.reachable():
        missing("no container engine answers")
    kubeflow = str(urlsplit(KUBEFLOW_INSIDE).hostname)
    pulled = {image("base", EXAMPLE_REGISTRY): IMAGE}
    runtime = docker.DockerRuntime(pulled, hosts=(kubeflow,))
    if runtime.user(IMAGE) is None:
        missing(f"image {IMAGE} is not built, run: make images")
    with running(runtime, tmp_path) as fake:
        fake.add_node("cpu")
        yield fake


@pytest.fixture
def core(cluster: SimulatedCluster, tmp_path: Path) -> Iterator[client.CoreV1Api]:
    yield from connected(cluster, tmp_path)


def connected(cluster: SimulatedCluster, folder: Path, token: str = "") -> Iterator[client.CoreV1Api]:
    connection = config.new_client_from_config(str(cluster.config(folder / f"config-{token}", token)))
    with connection:
        yield client.CoreV1Api(connection)
