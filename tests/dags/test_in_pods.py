"""Airflow as on a cluster: its tasks and the steps are pods under our manifests, with PostgreSQL and MLflow's server.

The pods are processes here, without GPUs, so runs are started with `device: cpu`. Airflow does not see what they write.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml

from pipelines import environments
from pipelines.engines.airflow import standalone
from tests import postgresql, tracking
from tests.cluster.cluster import Cluster, running
from tests.cluster.rbac import ADMIN, User
from tests.cluster.runtimes import ProcessRuntime
from tests.cluster.samples import named
from tests.cluster.services import Service, proxy
from tests.dags.person import CONFIG, DATE, PYTHON, ROOT, Airflow, ByHand, until
from tests.infra.charts import CHARTS, REAL, made
from tests.infra.rebuilt import rebuilt

NAMESPACE = "kubeflow"
PAST = str(date.fromisoformat(DATE) - timedelta(days=1))
LOGIN = {"username": "someone", "password": "something"}
# no run but those that are asked for: what an event or the clock starts would want a GPU
DAILY = {"controller": {"retrain": "daily"}, "schedule": {"ingestion": "0 0 29 2 *", "training": "0 0 29 2 *"}}
SCHEDULER = User.account("airflow", "airflow-scheduler")
RIGHTS = ("Role", "RoleBinding", "ServiceAccount")
SPACES = "cluster/namespaces"
MANIFESTS = {
    "airflow": [f"{SPACES}/{name}.yaml" for name in ("airflow/namespace", "airflow/quota", "common/limits")],
    NAMESPACE: [
        *(f"{SPACES}/kubeflow/{name}.yaml" for name in ("namespace", "quota", "disruption", "airflow")),
        f"{SPACES}/common/limits.yaml",
        "kubernetes/base/accounts.yaml",
    ],
}


@dataclass
class Inside(Airflow):
    """An Airflow whose steps are pods."""

    nodes: Cluster

    def summary(self, run: str) -> Any:
        return self.artifact(f"runs/{run}/summary.json")

    def wait_for(self, step: str, run: str) -> dict[str, Any]:
        """Wait until the pod of a run's step runs, and return it."""
        of_step = {"task_id": step, "run_id": run}.items()

        def found() -> list[dict[str, Any]]:
            pods = [each for each in self.nodes.pods(NAMESPACE) if each["status"]["phase"] == "Running"]
            return [each for each in pods if of_step <= each["metadata"]["labels"].items()]

        return until(found, f"a pod of {step} runs")[0]


def worker(started: standalone.Standalone, variables: dict[str, str]) -> dict[str, Any]:
    """The pod of a task, as Airflow's chart makes it of our values."""
    given = variables | {
        "AIRFLOW_HOME": started.home,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{started.tasks}/execution/",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    environment = [{"name": name, "value": value} for name, value in given.items()]
    container = {"name": "base", "image": "nightshift/airflow", "env": environment}
    spec = {
        "serviceAccountName": "airflow-worker",
        "restartPolicy": "Never",
        "nodeSelector": {"nightshift/pool": "general"},
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}, "spec": spec}


def objects() -> Iterator[dict[str, Any]]:
    """Our manifests of both namespaces, and what a cloud, a chart and a secret store bring."""
    for namespace, names in MANIFESTS.items():
        for name in names:
            for each in yaml.safe_load_all((ROOT / "infra" / name).read_text()):
                yield each if each["kind"] == "Namespace" else inside(each, namespace)
    yield inside(named("ServiceAccount", "airflow-worker"), "airflow")
    (chart,) = [row for row in CHARTS if row["name"] == "airflow"]
    yield from (rebuilt(each) for each in made(chart) if each["kind"] in RIGHTS)
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    yield inside(named("PersistentVolumeClaim", "nightshift-lustre", spec=claim))
    yield inside(named("Secret", "nightshift-mlflow", stringData=LOGIN))


def inside(value: dict[str, Any], namespace: str = NAMESPACE) -> dict[str, Any]:
    value["metadata"]["namespace"] = namespace
    return value


def furnish(nodes: Cluster, home: Path) -> None:
    """Add our objects and nodes; Airflow's scheduler and its tasks have the rights of their accounts."""
    nodes.apply(*objects())
    gpu = environments.AWS.placements[environments.Role.GPU]
    taints = [{"key": taint.key, "value": taint.value, "effect": "NoSchedule"} for taint in gpu.tolerations]
    nodes.add_node("general", {"nightshift/pool": "general"})
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        nodes.add_node(name, dict(gpu.nodes), taints, gpus=1)
    nodes.config(home / "worker", nodes.log_in("worker", User.account("airflow", "airflow-worker")))
    nodes.config(home / "scheduler", nodes.log_in("scheduler", SCHEDULER if REAL.exists() else ADMIN))


def with_driver(folder: Path) -> str:
    """Return a folder with PostgreSQL's driver, which the steps' environment has no use for: Airflow's own."""
    folder.mkdir()
    for each in Path(psycopg2.__file__).parents[1].glob("psycopg2*"):
        (folder / each.name).symlink_to(each)
    return str(folder)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, by_hand: ByHand) -> Iterator[Inside]:
    """An Airflow in which a training and one of a past day are under way."""
    folder = tmp_path_factory.mktemp("pods")
    for name in ("dags", "registry"):
        (folder / name).mkdir()
    config = folder / "small.yaml"
    config.write_text(yaml.safe_dump(CONFIG | DAILY))
    standalone.add_use_case(str(config), folder / "dags")
    with ExitStack() as stack:
        database = stack.enter_context(postgresql.serve("airflow", "mlflow"))
        place = (folder / "registry", str(PYTHON), f"postgresql+psycopg2://{database}/mlflow")
        registry = stack.enter_context(tracking.serve(*place, PYTHONPATH=with_driver(folder / "driver")))
        services = {
            "mlflow.nightshift:5000": Service(registry.removeprefix("http://"), ":".join(LOGIN.values())),
            "pushgateway.nightshift:9091": Service(),
        }
        variables = stack.enter_context(proxy(services)) | {"PYTHONPATH": str(ROOT), "HOME": str(folder)}
        path = f"{PYTHON.parent}:/usr/bin:/bin"
        nodes = stack.enter_context(running(ProcessRuntime(environment=variables | {"PATH": path}), folder))
        furnish(nodes, folder)
        places = {
            "NIGHTSHIFT_ENVIRONMENT": "aws",
            "NIGHTSHIFT_WORKSPACE": str(folder / "out of sight"),
            "KUBECONFIG": str(folder / "worker"),
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        }
        template = folder / "worker.yaml"
        settings = {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}/airflow",
            "AIRFLOW__CORE__EXECUTOR": "KubernetesExecutor",
            "AIRFLOW__KUBERNETES_EXECUTOR__NAMESPACE": "airflow",
            "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
            "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": str(folder / "scheduler"),
            "AIRFLOW__KUBERNETES_EXECUTOR__POD_TEMPLATE_FILE": str(template),
            "AIRFLOW__KUBERNETES_EXECUTOR__WORKER_PODS_CREATION_BATCH_SIZE": "4",
        }
        started = standalone.start(folder / "home", folder / "dags", places | settings)
        stack.callback(started.stop)
        template.write_text(yaml.safe_dump(worker(started, places)))
        found = Inside(started, folder / "claims" / NAMESPACE / "nightshift-lustre", nodes)
        found.call("POST", "/pools", {"name": "gpu", "slots": 2})
        for dag in ("training", "monitoring", "backfill"):
            found.unpause(f"small_{dag}")
        found.trigger("small_training", "first", date=DATE, device="cpu")
        found.trigger("small_backfill", "past", first=PAST, last=PAST, device="cpu")
        yield found


def test_a_training_in_pods_makes_what_the_command_line_makes_though_a_node_is_lost_and_a_pod_deleted(
    airflow: Inside, by_hand: ByHand
) -> None:
    airflow.nodes.remove_node(airflow.wait_for("features", "first")["spec"]["nodeName"])
    airflow.nodes.delete_pod(airflow.wait_for("evaluation", "first")["metadata"]["name"], NAMESPACE)

    assert airflow.end("small_training", "first") == "success", airflow.states("small_training", "first")

    assert airflow.summary(f"small-training-{DATE}-first")["hashes"] == by_hand.hashes()
    tries = {name: task["try_number"] for name, task in airflow.tasks("small_training", "first").items()}
    assert set(tries.values()) == {1}
    assert not [each for each in airflow.nodes.pods(NAMESPACE) if each["metadata"]["labels"]["run_id"] == "first"]


def test_the_scheduler_needs_no_more_rights_than_its_chart_gives_it(airflow: Inside) -> None:
    if not REAL.exists():
        pytest.skip("needs the facts of the charts in ../shared/charts")
    assert airflow.end("small_training", "first") == "success"
    assert airflow.nodes.api.tokens["scheduler"] == SCHEDULER


def test_what_steps_measured_reaches_the_report_and_the_promotion_is_announced(airflow: Inside) -> None:
    assert airflow.end("small_training", "first") == "success"
    made = airflow.summary(f"small-training-{DATE}-first")
    (event,) = airflow.events("small/model")

    assert all(step["seconds"] > 0 and step["peak_memory_bytes"] > 0 for step in made["steps"].values())
    assert made["verdicts"]["deployment"]["decision"] == "promoted"
    assert (event["extra"]["model"], event["extra"]["version"]) == ("small", 1)


def test_a_day_is_monitored_and_a_past_one_trained(airflow: Inside) -> None:
    assert airflow.end("small_training", "first") == "success"
    airflow.trigger("small_monitoring", "watched", date=DATE, device="cpu")

    assert airflow.end("small_monitoring", "watched") == "success", airflow.states("small_monitoring", "watched")
    assert airflow.end("small_backfill", "past") == "success", airflow.states("small_backfill", "past")
    assert airflow.states("small_monitoring", "watched")["announce_retrain"] == "skipped"
    deployment = airflow.artifact(f"runs/small-training-{PAST}-backfill-*/deployment/deployment")
    assert deployment["target"] == "record-only"
    assert deployment["decision"] != "promoted"
    assert airflow.artifact(f"audit/small/{DATE}.json")["retrain"] is False
