"""The smallest cluster: what it runs, and that it fits onto its one node."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cloud import core
from infra.cloud.rendering import ABSENT
from tests.infra import kustomize, rendered
from tests.infra.charts import CHARTS, REAL, read_objects, values

Json = dict[str, Any]
NAMES = ("aws-try", "gcp-try")
SPACES = Path(core.cluster.__file__).parent / "namespaces"
# a node of 4 vCPUs and 16 GiB without the kubelet's share, and what the clouds' own add-ons request there
NODE = {"cpu": 3.9, "memory": 13.5}
ADD_ONS = {"cpu": 1.2, "memory": 2.0}
UNITS = {"m": 1e-3, "Mi": 2**-10, "Gi": 1.0}
each_smallest = pytest.mark.parametrize("name", NAMES)


def amount(quantity: Any) -> float:
    """Read a quantity in cores, or in GiB."""
    text = str(quantity)
    unit = text.lstrip("0123456789.")
    return float(text.removesuffix(unit)) * UNITS.get(unit, 1.0)


def requested(pod: Json, default: Json) -> dict[str, float]:
    """What the containers of a pod ask for, those that ask for nothing by the namespace's default."""
    containers = [default | container.get("resources", {}).get("requests", {}) for container in pod["containers"]]
    return {name: sum(amount(requests[name]) for requests in containers) for name in NODE}


def standing_pods() -> Iterator[Json]:
    """The pods of what always runs: Airflow, MLflow and their databases."""
    (airflow,) = (chart for chart in CHARTS if chart["name"] == "airflow")
    facts = [fact for fact in read_objects(airflow) if fact["kind"] in ("Deployment", "StatefulSet")]
    for fact in facts:
        if fact["name"] != "airflow-statsd":  # off in our values
            yield {"containers": [{"resources": airflow_resources(part["name"])} for part in fact["containers"]]}
    for path in ("nightshift/mlflow.yaml", "postgresql/postgresql.yaml", "postgresql/postgresql.yaml"):
        for manifest in yaml.safe_load_all((SPACES / path).read_text()):
            if manifest["kind"] in ("Deployment", "StatefulSet"):
                yield manifest["spec"]["template"]["spec"]


def airflow_resources(container: str) -> Json:
    """What a container of Airflow's parts asks for."""
    name = container.removesuffix("-log-groomer")
    part = values("airflow")[{"api-server": "apiServer", "dag-processor": "dagProcessor"}.get(name, name)]
    resources: Json = (part if name == container else part["logGroomerSidecar"])["resources"]
    return resources


def test_as_many_tasks_as_airflow_starts_fit_into_the_quota_beside_its_parts() -> None:
    airflow = values("airflow")
    parts = [
        airflow_resources(f"{name}{groomer}")
        for name in ("scheduler", "triggerer", "dag-processor")
        for groomer in ("", "-log-groomer")
    ]
    resources = [*parts, airflow_resources("api-server"), airflow["migrateDatabaseJob"]["resources"]]
    task, tasks = airflow["workers"]["kubernetes"]["resources"], airflow["config"]["core"]["parallelism"]
    (quota,) = yaml.safe_load_all((SPACES / "airflow" / "quota.yaml").read_text())

    for name in NODE:
        total = sum(amount(part["requests"][name]) for part in (*resources, *[task] * tasks))
        assert total < amount(quota["spec"]["hard"][f"requests.{name}"]), name
    assert all(amount(part["limits"]["memory"]) > amount(part["requests"]["memory"]) for part in (*resources, task))


@pytest.mark.skipif(not REAL.exists(), reason="needs the facts of the charts in ../shared/charts")
def test_all_that_always_runs_asks_for_less_than_one_node_has() -> None:
    (default,) = (
        limit["defaultRequest"]
        for manifest in yaml.safe_load_all((SPACES / "common" / "limits.yaml").read_text())
        if manifest["kind"] == "LimitRange"
        for limit in manifest["spec"]["limits"]
    )
    pods = [requested(pod, default) for pod in standing_pods()]

    assert len(pods) == 7 and all(pod["cpu"] for pod in pods)
    for name, available in NODE.items():
        assert sum(pod[name] for pod in pods) + ADD_ONS[name] < available, name


@each_smallest
def test_it_runs_airflow_and_what_gpus_need_alone(name: str) -> None:
    answers = rendered.read(name)
    commands = core.install(CHARTS, answers, rendered.infrastructure(answers), rendered.DIGESTS)

    charts = [line.split()[3] for line in commands if line.startswith("helm upgrade")]
    own = {"aws": ["cluster-autoscaler", "nvidia-device-plugin"], "gcp": []}[answers.cloud]
    assert charts == [*own, "airflow"]
    assert [line for line in commands if f'"env[0].value={name}"' in line]
    assert not [line for line in commands if "lustre" in line or "infra/cluster/pipelines" in line]


@each_smallest
def test_its_steps_keep_their_state_in_the_bucket_that_they_may_write(name: str) -> None:
    infrastructure = rendered.infrastructure(rendered.read(name))

    assert (
        infrastructure.state
        == {
            "aws-try": "s3://nightshift-try-000000000000/state",
            "gcp-try": "gs://example-nightshift-try-nightshift-try-lake/state",
        }[name]
    )


@each_smallest
def test_its_nights_are_airflows(name: str) -> None:
    answers = rendered.read(name)
    *_, last = core.schedule(answers, rendered.infrastructure(answers), rendered.DIGESTS)

    assert last.endswith("-- airflow dags unpause --yes --treat-dag-id-as-regex '^fraud_'")


@pytest.mark.slow
@each_smallest
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH: nothing was built")
def test_nothing_is_applied_of_which_it_lacks_the_kind_or_the_file_system(name: str) -> None:
    kinds = {kind for names in ABSENT for kind in names.split("|")} - {"Role", "RoleBinding"}
    objects = kustomize.built(rendered.overlays(name))

    assert {"ServiceAccount", "NetworkPolicy"} <= {value["kind"] for value in objects}
    assert [value["metadata"]["name"] for value in objects if value["kind"] in kinds] == []
    assert not [value for value in objects if value["kind"].endswith(("Monitor", "Rule"))]


def test_a_cluster_in_one_zone_is_reached_where_its_control_plane_is() -> None:
    places = {name: core.connect(rendered.read(name))[1] for name in ("gcp-try", "gcp-dev")}

    assert " --location europe-west4-a " in places["gcp-try"] and " --location europe-west4 " in places["gcp-dev"]
