"""A served model in the namespaces as `infra/` makes them, released by the account of the step that does it.

`infra/` installs no Gateway, so versions replace each other's pods.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes import client, config

from components.release.targets import VersionShare
from components.release.targets.kserve_raw import PRIORITY, KServeRawDeployment, RawDeploymentSettings
from infra.terraform import INFRA
from nightshift.registry import Version
from nightshift.runtime.errors import UserError
from nightshift_testkit.cluster import security
from nightshift_testkit.cluster.cluster import CRDS, SimulatedCluster, running
from nightshift_testkit.cluster.kinds import DEPLOYMENT, Json
from nightshift_testkit.cluster.kserve import SERVICE, KServeController
from nightshift_testkit.cluster.operations import is_ready
from nightshift_testkit.processes import wait_until
from pipelines.environments import AWS, SERVICE_ACCOUNT, Role
from tests.infra import kustomize
from tests.infra.test_installed import Idle

IMAGE, SECRET = "registry.example.com/nightshift/serving:0.3.0", "nightshift-serving"
SETTINGS = RawDeploymentSettings("nightshift", IMAGE, "serving", SECRET)
pytestmark = [
    pytest.mark.skipif(not CRDS.exists(), reason=f"{CRDS} is missing"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH: nothing was rendered"),
]


class Controllers:
    """KServe and the autoscaler; the Deployments' own controller is the cluster's."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster, self._kserve = cluster, KServeController(cluster, has_gateway=False)

    def pause(self, _: float) -> None:
        """Let each controller take a step."""
        self._kserve.sync()
        for deployment in self._cluster.api.store.copies(DEPLOYMENT, "nightshift"):
            self._cluster.api.operations.change(DEPLOYMENT, deployment["metadata"]["name"], scale, "nightshift")
        time.sleep(0.02)  # the cluster's controllers act meanwhile


def scale(deployment: Json) -> None:
    if SERVICE in deployment["metadata"].get("labels", {}) and deployment["spec"].get("replicas", 1) < 2:
        deployment["spec"]["replicas"] = 2
        deployment["metadata"]["generation"] += 1


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SimulatedCluster]:
    with running(Idle(set()), tmp_path, CRDS) as api_server:
        api_server.add_node("general-1", {"nightshift/pool": "general"})
        api_server.apply(
            *sorted(
                kustomize.built(INFRA / "cluster" / "namespaces"), key=lambda manifest: manifest["kind"] != "Namespace"
            )
        )
        secret = {"metadata": {"name": SECRET, "namespace": "nightshift"}, "stringData": {"token": "something"}}
        api_server.apply({"apiVersion": "v1", "kind": "Secret"} | secret)
        yield api_server


@pytest.fixture
def target(cluster: SimulatedCluster, tmp_path: Path) -> Iterator[KServeRawDeployment]:
    with acting(cluster, AWS.placements[Role.RELEASE].account, tmp_path) as deployer:
        yield deployer


@contextmanager
def acting(cluster: SimulatedCluster, account: str, folder: Path) -> Iterator[KServeRawDeployment]:
    """The target as a step has it that runs under an account."""
    token = cluster.api.token("kubeflow", account)
    with config.new_client_from_config(str(cluster.config(folder / account, token))) as connection:
        yield KServeRawDeployment(
            "fraud", SETTINGS, client.CustomObjectsApi(connection), answer, Controllers(cluster).pause
        )


def answer(*_: object) -> bytes:
    return b'{"predictions": [{"score": 0.5}]}'


def share(number: int) -> VersionShare:
    return VersionShare(Version("fraud", number, f"s3://bucket/mlflow/{number}", str(number) * 64, {}), 1.0, {}, 0.5)


def served(cluster: SimulatedCluster) -> list[Json]:
    return [pod for pod in cluster.pods("nightshift") if pod["metadata"]["labels"].get("component") == "predictor"]


def test_the_account_of_the_release_step_brings_a_version_whose_pods_start_beside_what_else_is_there_and_takes_it_away(
    cluster: SimulatedCluster, target: KServeRawDeployment
) -> None:
    controllers = Controllers(cluster)
    for number in (1, 2):
        target.apply([share(number)])
        target.clean([share(number)])
        wait_until(lambda: controllers.pause(0) or len(served(cluster)) == SETTINGS.min_replicas, "the others are gone")
        pods = served(cluster)
        assert len(pods) == SETTINGS.min_replicas and all(map(is_ready, pods))
        for spec in (pod["spec"] for pod in pods):
            assert (spec["priorityClassName"], spec["priority"]) == (PRIORITY, 1000)
            assert {"name": "STORAGE_URI", "value": f"s3://bucket/mlflow/{number}"} in spec["containers"][0]["env"]
            assert security.violations("restricted", spec) == []
    target.clean(())
    assert target.serving() == {}


@pytest.mark.parametrize("kind", ["Role", "RoleBinding"])
def test_without_its_role_it_may_do_nothing_there(
    cluster: SimulatedCluster, target: KServeRawDeployment, kind: str
) -> None:
    (definition,) = [resource for resource in cluster.api.kinds if resource.name == kind]
    cluster.api.operations.delete(definition, "nightshift-release", "nightshift")
    with pytest.raises(UserError, match="Kubernetes refuses to get inferenceservices for 'fraud'"):
        target.apply([share(1)])


def test_no_other_step_may_change_or_see_what_is_served(
    cluster: SimulatedCluster, target: KServeRawDeployment, tmp_path: Path
) -> None:
    target.apply([share(1)])
    for account in (SERVICE_ACCOUNT, AWS.with_trainjobs().placements[Role.TRAINING].account):
        with acting(cluster, account, tmp_path) as other:
            for act in (
                other.serving,
                lambda other=other: other.apply([share(2)]),
                lambda other=other: other.clean(()),
            ):
                with pytest.raises(UserError, match="Kubernetes refuses to get inferenceservices for 'fraud'"):
                    act()
    assert target.serving() == {1: 1.0}


def test_as_many_replicas_as_it_may_have_a_canary_and_one_more_fit_into_the_namespace(
    cluster: SimulatedCluster,
) -> None:
    quota = next(
        manifest["spec"]["hard"]
        for manifest in kustomize.built(INFRA / "cluster" / "namespaces")
        if is_serving(manifest)
    )
    requests = KServeRawDeployment("fraud", SETTINGS, None, answer)._container(share(1))["resources"]["requests"]
    assert (SETTINGS.max_replicas + SETTINGS.min_replicas + 1) * int(requests["cpu"]) <= int(quota["requests.cpu"]) // 2


def is_serving(value: Json) -> bool:
    return (value["kind"], value["metadata"]["name"]) == ("ResourceQuota", "serving")
