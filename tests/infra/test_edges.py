"""Every call that the code needs goes through, and no policy of ours lets through what nobody needs."""

import dataclasses
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from pipelines.environments import SITES
from tests.infra.edges import here, needs
from tests.infra.edges.model import CHARTS, Cluster, Pod
from tests.infra.edges.policy import ELSEWHERE, through
from tests.infra.edges.rights import holders as granted_to
from tests.infra.edges.rights import used as rights_used

each_cloud = pytest.mark.parametrize("cloud", here.CLOUDS)


@pytest.fixture(scope="module", autouse=True)
def _with_charts() -> None:
    if not CHARTS.exists():
        pytest.skip(f"{CHARTS} is missing: what the charts make is not known")
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH: nothing was rendered")


def without(cluster: Cluster, kind: str, name: str) -> Cluster:
    objects = tuple(fact for fact in cluster.objects if (fact["kind"], fact["name"]) != (kind, name))
    services = tuple(service for service in cluster.services if kind != "Service" or service.name != name)
    return dataclasses.replace(cluster, objects=objects, services=services)


def broken_calls(cluster: Cluster, cloud: str) -> list[str]:
    return [f"{need.client}: {why}" for need in needs.needs(cluster, cloud) for why in needs.broken(cluster, need)]


@each_cloud
def test_every_call_goes_through(cloud: str) -> None:
    assert broken_calls(here.standing(cloud), cloud) == []


def test_no_policy_lets_through_what_nobody_needs() -> None:
    on = [set(needs.unused(here.standing(cloud), cloud)) for cloud in here.CLOUDS]

    assert sorted(set.intersection(*on)) == []


@each_cloud
def test_what_is_known_to_be_called_is_among_what_is_read(cloud: str) -> None:
    calls = {(str(need.client), need.server, str(need.port)) for need in needs.needs(here.standing(cloud), cloud)}

    assert {
        ("kubeflow/steps", "nightshift/mlflow", "5000"),
        ("kubeflow/steps", "nightshift/pushgateway", "9091"),
        ("kubeflow/steps", "nightshift/fraud-predictor", "80"),
        ("airflow/airflow-task", "kubeflow/ml-pipeline", "8888"),
        ("airflow/airflow-scheduler", "airflow/postgresql", "5432"),
        ("nightshift/mlflow", "nightshift/postgresql", "5432"),
        ("nightshift/nightshift-exporter", "kubeflow/ml-pipeline", "8888"),
        ("monitoring/prometheus", "nightshift/nightshift-exporter", "metrics"),
        (ELSEWHERE, "kserve/kserve-webhook-server-service", "443"),
    } <= calls


@each_cloud
@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("NetworkPolicy", "nightshift-steps", "kubeflow/steps: egress to nightshift/mlflow at 5000 is closed"),
        ("NetworkPolicy", "default", "nightshift/mlflow: egress to kube-system/kube-dns at 53 is closed"),
        ("Service", "mlflow", "kubeflow/steps: there is no service nightshift/mlflow"),
    ],
)
def test_a_call_is_broken_without_what_lets_it_through(cloud: str, kind: str, name: str, says: str) -> None:
    assert says in broken_calls(without(here.standing(cloud), kind, name), cloud)


@each_cloud
def test_a_call_is_broken_when_nobody_listens_at_its_port(cloud: str) -> None:
    cluster = here.standing(cloud)
    deaf = tuple(
        dataclasses.replace(pod, ports={"http": 8080}) if pod.name == "mlflow" else pod for pod in cluster.pods
    )

    assert "kubeflow/steps: nightshift/mlflow does not listen at 5000" in broken_calls(
        dataclasses.replace(cluster, pods=deaf), cloud
    )


@each_cloud
def test_the_account_of_who_calls_is_there_and_so_are_the_secrets_and_claims_of_steps(cloud: str) -> None:
    cluster = here.standing(cloud)
    accounts = {(account["namespace"], account["name"]) for account in cluster.of_kind("ServiceAccount")}
    operators = {"prometheus", "alertmanager", "kube-dns"}

    callers = {need.client for need in needs.needs(cluster, cloud) if isinstance(need.client, Pod)}
    assert {(pod.namespace, pod.account) for pod in callers if pod.name not in operators} - accounts <= set()
    claims = {claim["name"] for claim in cluster.of_kind("PersistentVolumeClaim") if claim["namespace"] == "kubeflow"}
    assert {volume.claim for placement in SITES[cloud].placements.values() for volume in placement.volumes} <= claims


def rights(cluster: Cluster, *roles: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb of all that roles allow."""
    return {
        (group, resource, verb)
        for role in cluster.of_kind("Role")
        if role["name"] in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@each_cloud
def test_every_role_of_ours_is_there_and_given_to_accounts_that_pods_run_under(cloud: str) -> None:
    cluster = here.standing(cloud)
    running = {(pod.namespace, pod.account) for pod in cluster.pods}
    roles = {(role["namespace"], role["name"]) for role in cluster.of_kind("Role") if "metadata" in role}
    ours = [grant for grant in cluster.of_kind("RoleBinding") if "metadata" in grant]

    assert {
        (grant["namespace"], grant["roleRef"]["name"]) for grant in ours if grant["roleRef"]["kind"] == "Role"
    } == roles
    for binding in ours:
        for subject in (holder for holder in binding["subjects"] if holder["kind"] == "ServiceAccount"):
            assert (subject["namespace"], subject["name"]) in running, binding["name"]


@each_cloud
def test_airflow_may_do_with_the_pods_of_steps_what_its_chart_lets_it_do_with_its_own(cloud: str) -> None:
    cluster = here.standing(cloud)
    own = rights(cluster, "airflow-pod-launcher-role", "airflow-pod-log-reader-role")

    assert {verb for _, resource, verb in own if resource == "pods"} <= {
        verb for _, resource, verb in rights(cluster, "airflow-launches") if resource == "pods"
    }
    assert ("", "pods/log", "get") in rights(cluster, "airflow-launches")


@pytest.mark.parametrize(
    "cloud", [pytest.param(cloud, marks=pytest.mark.xdist_group(f"terraform-{cloud}")) for cloud in here.CLOUDS]
)
def test_every_right_that_is_granted_in_the_cloud_is_used_by_somebody(
    cloud: str, planned: Callable, applied: Callable
) -> None:
    # dev of Google Cloud has no Lustre
    shown = applied(cloud) if cloud == "aws" else planned(cloud, "prod")
    addons = {"kube-system/aws-node", "kube-system/ebs-csi-controller-sa", "kube-system/fsx-csi-controller-sa"}

    granted = granted_to(cloud, shown)
    assert granted == rights_used(cloud)
    running = {f"{pod.namespace}/{pod.account}" for pod in here.standing(cloud).pods}
    assert {holder for holder in granted if "/" in holder} - running - addons == set()


def policy(namespace: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "NetworkPolicy", "name": "one", "namespace": namespace, "spec": {"podSelector": {}} | spec}


@pytest.mark.parametrize(
    ("rule", "goes"),
    [
        ("{}", True),
        ("{ports: [{port: 80}]}", True),
        ("{ports: [{port: 80, protocol: UDP}]}", False),
        ("{ports: [{port: http}]}", True),
        ("{ports: [{port: 81}]}", False),
        ("{from: [{podSelector: {}}]}", False),
        ("{from: [{namespaceSelector: {}}]}", True),
        ("{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: there}}}]}", True),
        ("{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: other}}}]}", False),
        ("{from: [{podSelector: {matchLabels: {app: one}}}, {namespaceSelector: {}}]}", True),
        ("{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}", False),
        ("{from: [{namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}]}", True),
    ],
)
def test_a_policy_means_here_what_it_means_to_kubernetes(rule: str, goes: bool) -> None:
    client, server = Pod("c", "there", {"app": "one"}), Pod("s", "here", {}, ports={"http": 80})
    cluster = Cluster((policy("here", policyTypes=["Ingress"], ingress=[yaml.safe_load(rule)]),), (client, server), ())

    assert bool(through(cluster, client, server, 80, "TCP")["ingress"]) == goes


def test_a_pod_that_no_policy_chooses_is_open_and_so_is_one_with_its_nodes_address() -> None:
    client, server = Pod("c", "there", {}), Pod("s", "here", {}, on_host=True)

    assert through(Cluster((policy("here", policyTypes=["Ingress"]),), (), ()), client, server, 80, "TCP") == {}


def test_only_accounts_that_terraform_names_have_a_role_of_the_cloud() -> None:
    for cloud in here.CLOUDS:
        accounts = needs.identities(cloud)
        assert {("kubeflow", "nightshift"), ("nightshift", "mlflow"), ("nightshift", "serving")} <= accounts
        assert all(re.fullmatch(r"[a-z-]+", account) for _, account in accounts)
