"""Runs that are submitted and scheduled, carried out as pods on the stand-in of a cluster, under our manifests.

Their pods are processes of this machine, without GPUs, so runs are started with `device=cpu`. What carries them out is
`packages/testkit/nightshift_testkit/kubeflow_runs/`, and no Kubeflow.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from kubernetes import client

from nightshift import registry
from nightshift.cluster.kubeflow import Definition
from nightshift_testkit import s3, tracking
from nightshift_testkit.cluster.cluster import SimulatedCluster, running
from nightshift_testkit.cluster.kinds import POD
from nightshift_testkit.cluster.samples import named
from nightshift_testkit.cluster.services import Service, proxy
from nightshift_testkit.kubeflow import Kubeflow, serve
from nightshift_testkit.kubeflow_runs import spec
from nightshift_testkit.kubeflow_runs.forks import forking
from nightshift_testkit.kubeflow_runs.launcher import SIGNED
from nightshift_testkit.kubeflow_runs.pods import Wanted
from nightshift_testkit.kubeflow_runs.records import recording
from nightshift_testkit.kubeflow_runs.runtime import StepRuntime
from nightshift_testkit.kubeflow_runs.workflows import NAMESPACE, Argo, Workflow
from nightshift_testkit.processes import engine, wait_until
from nightshift_testkit.receivers import receiving
from pipelines import arguments
from pipelines.compiling import PIPELINES, compile_pipeline
from pipelines.environments import AWS, GCP, Role
from tests.e2e.nights import GROUP, TRAINED, Nights
from tests.e2e.nights import config as small_world
from tests.pipelines.engines.kubeflow.test_exporter import exporting
from tests.pipelines.samples import command

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

INFRA = Path(__file__).parents[2] / "infra"
SPACES = "cluster/namespaces"
OURS = (
    *(f"{SPACES}/kubeflow/{name}.yaml" for name in ("namespace", "quota", "disruption")),
    *(f"{SPACES}/{name}.yaml" for name in ("priorities", "common/limits")),
    *(f"kubernetes/{name}.yaml" for name in ("aws/lustre", "base/accounts", "base/lustre")),
)
CLUSTER_WIDE = ("Namespace", "PersistentVolume", "PriorityClass")
# what Argo may do, and its defaults, to which we have others: both of Kubeflow's manifests, 2.17.0
PODS = {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["create", "delete", "get", "list", "watch"]}
DEFAULTS = {"spec": {"templateDefaults": {"retryStrategy": {"limit": "2", "retryPolicy": "OnError"}}}}
ARGO = "workflow-controller-configmap"
RBAC = "rbac.authorization.k8s.io"
LOGIN = {"username": "someone", "password": "something"}
STORE = "s3://lake/pipelines"
RECEIVER = "NIGHTSHIFT_NOTIFY_WEBHOOK"


@dataclass(frozen=True)
class Platform:
    """A Kubeflow, and the cluster that it has."""

    kubeflow: Kubeflow
    nodes: SimulatedCluster
    argo: Argo
    lustre: Path
    registry: str
    store: str

    def nightshift(self, *words: str) -> None:
        output, code = finished(self.begin(*words))
        assert code == 0, output

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        command = engine(*words, "--environment", "aws", "--endpoint", self.kubeflow.url, "--inside", self.kubeflow.url)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def workflow(self, name: str) -> Workflow:
        """Wait for the run whose name begins so."""

        def started() -> list[Workflow]:
            return [workflow for workflow in self.argo.workflows if workflow.record.display_name.startswith(name)]

        return wait_until(started, f"{name} is there")[0]

    def ended(self, name: str) -> Workflow:
        workflow = self.workflow(name)
        workflow.join()
        return workflow

    def read(self, workflow: Workflow, step: str, output: str) -> Any:
        """Read an artifact in the object store."""
        uri = workflow.artifacts[step][output]["artifacts"][0]["uri"]
        return httpx.get(uri.replace("s3:/", self.store), headers=SIGNED).raise_for_status().json()

    def pod(self, step: str) -> str:
        """Wait for the first pod of a step, and return its name."""

        def started() -> list[str]:
            names = [pod["metadata"]["name"] for pod in self.nodes.pods(NAMESPACE)]
            return [name for name in names if step in name.split("-")]

        return wait_until(started, f"a pod of {step} is there")[0]


def finished(process: "subprocess.Popen[str]") -> tuple[str, int]:
    """Wait for a command, and return what it has said and its exit code."""
    output = process.communicate()[0]
    return output, process.returncode


def furnish(nodes: SimulatedCluster) -> None:
    """Add what our manifests describe, nodes, and what Kubeflow's and `make cloud-install` bring."""
    for name in OURS:
        for value in yaml.safe_load_all((INFRA / name).read_text()):
            if value["kind"] not in ("Job", *CLUSTER_WIDE):
                value["metadata"]["namespace"] = NAMESPACE
            if value["kind"] != "Job":  # who owns a folder is nothing to processes
                nodes.apply(value)
    for value in kubeflows():
        value["metadata"]["namespace"] = NAMESPACE
        nodes.apply(value)
    gpu, light = (AWS.placements[role] for role in (Role.GPU, Role.LIGHT))
    taints = [{"key": taint.key, "value": taint.value, "effect": "NoSchedule"} for taint in gpu.tolerations]
    nodes.add_node("general", dict(light.nodes))
    nodes.add_node("gpu-1", dict(gpu.nodes), taints, gpus=1)
    nodes.add_node("gpu-2", dict(gpu.nodes), taints, gpus=1)


def kubeflows() -> Iterator[Any]:
    """What Kubeflow's manifests and our commands bring, as far as runs need it."""
    yield named("Secret", "nightshift-mlflow", stringData=LOGIN)
    yield named("ConfigMap", "kfp-launcher", data={"defaultPipelineRoot": STORE})
    yield named("ConfigMap", ARGO, data=argos())
    yield named("ServiceAccount", "argo")
    yield named("Role", "argo-role", f"{RBAC}/v1", rules=[PODS])
    subjects = [{"kind": "ServiceAccount", "name": "argo", "namespace": NAMESPACE}]
    role = {"apiGroup": RBAC, "kind": "Role", "name": "argo-role"}
    yield named("RoleBinding", "argo-binding", f"{RBAC}/v1", roleRef=role, subjects=subjects)


def argos() -> dict[str, str]:
    """What Argo is installed with: Kubeflow's own, and what our patches put in its place."""
    patches = yaml.safe_load((INFRA / "cluster/pipelines/kustomization.yaml").read_text())["patches"]
    settings = {"workflowDefaults": yaml.safe_dump(DEFAULTS)}
    for patch in patches:
        if patch["target"]["name"] == ARGO:
            settings |= yaml.safe_load(patch["patch"])["data"]
    return settings


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("kubeflow")
    (folder / "registry").mkdir()
    with ExitStack() as stack:
        store = stack.enter_context(s3.bucket())
        models = stack.enter_context(tracking.serve(folder / "registry"))
        records = stack.enter_context(recording())
        services = {
            "mlflow.nightshift:5000": Service(models.removeprefix("http://"), ":".join(LOGIN.values())),
            "pushgateway.nightshift:9091": Service(),
            "metadata-grpc-service.kubeflow:8080": Service(f"127.0.0.1:{records.server_port}"),
        }
        outside = stack.enter_context(proxy(services)) | s3.environment(store)
        path = {"PATH": f"{Path(engine()[0]).parent}:{os.environ['PATH']}"}
        forks = stack.enter_context(forking())
        nodes = stack.enter_context(running(StepRuntime(forks, outside | path), folder))
        furnish(nodes)
        kubeflow = Kubeflow()
        server = serve(kubeflow)
        stack.callback(lambda: next(server, None))
        next(server)
        argo = Argo(kubeflow, nodes.url, nodes.api.token, records)
        stack.callback(argo.stop)
        kubeflow.execute = argo.start
        yield Platform(kubeflow, nodes, argo, folder / "claims" / NAMESPACE / "nightshift-lustre", models, store)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    path = tmp_path_factory.mktemp("config") / "fraud.yaml"
    path.write_text(yaml.safe_dump(small_world()))
    return "--config", str(path)


@pytest.fixture(scope="module")
def trained(platform: Platform, config: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A training with features in two shards, whose first pod found no node and was deleted."""
    folder = tmp_path_factory.mktemp("compiled")
    sharded = compile_pipeline("training", replace(AWS, feature_shards=2), folder)
    platform.nodes.cordon("general")
    process = platform.begin("submit", str(sharded), "--date", TRAINED, *config, "--set", "device=cpu", "--wait")
    platform.nodes.delete(POD, platform.pod("ingestion"), namespace=NAMESPACE)
    platform.nodes.cordon("general", unschedulable=False)
    output, code = finished(process)
    assert code == 0, output
    return platform.ended(f"fraud-training-{TRAINED}")


def test_a_submitted_training_makes_what_the_command_line_makes(
    platform: Platform, trained: Workflow, nights: Nights
) -> None:
    summary = platform.read(trained, "reporting", "summary")

    assert {task.state for task in trained.record.run_details.task_details} == {"SUCCEEDED"}
    assert summary["hashes"] == nights.left(f"fraud-training-{TRAINED}-*/summary.json")["hashes"]


def test_a_pod_that_was_deleted_is_made_once_more(trained: Workflow) -> None:
    tries = {name: [outcome.message for outcome in outcomes] for name, outcomes in trained.tries.items()}

    assert tries.pop("ingestion") == ["pod deleted", ""]
    assert set(map(tuple, tries.values())) == {("",)}
    assert {"features-shard-0", "features-shard-1", "features"} <= set(tries)


def test_what_a_training_leaves_bears_the_name_of_its_run(platform: Platform, trained: Workflow) -> None:
    name = trained.record.display_name

    assert {path.name for path in (platform.lustre / "runs").iterdir()} == {name, "latest"}
    assert json.loads((platform.lustre / f"runs/{name}/summary.json").read_text())["run"] == name
    (version,) = registry.versions(platform.registry, "fraud")
    assert version.tags["parent_run"] == name


def quota(cores: str) -> Any:
    manifest = named("ResourceQuota", "room", spec={"hard": {"requests.cpu": cores}})
    manifest["metadata"]["namespace"] = NAMESPACE
    return manifest


@pytest.fixture(scope="module")
def failed(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A run whose data is nowhere, and which found no room at first."""
    config = tmp_path_factory.mktemp("config") / "fraud.yaml"
    config.write_text(yaml.safe_dump(small_world() | {"notify": {"receivers": [{"variable": RECEIVER}]}}))
    platform.nodes.apply(quota("1"))
    words = ("--config", str(config), "--data", "/lustre/nothing", "--set", f"state.audit={config.parent}", "--wait")
    process = platform.begin("submit", "ingestion", "--date", TRAINED, *words)
    workflow = platform.workflow(f"fraud-ingestion-{TRAINED}")
    wait_until(lambda: workflow.waits, "a pod is refused")
    assert (workflow.record.state, workflow.tries) == ("RUNNING", {"ingestion": []})
    platform.nodes.apply(quota("64"))
    output, code = finished(process)
    assert code == 1 and "ingestion failed" in output, output
    return platform.ended(workflow.record.display_name)


def test_a_step_that_the_quota_has_no_room_for_waits_for_it(failed: Workflow) -> None:
    assert "exceeded quota: room, requested: requests.cpu=1100m" in failed.waits["ingestion"]
    assert failed.tries["ingestion"]


def test_a_step_that_fails_is_tried_as_often_as_its_placement_says_and_its_run_fails_with_it(failed: Workflow) -> None:
    (detail,) = failed.record.run_details.task_details

    assert len(failed.tries["ingestion"]) == 1 + AWS.placements[Role.LIGHT].retry.count
    assert (failed.record.state, detail.state) == ("FAILED", "FAILED")
    assert failed.record.error.message == "ingestion: main: Error (exit code 1)"


def test_the_exporter_shows_the_run_that_failed(platform: Platform, failed: Workflow) -> None:
    with exporting(platform.kubeflow) as url:
        page = httpx.get(url).text

    assert failed.record.state == "FAILED"
    assert 'nightshift_runs{pipeline="ingestion",state="FAILED",use_case="fraud"} 1.0' in page
    assert 'nightshift_run_last_failure_timestamp_seconds{pipeline="ingestion",use_case="fraud"}' in page


def test_the_receivers_of_the_run_that_failed_are_notified_once(platform: Platform, failed: Workflow) -> None:
    with receiving() as receiver:
        for _ in range(2):
            done = command("notify", "--kubeflow", "--endpoint", platform.kubeflow.url, **{RECEIVER: receiver.url})
            assert done.returncode == 0, done.stderr

    ((notification,),) = [body["notifications"] for body in receiver.bodies]
    assert (notification["event"], notification["subject"]) == ("failed", "ingestion")
    assert notification["run"] == failed.record.display_name


def test_what_the_clock_starts_starts_the_run_of_the_day_which_runs_to_its_end(
    platform: Platform, config: tuple[str, ...]
) -> None:
    platform.nightshift("schedule", *config)
    clock = platform.ended(platform.kubeflow.trigger("fraud-ingestion").display_name)
    assert clock.record.state == "SUCCEEDED", clock.record.error

    run = platform.ended(platform.read(clock, "launching", "launch")["run"])

    assert run.record.state == "SUCCEEDED", run.record.error
    assert platform.read(run, "reporting", "summary")["run"] == run.record.display_name
    assert {clock.account, run.account} == {"nightshift"}


@pytest.mark.parametrize("site", [AWS.name, GCP.name])
@pytest.mark.parametrize("name", PIPELINES)
def test_every_pod_of_every_pipeline_is_let_in(name: str, site: str, platform: Platform) -> None:
    pipeline = arguments.load_compiled(name, site)
    whole = Definition.read(pipeline.yaml).fields["pipeline_spec"]
    facts = spec.RunFacts(name, "run-1", "the-run", dict.fromkeys(pipeline.parameters, "given"), STORE)

    with ExitStack() as stack:
        core = client.CoreV1Api(platform.argo.api(stack, "argo"))
        for task, executor_input in spec.walked(whole, facts):
            pod = Wanted(task, executor_input, "nightshift", name, "execution", 0).pod
            core.create_namespaced_pod(NAMESPACE, pod, dry_run="All")


def test_an_account_that_is_not_ours_may_not_even_ask_where_artifacts_lie(
    platform: Platform, config: tuple[str, ...]
) -> None:
    words = ("submit", "ingestion", "--date", TRAINED, *config, "--service-account", "default")
    platform.nightshift(*words)
    (workflow,) = [workflow for workflow in platform.argo.workflows if workflow.account == "default"]
    workflow.join()

    assert workflow.record.state == "FAILED"
    assert 'configmaps "kfp-launcher" is forbidden' in workflow.record.error.message


def test_where_pod_security_is_strictest_no_step_is_let_in_and_the_run_says_why(
    platform: Platform, config: tuple[str, ...]
) -> None:
    before = len(platform.argo.workflows)
    with enforced(platform.nodes, "restricted"):
        platform.nightshift("submit", "ingestion", "--date", TRAINED, *config)
        workflow = platform.argo.workflows[before]
        workflow.join()

    assert workflow.record.state == "FAILED"
    assert 'violates PodSecurity "restricted' in workflow.record.error.message
    assert "runAsNonRoot != true" in workflow.record.error.message


@contextmanager
def enforced(nodes: SimulatedCluster, level: str) -> Iterator[None]:
    """Have another Pod Security in the namespace for a while."""
    for policy in (level, "baseline"):
        labels = {"pod-security.kubernetes.io/enforce": policy}
        nodes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
        if policy == level:
            yield
