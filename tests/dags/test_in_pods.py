"""Airflow as on a cluster: its parts, its tasks and the steps are pods of our images, under our manifests and our
values of its chart, with PostgreSQL and MLflow's server.

The pods are containers, without GPUs, so runs are started with `device: cpu`, in the image of the CPU. Airflow does not
see what they write.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg2
import pytest
import yaml

from nightshift.runtime.image import image
from nightshift_testkit import postgresql, tracking
from nightshift_testkit.cluster import docker
from nightshift_testkit.cluster.cluster import SimulatedCluster, running
from nightshift_testkit.cluster.kinds import POD
from nightshift_testkit.cluster.samples import named
from nightshift_testkit.cluster.services import Service, proxy
from nightshift_testkit.processes import started
from nightshift_testkit.servers import free_port
from pipelines import environments
from pipelines.engines.airflow import standalone
from pipelines.engines.airflow.operators.kubernetes import USER
from tests.dags import chart
from tests.dags.person import CONFIG, DATE, PYTHON, ROOT, Airflow, ByHand, until
from tests.infra.charts import REAL

NAMESPACE = "kubeflow"
PAST = str(date.fromisoformat(DATE) - timedelta(days=1))
LOGIN = {"username": "someone", "password": "something"}
PASSWORD = "of the secret"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
# no run but those that are asked for: what an event or the clock starts would want a GPU
DAILY = {"controller": {"retrain": "daily"}, "schedule": {"ingestion": "0 0 29 2 *", "training": "0 0 29 2 *"}}
SPACES = "cluster/namespaces"
MANIFESTS = {
    "": [f"{SPACES}/priorities.yaml", "kubernetes/aws/lustre.yaml"],
    "airflow": [f"{SPACES}/{name}.yaml" for name in ("airflow/namespace", "airflow/quota", "common/limits")],
    NAMESPACE: [
        *(f"{SPACES}/kubeflow/{name}.yaml" for name in ("namespace", "quota", "disruption", "airflow")),
        f"{SPACES}/common/limits.yaml",
        "kubernetes/base/accounts.yaml",
        "kubernetes/base/lustre.yaml",
    ],
}
# what the registry of a cluster holds; the image for GPUs is not built here
STEPS = environments.AWS.placements
IMAGES = {chart.IMAGE: image("airflow"), **{step.image: image("base") for step in STEPS.values()}}
CONFIG_FILE = "/etc/nightshift/small.yaml"


@dataclass
class Inside(Airflow):
    """An Airflow whose steps are pods."""

    nodes: SimulatedCluster

    def summary(self, run: str) -> Any:
        return self.artifact(f"runs/{run}/summary.json")

    def log(self, dag: str, run: str, task: str, count: int = 1) -> list[str]:
        """Return what the page of a try shows."""
        log = self.call("GET", f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{count}")
        return [str(line.get("event", line)) for line in log["content"]]

    def wait_for(self, step: str, run: str) -> dict[str, Any]:
        """Wait until the pod of a run's step runs, and return it."""
        of_step = {"task_id": step, "run_id": run}.items()

        def pods_of_step() -> list[dict[str, Any]]:
            assert "failed" not in self.states("small_training", run).values()
            pods = [pod for pod in self.nodes.pods(NAMESPACE) if pod["status"]["phase"] == "Running"]
            return [pod for pod in pods if of_step <= pod["metadata"]["labels"].items()]

        return until(pods_of_step, f"a pod of {step} runs")[0]


def objects() -> Iterator[dict[str, Any]]:
    """Our manifests of both namespaces, and what a secret store brings."""
    for namespace, names in MANIFESTS.items():
        for name in names:
            for manifest in yaml.safe_load_all((ROOT / "infra" / name).read_text()):
                yield inside(manifest, namespace) if namespace and manifest["kind"] != "Namespace" else manifest
    yield inside(named("Secret", "nightshift-mlflow", stringData=LOGIN))


def inside(value: dict[str, Any], namespace: str = NAMESPACE) -> dict[str, Any]:
    value["metadata"]["namespace"] = namespace
    return value


def furnish(nodes: SimulatedCluster) -> None:
    """Add our objects and nodes."""
    nodes.apply(*objects())
    gpu = STEPS[environments.Role.GPU]
    taints = [{"key": taint.key, "value": taint.value, "effect": "NoSchedule"} for taint in gpu.tolerations]
    nodes.add_node("general", {"nightshift/pool": "general"})
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        nodes.add_node(name, dict(gpu.nodes), taints, gpus=1)


def with_driver(folder: Path) -> str:
    """Return a folder with PostgreSQL's driver, which the steps' environment has no use for: Airflow's own."""
    folder.mkdir()
    for path in Path(psycopg2.__file__).parents[1].glob("psycopg2*"):
        (folder / path.name).symlink_to(path)
    return str(folder)


def require_images() -> None:
    """Skip where no image can be run; one can in CI."""
    missing = pytest.fail if os.environ.get("CI") else pytest.skip
    if not REAL.exists():
        pytest.skip("needs the facts of the charts in ../shared/charts")
    if not docker.reachable():
        missing("no container engine answers")
    absent = [image for image in sorted(IMAGES.values()) if docker.DockerRuntime().user(image) is None]
    if absent:
        missing(f"{absent[0]} is not built, run: make images")


@contextmanager
def object_store(folder: Path) -> Iterator[str]:
    """A server that speaks S3's API, with the bucket of Airflow's logs; yields its URL."""
    port = free_port()
    command = [str(PYTHON.parent / "moto_server"), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "store.log").open("w") as log, started(command, stdout=log, stderr=log):
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers(httpx.put, f"{url}/bucket"), "the object store answers")
        yield url


def answers(ask: Any, url: str) -> bool:
    try:
        return bool(ask(url).is_success)
    except httpx.HTTPError:
        return False


def installation(database: str, port: int, store: str) -> chart.Installation:
    use_case = standalone.USE_CASE.format(name="small", config=repr(CONFIG_FILE))
    files = {f"{chart.HOME}/dags/small.py": use_case, CONFIG_FILE: yaml.safe_dump(CONFIG | DAILY)}
    config = {
        "api": {"host": "127.0.0.1", "port": str(port)},
        "logging": {"remote_base_log_folder": "s3://bucket/airflow"},
        # cores are busy here
        "core": {"dagbag_import_timeout": "600"},
        "dag_processor": {"dag_file_processor_timeout": "900", "min_file_process_interval": "600"},
        "workers": {"execution_api_timeout": "60"},
    }
    access = {
        "AWS_ENDPOINT_URL": store,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    return chart.Installation(f"postgresql+psycopg2://{database}/airflow", PASSWORD, port, access, config, files)


def entered(url: str) -> httpx.Client:
    """Log in to an Airflow once all of its parts are healthy."""
    health = f"{url}/api/v2/monitor/health"

    def healthy() -> bool:
        parts = httpx.get(health).json().values() if answers(httpx.get, health) else ()
        return {part["status"] for part in parts} == {"healthy"}

    until(healthy, "Airflow is healthy")
    return standalone.client(url, PASSWORD)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, by_hand: ByHand) -> Iterator[Inside]:
    """An Airflow in which a training that was disturbed and one of a past day are under way."""
    require_images()
    folder, port = tmp_path_factory.mktemp("pods"), free_port()
    (folder / "registry").mkdir()
    with ExitStack() as stack:
        database = stack.enter_context(postgresql.serve("airflow", "mlflow"))
        arguments = (folder / "registry", str(PYTHON), f"postgresql+psycopg2://{database}/mlflow")
        registry = stack.enter_context(tracking.serve(*arguments, PYTHONPATH=with_driver(folder / "driver")))
        services = {
            "airflow-api-server:8080": Service(f"127.0.0.1:{port}"),
            "mlflow.nightshift:5000": Service(registry.removeprefix("http://"), ":".join(LOGIN.values())),
            "pushgateway.nightshift:9091": Service(),
        }
        runtime = docker.DockerRuntime(IMAGES, stack.enter_context(proxy(services)))
        nodes = stack.enter_context(running(runtime, folder, accounts=True))
        furnish(nodes)
        store = stack.enter_context(object_store(folder))
        nodes.apply(*installation(database, port, store).objects())
        installed = Inside(
            entered(f"http://127.0.0.1:{port}"), folder / "claims" / NAMESPACE / "nightshift-lustre", nodes
        )
        for dag in ("training", "monitoring", "backfill"):
            installed.unpause(f"small_{dag}")
        installed.trigger("small_training", "first", date=DATE, device="cpu")
        installed.trigger("small_backfill", "past", first=PAST, last=PAST, device="cpu")
        disturb(installed)
        yield installed


def disturb(airflow: Inside) -> None:
    """Take a node away below one step of the training, and the pod of another."""
    airflow.nodes.remove_node(airflow.wait_for("features", "first")["spec"]["nodeName"])
    airflow.nodes.delete(POD, airflow.wait_for("evaluation", "first")["metadata"]["name"], namespace=NAMESPACE)


def probes(nodes: SimulatedCluster) -> dict[str, tuple[str, Any]]:
    """Return each distinct probe of Airflow's containers, with the name of the one that it is made in."""
    by_name = {}
    for pod in nodes.pods("airflow"):
        for container in pod["spec"]["containers"]:
            (status,) = [entry for entry in pod["status"]["containerStatuses"] if entry["name"] == container["name"]]
            name = f"{pod['metadata']['uid']}-{container['name']}-{status['restartCount']}"
            texts = {json.dumps(container[kind]) for kind in PROBES if kind in container}
            by_name |= {f"{container['name']} {text}": (name, json.loads(text)) for text in texts}
    return by_name


def is_alive(container: str, probe: Any) -> bool:
    """Make a probe, as a node does."""
    if "exec" in probe:
        return docker.execute(container, probe["exec"]["command"]).returncode == 0
    return httpx.get(f"http://127.0.0.1:{probe['httpGet']['port']}{probe['httpGet']['path']}").is_success


def test_a_training_in_pods_makes_what_the_command_line_makes_though_a_node_is_lost_and_a_pod_deleted(
    airflow: Inside, by_hand: ByHand
) -> None:
    assert airflow.end("small_training", "first") == "success", airflow.states("small_training", "first")

    assert airflow.summary(f"small-training-{DATE}-first")["hashes"] == by_hand.hashes()
    tries = {name: task["try_number"] for name, task in airflow.tasks("small_training", "first").items()}
    assert set(tries.values()) == {1}
    assert not [pod for pod in airflow.nodes.pods(NAMESPACE) if pod["metadata"]["labels"].get("run_id") == "first"]


def test_each_part_of_airflow_answers_its_own_probe_and_no_other_part_does(airflow: Inside) -> None:
    by_kind = probes(airflow.nodes)

    assert {name.partition(" ")[0] for name in by_kind} == {"api-server", "dag-processor", "scheduler", "triggerer"}
    assert {name: is_alive(*probe) for name, probe in by_kind.items()} == dict.fromkeys(by_kind, True)
    (triggerer,) = [container for name, (container, _) in by_kind.items() if name.startswith("triggerer")]
    assert not is_alive(triggerer, next(probe for name, (_, probe) in by_kind.items() if name.startswith("scheduler")))


def test_the_migration_job_makes_the_pool_that_steps_on_gpus_wait_for(airflow: Inside) -> None:
    assert airflow.call("GET", "/pools/gpu")["slots"] == 8


def test_a_steps_lines_are_read_from_the_object_store_when_its_pods_are_gone(airflow: Inside) -> None:
    assert airflow.end("small_training", "first") == "success"

    lines = airflow.log("small_training", "first", "ingestion")
    assert [line for line in lines if "[base] " in line and "ingestion" in line], lines


def test_what_steps_write_is_their_users(airflow: Inside) -> None:
    assert airflow.end("small_training", "first") == "success"

    owners = {(path.stat().st_uid, path.stat().st_gid) for path in airflow.state.rglob("*")}
    assert owners == {(USER, USER)}


def test_what_steps_measured_reaches_the_report_and_the_promotion_is_announced(airflow: Inside) -> None:
    assert airflow.end("small_training", "first") == "success"
    summary = airflow.summary(f"small-training-{DATE}-first")
    (event,) = airflow.events("small/model")

    assert all(step["seconds"] > 0 and step["peak_memory_bytes"] > 0 for step in summary["steps"].values())
    assert summary["verdicts"]["deployment"]["decision"] == "promoted"
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
