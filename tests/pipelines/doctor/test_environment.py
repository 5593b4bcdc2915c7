"""What the doctor says of an environment: nothing is wrong with a healthy one, and each fault has its fix."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightshift.contracts.health import CheckStatus, HealthCheck
from nightshift.runtime.errors import UnavailableError
from nightshift_testkit import s3
from nightshift_testkit.cluster.cluster import CRDS
from nightshift_testkit.cluster.rbac import User
from pipelines.doctor import access, services
from pipelines.doctor.environment import diagnose_inside
from pipelines.environments import AWS, AWS_TRY, GCP_TRY, SITES, Role, Site
from tests.pipelines.doctor.cluster import (
    GPU_LABELS,
    GPU_TAINT,
    INFRA,
    REGISTRY,
    DownApi,
    Environment,
    connected,
    healthy,
    restored,
)

pytestmark = pytest.mark.slow  # kubectl renders the manifests
ROOT = "s3://lake/pipelines"
FOLDERS = ("lake", "runs", "audit", "checkpoints")
FAILED, UNAVAILABLE, SKIPPED = CheckStatus.FAILED, CheckStatus.UNAVAILABLE, CheckStatus.SKIPPED
Sow = Callable[[Environment], Any]


@pytest.fixture(scope="module", autouse=True)
def bucket() -> Iterator[str]:
    with s3.bucket() as url, s3.reached_at(url):
        yield url


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    with healthy(tmp_path_factory.mktemp("cluster"), ROOT) as running:
        yield running


@pytest.fixture
def environment(installed: Environment, tmp_path: Path) -> Iterator[Environment]:
    """An environment of the test's own, on a cluster that is restored behind it."""
    with restored(installed.cluster), connected(installed.cluster, tmp_path) as running:
        yield running


def drop_verb(name: str, verb: str, namespace: str = "kubeflow") -> Sow:
    def change(role: Any) -> None:
        for rule in role["rules"]:
            rule["verbs"] = [kept for kept in rule["verbs"] if kept != verb]

    return lambda env: env.edit("Role", name, change, namespace)


def set_data(name: str, **data: str) -> Sow:
    return lambda env: env.edit("Secret", name, lambda secret: secret.update(data=data))


def edit(kind: str, name: str, namespace: str = "kubeflow", **fields: Any) -> Sow:
    """Return a fault that replaces fields below `spec`."""
    return lambda env: env.edit(kind, name, lambda value: value["spec"].update(fields), namespace)


def relabel(name: str, **labels: str | None) -> Sow:
    """Return a fault that replaces labels of a node; None removes one, and two underlines are a slash."""

    def change(node: Any) -> None:
        for key, value in labels.items():
            node["metadata"]["labels"].pop(key.replace("__", "/"), None)
            node["metadata"]["labels"] |= {key.replace("__", "/"): value} if value else {}

    return lambda env: env.edit("Node", name, change)


def annotate(name: str, value: str) -> Sow:
    role = {"annotations": {"eks.amazonaws.com/role-arn": value}}
    return lambda env: env.edit("ServiceAccount", name, lambda account: account["metadata"].update(role))


def answer(service: str, value: str | Exception) -> Sow:
    return lambda env: env.api.answers.update({service: value})


def allocate(node: str, **room: str) -> Sow:
    return lambda env: env.edit("Node", node, lambda value: value["status"]["allocatable"].update(room))


def set_root(root: str) -> Sow:
    data = {"defaultPipelineRoot": root}
    return lambda env: env.edit("ConfigMap", "kfp-launcher", lambda value: value.update(data=data))


LIMIT = [{"type": "Container", "max": {"memory": "16Gi"}}]
LEAST = [{"type": "Container", "min": {"cpu": "2"}}]
# fault -> (how it is injected, the check that sees it, its status, a part of what was seen, a part of the fix)
FAULTS: dict[str, tuple[Sow, str, CheckStatus, str, str]] = {
    "a namespace is missing": (
        lambda env: env.remove("Namespace", "nightshift"),
        "namespace nightshift", FAILED, "missing", "make cloud-install",
    ),
    "a namespace is being deleted": (
        lambda env: env.edit("Namespace", "nightshift", lambda value: value.update(status={"phase": "Terminating"})),
        "namespace nightshift", FAILED, "Terminating", "wait until it is gone",
    ),
    "an account is missing": (
        lambda env: env.remove("ServiceAccount", "nightshift-release"),
        "account kubeflow/nightshift-release", FAILED, "missing", "make cloud-install",
    ),
    "an account acts as another": (
        annotate("nightshift", "arn:aws:iam::000000000000:role/steps"),
        "account kubeflow/nightshift", FAILED, "000000000000", "kubectl annotate",
    ),
    "steps may not write Argo's results": (
        drop_verb("nightshift-launcher", "patch"),
        "rights of nightshift", FAILED, "may not patch workflowtaskresults.argoproj.io", "base/accounts.yaml",
    ),
    "the release step may not change served models": (
        drop_verb("nightshift-release", "update", "nightshift"),
        "rights of nightshift-release", FAILED, "may not update inferenceservices", "nightshift/release.yaml",
    ),
    "the binding of the release step is missing": (
        lambda env: env.remove("RoleBinding", "nightshift-release", "nightshift"),
        "rights of nightshift-release", FAILED, "may not create inferenceservices", "nightshift/release.yaml",
    ),
    "the training step may not read its machines' logs": (
        drop_verb("nightshift-training", "get"),
        "rights of nightshift-training", FAILED, "may not get pods/log", "base/training.yaml",
    ),
    "Airflow may not start pods": (
        drop_verb("airflow-launches", "create"),
        "rights of airflow-worker", FAILED, "may not create pods in kubeflow", "kubeflow/airflow.yaml",
    ),
    "a claim is missing": (
        lambda env: env.remove("PersistentVolumeClaim", "nightshift-lustre"),
        "claim kubeflow/nightshift-lustre", FAILED, "missing", "make cloud-install",
    ),
    "a claim waits for its volume": (
        lambda env: env.edit("PersistentVolumeClaim", "nightshift-lustre", lambda value: value.pop("status")),
        "claim kubeflow/nightshift-lustre", FAILED, "Pending", "names the file system",
    ),
    "a claim is for one node": (
        edit("PersistentVolumeClaim", "nightshift-lustre", accessModes=["ReadWriteOnce"]),
        "claim kubeflow/nightshift-lustre", FAILED, "not ReadWriteMany", "delete claim and volume",
    ),
    "Lustre is mounted without locks": (
        edit("PersistentVolume", "nightshift-lustre", mountOptions=[]),
        "claim kubeflow/nightshift-lustre", FAILED, "no flock", "delete claim and volume",
    ),
    "the volume is the example's": (
        edit("PersistentVolume", "nightshift-lustre", csi={"volumeHandle": "fs-00000000000000000"}),
        "claim kubeflow/nightshift-lustre", FAILED, "example's", "delete claim and volume",
    ),
    "a secret is missing": (
        lambda env: env.remove("Secret", "nightshift-serving"),
        "secret kubeflow/nightshift-serving", FAILED, "missing", "kubectl get secret --namespace nightshift",
    ),
    "a secret has another key": (
        set_data("nightshift-mlflow", user="eA==", password="eA=="),
        "secret kubeflow/nightshift-mlflow", FAILED, "key username is missing", "kubectl get secret",
    ),
    "a secret's value is empty": (
        set_data("nightshift-serving", token=""),
        "secret kubeflow/nightshift-serving", FAILED, "key token is empty", "kubectl get secret --namespace nightshift",
    ),
    "a priority class is missing": (
        lambda env: env.remove("PriorityClass", "nightshift-platform"),
        "priority class nightshift-platform", FAILED, "missing", "namespaces/priorities.yaml",
    ),
    "training goes before serving": (
        lambda env: env.edit("PriorityClass", "nightshift-training", lambda value: value.update(value=5000)),
        "priority class nightshift-training", FAILED, "value is 5000", "kubectl delete priorityclass",
    ),
    "no node takes light steps": (
        relabel("general-1", nightshift__pool="other"),
        "nodes of light steps", FAILED, "none of 2 nodes", "terraform apply",
    ),
    "a GPU node has no label for steps": (
        relabel("gpu-1", nightshift__gpus=None),
        "labels of GPU nodes", FAILED, "gpu-1 has no nightshift/gpus", "infra/aws",
    ),
    "GPU nodes have a taint that steps do not tolerate": (
        lambda env: env.cluster.taint("gpu-1", "dedicated", value="research"),
        "nodes of gpu steps", FAILED, "dedicated=research:NoSchedule", "labels, taints",
    ),
    "the device plugin does not run": (
        allocate("gpu-1", **{"nvidia.com/gpu": "0"}),
        "nodes of gpu steps", FAILED, "offers nvidia.com/gpu 0, below 1", "node pools",
    ),
    "GPU nodes are too small": (
        allocate("gpu-1", memory="15Gi"),
        "nodes of gpu steps", FAILED, "offers memory 15Gi, below 16Gi", "node pools",
    ),
    "the only node is cordoned": (
        lambda env: env.cluster.cordon("general-1"),
        "nodes of light steps", FAILED, "kubectl uncordon general-1", "terraform apply",
    ),
    "the driver is older than the image's CUDA": (
        relabel("gpu-1", **{"nvidia.com__cuda.driver.major": "470"}),
        "driver of gpu-1", FAILED, "driver 470", "AMI",
    ),
    "a quota has less than a GPU": (
        edit("ResourceQuota", "runs", hard={"requests.nvidia.com/gpu": "0"}),
        "quota kubeflow/runs", FAILED, "a step takes 1", "namespaces/kubeflow/quota.yaml",
    ),
    "a quota has less memory than the largest step": (
        edit("ResourceQuota", "runs", hard={"requests.memory": "8Gi"}),
        "quota kubeflow/runs", FAILED, "a step takes 16Gi", "namespaces/kubeflow/quota.yaml",
    ),
    "a limit range refuses the memory of GPU steps": (
        edit("LimitRange", "requests", limits=LIMIT),
        "limit range kubeflow/requests", FAILED, "a step's limit is 32Gi", "namespaces/common/limits.yaml",
    ),
    "a limit range wants more than light steps request": (
        edit("LimitRange", "requests", limits=LEAST),
        "limit range kubeflow/requests", FAILED, "a step requests 1", "namespaces/common/limits.yaml",
    ),
    "the registry of models has no service": (
        lambda env: env.remove("Service", "mlflow", "nightshift"),
        "service nightshift/mlflow", FAILED, "does not resolve", "make cloud-install",
    ),
    "the gateway listens on another port": (
        edit("Service", "pushgateway", "nightshift", ports=[{"port": 9092}]),
        "service nightshift/pushgateway", FAILED, "ports 9092", "make cloud-install",
    ),
    "the registry of models has no ready pod": (
        lambda env: env.edit("Endpoints", "mlflow", lambda value: value.update(subsets=[]), "nightshift"),
        "service nightshift/mlflow", UNAVAILABLE, "no ready pod", "kubectl get pods,events --namespace nightshift",
    ),
    "Kubeflow is of another major version": (
        answer("ml-pipeline", '{"tag_name": "1.8.5"}'),
        "Kubeflow Pipelines", FAILED, "version 1.8.5", "make cloud-install",
    ),
    "a login page answers instead of Kubeflow": (
        answer("ml-pipeline", "<html>"),
        "Kubeflow Pipelines", FAILED, "Expecting value", "KFP_ENDPOINT",
    ),
    "Kubeflow is down": (
        answer("ml-pipeline", UnavailableError("503")),
        "Kubeflow Pipelines", UNAVAILABLE, "503", "kubectl get pods --namespace kubeflow",
    ),
    "Airflow's scheduler has stopped": (
        answer("airflow-api-server", '{"scheduler": {"status": "unhealthy"}}'),
        "Airflow", FAILED, "scheduler is unhealthy", "kubectl logs --namespace airflow",
    ),
    "the GPU exporter lacks a metric": (
        answer("dcgm-exporter", "DCGM_FI_DEV_GPU_TEMP 40"),
        "GPU metrics", FAILED, "DCGM_FI_PROF_SM_ACTIVE is missing", "dcgm-counters.csv",
    ),
    "an image was not pushed": (
        lambda env: env.images.images.discard(env.site.placements[Role.GPU].image),
        f"image {AWS.placements[Role.GPU].image.replace('registry.example.com/nightshift', REGISTRY)}",
        FAILED, "it has no", "build and push it",
    ),
    "the pull secret's login has expired": (
        lambda env: setattr(env.images, "login", "other"),
        f"image {AWS.placements[Role.LIGHT].image.replace('registry.example.com/nightshift', REGISTRY)}",
        FAILED, "refuses the login", "kubectl create secret docker-registry",
    ),
    "the pull secret is missing": (
        lambda env: env.remove("Secret", "pull"),
        "pull secrets of nightshift", FAILED, "pull is missing", "kubectl create secret docker-registry",
    ),
    "the registry is still the example's": (
        lambda env: setattr(env, "site", AWS),
        f"image {AWS.placements[Role.LIGHT].image}", FAILED, "does not exist", "NIGHTSHIFT_IMAGES",
    ),
    "the runtime of TrainJobs has an older image": (
        lambda env: env.place_steps(Role.GPU, image=f"{REGISTRY}/rapids:9.9.9"),
        "TrainingRuntime nightshift", FAILED, "rapids:0.", "make cloud-install",
    ),
    "the pipeline root is Kubeflow's own store": (
        set_root("minio://mlpipeline/v2/artifacts"),
        "pipeline root", FAILED, "minio://", "which writes kfp-launcher",
    ),
    "the pipeline root's bucket does not exist": (
        set_root("s3://nobodys/pipelines"),
        "pipeline root", FAILED, "s3://nobodys", "terraform apply",
    ),
}  # fmt: skip


def check(report: Any, name: str) -> HealthCheck:
    (only,) = [entry for entry in report.checks if entry.name == name]
    return only


def require_crds() -> None:
    """Skip without the kinds of Kubeflow Trainer, which are no part of the project."""
    if not CRDS.exists():
        pytest.skip(f"{CRDS} is missing")


def test_nothing_is_wrong_with_what_infra_installs(environment: Environment) -> None:
    require_crds()
    report = environment.diagnose()

    assert [entry for entry in report.checks if entry.status != CheckStatus.OK] == []
    assert report.exit_code == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_with_its_fix(fault: str, environment: Environment) -> None:
    inject, name, status, seen, fix = FAULTS[fault]
    if name.startswith("TrainingRuntime"):
        require_crds()
    inject(environment)

    report = environment.diagnose()

    result = check(report, name)
    assert result.status == status
    assert seen in result.seen and fix in result.fix and result.allowed
    assert report.exit_code == (2 if status == FAILED else 1)


def test_a_cluster_that_is_down_is_one_line_and_nothing_else_is_tried(environment: Environment) -> None:
    environment.cluster.api.requests.clear()
    down = Environment(environment.cluster, DownApi(), environment.site)

    report = down.diagnose()

    assert [entry.status for entry in report.checks][:2] == [UNAVAILABLE, SKIPPED]
    assert {entry.status for entry in report.checks[1:]} == {SKIPPED}
    assert report.exit_code == 1
    assert environment.cluster.api.requests == []


def test_who_may_look_at_little_is_shown_which_rights_are_missing_and_sees_the_rest(environment: Environment) -> None:
    viewer = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "viewer"}}
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"}
    binding = {"kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [{"kind": "User", "name": "ann"}]}
    environment.cluster.apply(viewer | {"kind": "ClusterRole", "rules": rules}, viewer | binding)
    environment.cluster.log_in("token", User("ann"))
    environment.api.log_in("token")

    report = environment.diagnose()

    assert "may not get secrets in kubeflow" in check(report, "rights of yours").seen
    assert "administrator" in check(report, "secrets").fix
    assert check(report, "namespace nightshift").status == CheckStatus.OK


def test_a_pool_without_nodes_is_no_fault_of_gpu_steps(environment: Environment) -> None:
    environment.remove("Node", "gpu-1")

    result = check(environment.diagnose(), "nodes of gpu steps")

    assert result.status == SKIPPED and "grows from zero" in result.seen


def test_a_spot_node_is_usable(environment: Environment) -> None:
    environment.cluster.taint("gpu-1", "nightshift/spot", value="true")

    assert check(environment.diagnose(), "nodes of gpu steps").status == CheckStatus.OK


def test_one_usable_node_of_a_pool_is_enough(environment: Environment) -> None:
    environment.cluster.add_node("gpu-2", GPU_LABELS, [GPU_TAINT], gpus=1)
    environment.cluster.cordon("gpu-1")

    assert check(environment.diagnose(), "nodes of gpu steps").seen == "1 of 2 usable"


def test_without_airflow_and_trainer_their_checks_are_skipped(environment: Environment) -> None:
    environment.remove("Namespace", "airflow")
    del environment.api.answers["airflow-api-server"]
    environment.cluster.api.kinds = tuple(
        kind for kind in environment.cluster.api.kinds if kind.group != "trainer.kubeflow.org"
    )

    report = environment.diagnose()

    names = ("rights of airflow-worker", "Airflow", "TrainingRuntime nightshift")
    assert {check(report, name).status for name in names} == {SKIPPED}
    assert report.exit_code == 0


@pytest.mark.parametrize("site", [AWS_TRY, GCP_TRY], ids=lambda site: site.name)
def test_of_what_the_smallest_cluster_does_not_have_nothing_is_asked(site: Site, tmp_path: Path) -> None:
    with healthy(tmp_path, ROOT, site) as environment:
        del environment.api.answers["ml-pipeline"], environment.api.answers["dcgm-exporter"]
        report = environment.diagnose()
        state = site.parameters["state"] | {root: str(tmp_path / root) for root in FOLDERS}
        in_pod = diagnose_inside(environment.api, replace(site, parameters={"state": state}), lambda host, port: None)

    skipped = {entry.name for entry in report.checks if entry.status == SKIPPED}
    assert skipped == {
        "Kubeflow Pipelines", "pipeline root", "rights of nightshift-training", "TrainingRuntime nightshift",
        "GPU metrics",
    }  # fmt: skip
    assert report.exit_code == 0
    assert "connection to ml-pipeline.kubeflow.svc.cluster.local:8888" not in {entry.name for entry in in_pod.checks}
    assert check(in_pod, "pipeline root").status == SKIPPED and in_pod.exit_code == 0


def test_nodes_that_pull_by_their_own_identity_are_not_asked_for_a_pull_secret(environment: Environment) -> None:
    environment.edit("ServiceAccount", "nightshift", lambda account: account.pop("imagePullSecrets"))

    report = environment.diagnose()

    images = [entry for entry in report.checks if entry.name.startswith("image ")]
    assert {entry.status for entry in images} == {SKIPPED} and report.exit_code == 0


@pytest.mark.parametrize(("minutes", "status"), [(-4, CheckStatus.OK), (-6, FAILED), (6, FAILED)])
def test_a_clock_is_wrong_when_it_is_five_minutes_off(
    minutes: int, status: CheckStatus, environment: Environment
) -> None:
    (result,) = services.check_clock(environment.api, lambda: datetime.now(UTC) + timedelta(minutes=minutes))

    assert result.status == status


def test_a_pod_sees_names_state_and_its_own_rights(environment: Environment, tmp_path: Path) -> None:
    state = environment.site.parameters["state"]
    folders = {root: str(tmp_path / root) for root in FOLDERS}
    site = replace(environment.site, parameters={"state": state | folders})
    connections = []

    def connect(host: str, port: int) -> None:
        connections.append((host, port))
        if host == "mlflow.nightshift":
            raise OSError("Name or service not known")

    report = diagnose_inside(environment.api, site, connect)

    assert report.in_pod and check(report, "state.lake").status == CheckStatus.OK
    assert check(report, "connection to mlflow.nightshift:5000").status == FAILED
    assert connections[0] == ("ml-pipeline.kubeflow.svc.cluster.local", 8888)
    assert list((tmp_path / "lake").iterdir()) == []


def test_a_file_system_that_steps_may_not_write_to_is_a_fault(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file in the way")
    state = environment.site.parameters["state"] | {"lake": str(tmp_path / "lake")}
    site = replace(environment.site, parameters={"state": state})

    report = diagnose_inside(environment.api, site, lambda host, port: None)

    assert check(report, "state.lake").status == FAILED and "Job" in check(report, "state.lake").fix


def test_all_gpu_metrics_of_the_exporters_file_are_looked_for() -> None:
    lines = (INFRA / "monitoring" / "dcgm-counters.csv").read_text().splitlines()

    assert [line.partition(",")[0] for line in lines if not line.startswith("#")] == list(services.DCGM)


def test_every_account_of_a_placement_is_checked() -> None:
    named = {placement.account for site in SITES.values() for placement in site.placements.values()} - {""}

    assert named <= {account.name for account in access.ACCOUNTS}


RBAC = (
    "kubernetes/base/accounts.yaml",
    "kubernetes/base/training.yaml",
    "cluster/namespaces/nightshift/release.yaml",
    "cluster/namespaces/kubeflow/airflow.yaml",
)


def granted_rights(account: access.AccountRights) -> set[tuple[str, ...]]:
    """Return what roles of the manifests let an account do: (verb, group, resource, name)."""
    documents = [one for file in RBAC for one in yaml.safe_load_all((INFRA / file).read_text()) if one]
    roles = {one["metadata"]["name"]: one["rules"] for one in documents if one["kind"] == "Role"}
    bindings = [one for one in documents if one["kind"] == "RoleBinding"]
    bound = [one for one in bindings if account.name in {subject["name"] for subject in one["subjects"]}]
    return {
        right
        for binding in bound
        for rule in roles[binding["roleRef"]["name"]]
        for right in itertools.product(
            rule["verbs"], rule["apiGroups"], rule["resources"], rule.get("resourceNames", [""])
        )
    }


@pytest.mark.parametrize("account", access.ACCOUNTS, ids=lambda account: account.name)
def test_the_doctor_asks_for_the_rights_that_the_manifests_grant(account: access.AccountRights) -> None:
    asked = {(verb, right.group, right.resource, right.name) for right in account.rights for verb in right.verbs}

    assert asked == granted_rights(account)
