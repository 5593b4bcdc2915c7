"""What `make cloud-install` does against the cluster of the tests, with kubectl as it is.

`helm` is a few lines of shell that apply what a chart makes of our values (`../shared/charts`), and what Kubeflow's
manifests make is taken from there too. Containers start where everything that they ask for is there; nothing runs.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
import yaml

from infra.cloud.answers import Cloud, EnvironmentAnswers, GpuChoices, Provisioning
from infra.cluster import core
from nightshift_testkit.cluster.cluster import CRDS, SimulatedCluster, running
from nightshift_testkit.cluster.kinds import EVENT
from nightshift_testkit.cluster.runtimes import Container, Ended
from nightshift_testkit.processes import wait_until
from pipelines.environments import SITES, Role
from tests.infra import rendered
from tests.infra.charts import CHARTS, FOLDER, REAL, ROOT, Json, read_objects
from tests.infra.rebuilt import NAMED_ONLY, rebuilt

pytestmark = [
    pytest.mark.skipif(not REAL.exists(), reason="needs the facts of the charts in ../shared/charts"),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH: nothing was installed"),
]
# secrets that programs of the charts make when they run, by who does
MADE_THERE = {
    ("kserve", "kserve-webhook-server-cert"): "cert-manager",
    ("kubeflow", "webhook-server-tls"): "cache-deployer-deployment",
    ("monitoring", "kube-prometheus-stack-admission"): "the job kube-prometheus-stack-admission-create",
}
WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
SECONDS = 60  # until every pod runs
HELM = """#!/bin/sh -e
while [ $# -gt 0 ]; do
  case $1 in --install) name=$2 ;; --namespace) namespace=$2 ;; esac
  shift
done
kubectl create namespace $namespace --dry-run=client --output yaml | kubectl apply --server-side --filename -
# a chart of kinds alone: they are there
[ -s {charts}/$name/objects.yaml ] || exit 0
kubectl apply --server-side --force-conflicts --filename {charts}/$name/objects.yaml
"""
KUBECTL = """#!/bin/sh -e
case "$*" in
*/cluster-scoped-resources*) exit ;;
*"-k infra/cluster/pipelines") exec {real} apply --server-side --force-conflicts -k {charts}/pipelines ;;
esac
exec {real} "$@"
"""


class Idle:
    """Runs containers without running anything: those of jobs, and those that come first, are done at once."""

    def __init__(self, brief: set[str]) -> None:
        self._brief = brief

    def user(self, image: str) -> str:
        return "10001"

    def start(self, container: Container) -> "IdleProcess":
        # <uid of the pod>-<name>-<number of restarts>
        name = "-".join(container.name.split("-")[5:-1])
        return IdleProcess(name in self._brief)


class IdleProcess:
    """A container that does nothing until it is told to end."""

    def __init__(self, brief: bool) -> None:
        self.output: IO[bytes] = io.BytesIO()
        self._ended = threading.Event()
        if brief:
            self._ended.set()

    def signal(self, number: int) -> None:
        self._ended.set()

    def wait(self) -> Ended:
        self._ended.wait()
        return Ended(0)


def containers(value: Json, part: str) -> set[str]:
    template = value.get("spec", {}).get("template", {}).get("spec", {})
    return {container["name"] for container in template.get(part, [])}


def of_charts() -> dict[str, list[Json]]:
    """What each chart makes, as far as it is known."""
    return {
        row["name"]: [rebuilt(fact) for fact in read_objects(row) if fact["kind"] not in NAMED_ONLY] for row in CHARTS
    }


def brief(objects: list[Json]) -> set[str]:
    """The names of containers that end by themselves."""
    jobs = [value for value in objects if value["kind"] == "Job"]
    names = {name for value in objects for name in containers(value, "initContainers")}
    return names.union(*(containers(value, "containers") for value in jobs))


def tools(folder: Path, config: Path) -> dict[str, str]:
    """Put helm, kubectl and what the charts make into a folder; return the environment of who uses them."""
    charts = folder / "charts"
    for name, objects in of_charts().items():
        (charts / name).mkdir(parents=True)
        (charts / name / "objects.yaml").write_text(yaml.safe_dump_all(objects) if objects else "")
    ours = yaml.safe_load((FOLDER / "pipelines" / "kustomization.yaml").read_text())
    (charts / "pipelines" / "kustomization.yaml").write_text(yaml.safe_dump(ours | {"resources": ["objects.yaml"]}))
    for name, text in (("helm", HELM), ("kubectl", KUBECTL)):
        (folder / name).write_text(text.format(charts=charts, real=shutil.which("kubectl")))
        (folder / name).chmod(0o755)
    return {"KUBECONFIG": str(config), "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


def with_karpenter(answers: EnvironmentAnswers) -> EnvironmentAnswers:
    """The answers, with Karpenter where there is one."""
    chosen = answers.cloud is Cloud.AWS
    return answers.model_copy(update={"gpu": GpuChoices(provisioning=Provisioning.KARPENTER)}) if chosen else answers


def furnish(nodes: SimulatedCluster, cloud: str) -> None:
    gpu, light = (SITES[cloud].placements[role] for role in (Role.GPU, Role.LIGHT))
    taints = [{"key": taint.key, "value": taint.value, "effect": "NoSchedule"} for taint in gpu.tolerations]
    for name in ("general-1", "general-2"):
        nodes.add_node(name, dict(light.nodes))
    nodes.add_node("gpu", dict(gpu.nodes), taints, gpus=8)


@contextmanager
def empty(cloud: str, folder: Path) -> Iterator[tuple[SimulatedCluster, Callable[..., None]]]:
    """Run a cluster with nodes and nothing else; yields it, and what gives commands to a shell."""
    ours = [value for path in (ROOT / "infra").rglob("*.yaml") for value in documents(path)]
    known = [*ours, *(value for objects in of_charts().values() for value in objects)]
    with running(Idle(brief(known)), folder, CRDS) as nodes:
        furnish(nodes, cloud)
        (overlays := folder / "overlays").mkdir()
        environment = tools(folder, nodes.config(folder / "config"))
        environment |= rendered.lay_out(with_karpenter(rendered.read(f"{cloud}-dev")), overlays)

        def run(*commands: str) -> None:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
                env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr

        yield nodes, run


def documents(path: Path) -> list[Json]:
    manifests = yaml.safe_load_all(path.read_text()) if "values" not in path.parts else ()
    return [value for value in manifests if isinstance(value, dict) and "kind" in value]


def troubles(nodes: SimulatedCluster) -> list[str]:
    """What does not run, and why."""
    pods = nodes.pods()
    owned = {owner["uid"] for pod in pods for owner in pod["metadata"].get("ownerReferences", [])}
    events = [event for event in nodes.api.store.copies(EVENT) if event["involvedObject"]["uid"] not in owned]
    refused = [event["message"] for event in events if event["reason"] == "FailedCreate"]
    waiting = [pod for pod in pods if pod["status"]["phase"] not in ("Running", "Succeeded")]
    return refused + [f"{pod['metadata']['name']}: {json.dumps(pod['status'])}" for pod in waiting]


def workloads(nodes: SimulatedCluster) -> set[str]:
    """The names of what has pods."""
    return {owner["name"] for pod in nodes.pods() for owner in pod["metadata"].get("ownerReferences", [])}


def test_what_is_left_out_of_the_charts_is_what_nothing_is_known_of() -> None:
    content = {"keys", "rules", "roleRef", "spec", "ports", "containers"}
    bare = {fact["kind"] for row in CHARTS for fact in read_objects(row) if not content & fact.keys()}

    assert bare - {"Namespace", "Role", "Secret", "ServiceAccount"} | WEBHOOKS == NAMED_ONLY


@pytest.mark.parametrize(("cloud", "times"), [("aws", 2), ("gcp", 1)])
def test_a_cluster_takes_all_that_is_installed_again_too_and_every_pod_of_it_starts(
    cloud: str, times: int, tmp_path: Path
) -> None:
    commands = core.install(CHARTS, cloud, "nightshift-dev")
    with empty(cloud, tmp_path) as (nodes, run):
        for _ in range(times):
            run(*commands)
        if cloud == "aws":
            run('kubectl apply -k "$OVERLAYS/karpenter"')
        for namespace, name in MADE_THERE:
            nodes.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}})

        with contextlib.suppress(AssertionError):
            wait_until(lambda: not troubles(nodes), "everything runs", SECONDS)
        assert troubles(nodes) == []
        assert workloads(nodes) >= {"airflow-scheduler", "mlflow", "ml-pipeline", "nightshift-exporter", "postgresql"}
