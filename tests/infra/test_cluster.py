"""What runs in a cluster beside the pipelines: manifests, charts and the commands that install them."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from components.common.errors import UserError
from infra.cluster import core
from pipelines.environments import AWS, GCP, GPU, Role
from tests.infra.charts import CHARTS, FOLDER, ROOT, Json, values
from tests.infra.test_kubernetes import FOLDER as KUBERNETES
from tests.infra.test_kubernetes import files, objects

NAMESPACES = FOLDER / "namespaces"
OURS = ("airflow", "kubeflow", "monitoring", "nightshift")


def of_kind(namespace: str, kind: str) -> list[Json]:
    return [value for value in objects(NAMESPACES / namespace) if value["kind"] == kind]


def lets_in(policy: Json, caller: str, port: int) -> bool:
    """Whether a policy lets every pod of a namespace in at a port."""
    for rule in policy.get("ingress", []):
        ports = [each["port"] for each in rule.get("ports", [{"port": port}])]
        selectors = [each.get("namespaceSelector", {}) for each in rule.get("from", [])]
        names = {selector.get("matchLabels", {}).get("kubernetes.io/metadata.name") for selector in selectors}
        names |= {
            value for selector in selectors for each in selector.get("matchExpressions", []) for value in each["values"]
        }
        if port in ports and caller in names:
            return True
    return False


def named(found: list[Json], name: str) -> Json:
    return next(value for value in found if value["metadata"]["name"] == name)


@pytest.fixture(scope="module")
def built() -> list[Json]:
    """All objects as kustomize puts them together, in their namespaces."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH: nothing was built")
    done = subprocess.run(["kubectl", "kustomize", NAMESPACES], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def test_every_manifest_belongs_to_a_kustomization() -> None:
    manifests = {path for path in NAMESPACES.rglob("*.yaml") if path.name != "kustomization.yaml"}

    assert set(files(NAMESPACES)) == manifests


def test_kubernetes_own_schema_takes_every_object() -> None:
    for value in objects(NAMESPACES):
        kubernetes_validate.validate(value, kubernetes_validate.latest_version(), strict=True)


def test_what_kustomize_builds_is_taken_too_and_nothing_lands_in_the_default_namespace(built: list[Json]) -> None:
    everywhere = {"Namespace", "PriorityClass"}
    for value in built:
        kubernetes_validate.validate(value, kubernetes_validate.latest_version(), strict=True)
        assert value["kind"] in everywhere or value["metadata"]["namespace"] in OURS


@pytest.mark.parametrize("namespace", OURS)
def test_a_namespace_lets_nobody_in_or_out_by_default(namespace: str) -> None:
    policy = named(of_kind(namespace, "NetworkPolicy"), "default")["spec"]

    assert policy["podSelector"] == {} and set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert policy["ingress"] == [{"from": [{"podSelector": {}}]}]
    assert all(rule["to"] for rule in policy["egress"])


@pytest.mark.parametrize(
    ("caller", "port", "called"),
    [
        ("kubeflow", 5000, "nightshift"),
        ("kubeflow", 9091, "nightshift"),
        ("airflow", 8888, "kubeflow"),
        ("nightshift", 8888, "kubeflow"),
        ("monitoring", 9090, "kubeflow"),
        ("monitoring", 9108, "nightshift"),
    ],
)
def test_who_has_to_call_another_namespace_is_let_in(caller: str, port: int, called: str) -> None:
    assert any(lets_in(policy["spec"], caller, port) for policy in of_kind(called, "NetworkPolicy"))


def test_airflow_is_not_let_into_monitoring() -> None:
    assert not any(lets_in(policy["spec"], "airflow", 9090) for policy in of_kind("monitoring", "NetworkPolicy"))


@pytest.mark.parametrize("namespace", OURS)
def test_a_namespace_has_limits_and_no_load_balancer(namespace: str) -> None:
    hard = {key: value for quota in of_kind(namespace, "ResourceQuota") for key, value in quota["spec"]["hard"].items()}

    assert hard["services.loadbalancers"] == "0"
    assert {"requests.cpu", "requests.memory", f"requests.{GPU}"} <= set(hard)
    # a quota refuses pods that ask for nothing, unless they are given something
    assert of_kind(namespace, "LimitRange")[0]["spec"]["limits"][0]["defaultRequest"].keys() == {"cpu", "memory"}


def test_serving_takes_the_place_of_training_and_training_nobodys() -> None:
    classes = {value["metadata"]["name"]: value for value in objects(NAMESPACES) if value["kind"] == "PriorityClass"}
    training, serving = classes["nightshift-training"], classes["nightshift-serving"]

    assert serving["value"] > classes["nightshift-platform"]["value"] > training["value"] >= 0
    assert training["globalDefault"] and training["preemptionPolicy"] == "Never"
    assert serving["preemptionPolicy"] == "PreemptLowerPriority"


def test_no_running_step_may_be_evicted() -> None:
    budgets = of_kind("kubeflow", "PodDisruptionBudget")
    budget = named(budgets, "running-steps")["spec"]
    steps = next(value for value in objects(KUBERNETES / "aws") if value["metadata"]["name"] == "nightshift-steps")
    quota = named(of_kind("kubeflow", "ResourceQuota"), "runs")["spec"]["hard"]

    assert budget["selector"] == steps["spec"]["podSelector"]
    # a step asks for a tenth of a core at least
    assert all(each["spec"]["minAvailable"] > 10 * int(quota["requests.cpu"]) for each in budgets)


def test_no_role_is_given_everything_or_secrets() -> None:
    for role in (value for value in objects(NAMESPACES) if value["kind"] == "Role"):
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert "secrets" not in rule["resources"]


def test_the_registry_is_where_the_steps_look_for_it_with_the_login_they_use() -> None:
    service = named(of_kind("nightshift", "Service"), "mlflow")
    server = named(of_kind("nightshift", "Deployment"), "mlflow")["spec"]["template"]["spec"]["containers"][0]
    login = {each["valueFrom"]["secretKeyRef"]["name"] for each in server["env"]}

    assert AWS.parameters["state"]["registry"] == f"http://mlflow.nightshift:{service['spec']['ports'][0]['port']}"
    assert login == {secret.name for place in (AWS, GCP) for secret in place.placements[Role.LIGHT].secrets}
    assert "mlflow.nightshift:5000" in next(word for word in server["command"] if "allowed-hosts" in word)


@pytest.mark.parametrize("namespace", ("airflow", "nightshift"))
def test_pods_of_ours_run_as_nobody_and_change_nothing(namespace: str) -> None:
    for workload in of_kind(namespace, "Deployment") + of_kind(namespace, "StatefulSet"):
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["nodeSelector"] == AWS.placements[Role.LIGHT].nodes
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert not re.search(r":latest$|/[^:]+$", container["image"])


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart["name"])
def test_every_chart_has_a_version_with_a_source_and_a_day(chart: Json) -> None:
    assert set(chart["clouds"]) <= {"aws", "gcp"} and chart["namespace"]
    assert ("chart" in chart) != ("kustomize" in chart)
    if chart["version"] is not None:
        assert chart["source"] and chart["date"]


def test_every_helm_chart_has_its_values_and_no_values_are_left_over() -> None:
    assert {path.stem for path in (FOLDER / "values").glob("*.yaml")} == {
        chart["name"] for chart in CHARTS if "chart" in chart
    }


def test_a_version_nobody_has_filled_in_stops_the_installation() -> None:
    with pytest.raises(UserError, match="airflow has no version"):
        core.install([{"name": "airflow", "chart": "airflow", "version": None, "clouds": ["aws"]}], "aws", "c")


def test_namespaces_come_before_charts_and_again_after_kubeflow() -> None:
    commands = core.install(CHARTS, "gcp", "nightshift-dev")

    assert "infra/cluster/namespaces" in commands[0] and "infra/cluster/namespaces" in commands[-3]
    assert commands[-2:] == ["kubectl apply -k infra/kubernetes/gcp", "kubectl apply -k infra/monitoring"]
    assert not any("nvidia" in command or "autoscaler" in command for command in commands)


def test_the_autoscaler_knows_its_cluster() -> None:
    command = next(line for line in core.install(CHARTS, "aws", "nightshift-dev") if "cluster-autoscaler" in line)

    assert '--set "autoDiscovery.clusterName=nightshift-dev"' in command


def test_karpenter_is_the_one_that_terraform_gives_rights_and_a_queue_to() -> None:
    command = next(line for line in core.install(CHARTS, "aws", "nightshift-dev") if "karpenter" in line)
    made = (ROOT / "infra" / "aws" / "modules" / "karpenter" / "main.tf").read_text()

    queue = re.search(r'"aws_sqs_queue".*?name += "\$\{var.cluster_name\}(\S+)"', made, re.DOTALL)
    assert queue and f'--set "settings.interruptionQueue=nightshift-dev{queue[1]}"' in command
    assert re.findall(r'(?:namespace|service_account) += "(\S+)"', made) == ["kube-system", "karpenter"]
    # the chart names the account after the release
    assert "--install karpenter" in command and "--namespace kube-system" in command


def test_what_brings_monitors_comes_after_the_operator_that_knows_them() -> None:
    names = [chart["name"] for chart in CHARTS]

    assert names.index("kube-prometheus-stack") < min(names.index("dcgm-exporter"), names.index("pushgateway"))


def test_kubeflows_kinds_are_there_before_objects_of_them() -> None:
    applied = core.install(CHARTS, "aws", "c")
    kinds = next(number for number, line in enumerate(applied) if "cluster-scoped-resources" in line)

    assert "condition=established" in applied[kinds + 1] and "env/platform-agnostic" in applied[kinds + 2]


def test_airflows_database_is_ready_before_the_pods_that_helm_waits_for() -> None:
    command = next(line for line in core.install(CHARTS, "aws", "c") if "--install airflow" in line)

    assert "--wait" in command and values("airflow")["migrateDatabaseJob"] == {"useHelmHooks": False}


@pytest.mark.parametrize("cloud", ("aws", "gcp"))
def test_the_commands_are_a_script_that_a_shell_reads(cloud: str) -> None:
    for commands in (core.install(CHARTS, cloud, "c"), core.uninstall(CHARTS, cloud)):
        subprocess.run(["bash", "-n", "-c", "\n".join(commands)], check=True)


def test_aws_has_a_default_class_of_encrypted_disks_before_anything_claims_one() -> None:
    (disks,) = objects(FOLDER / "storage")
    kubernetes_validate.validate(disks, kubernetes_validate.latest_version(), strict=True)

    assert disks["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert disks["parameters"]["encrypted"] == "true"
    assert disks["volumeBindingMode"] == "WaitForFirstConsumer"
    assert core.install(CHARTS, "aws", "c")[1] == "kubectl apply -k infra/cluster/storage"
    assert not any("infra/cluster/storage" in command for command in core.install(CHARTS, "gcp", "c"))


def test_what_controllers_look_after_goes_while_they_are_there() -> None:
    """A served model, or a node of Karpenter's, whose controller has gone first is never let go."""
    namespaces, nodes, first_chart, *_ = core.uninstall(CHARTS, "aws")

    assert namespaces.startswith("kubectl delete namespaces") and "nightshift" in namespaces
    assert "karpenter.sh" in nodes and "--cascade=foreground" in nodes
    assert first_chart.startswith("helm uninstall")
    assert not any("karpenter" in command for command in core.uninstall(CHARTS, "gcp"))


@pytest.mark.parametrize(
    ("kinds", "deleted"),
    [([], []), (["nodeclaims.karpenter.sh", "nodepools.karpenter.sh"], ["nodepools.karpenter.sh"])],
)
def test_karpenters_nodes_are_deleted_where_there_is_karpenter(
    kinds: list[str], deleted: list[str], tmp_path: Path
) -> None:
    fake, asked = tmp_path / "kubectl", tmp_path / "asked"
    asked.touch()
    fake.write_text(
        f"""#!/bin/sh
        [ $1 = api-resources ] && printf '%s\\n' {" ".join(kinds)} || echo "$@" >> {asked}
        """
    )
    fake.chmod(0o755)
    nodes = core.uninstall(CHARTS, "aws")[1]
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-euo", "pipefail", "-c", nodes], env={"PATH": path}, check=True)

    assert [line.split()[-1] for line in asked.read_text().splitlines()] == deleted


def test_disks_and_load_balancers_go_after_the_charts_and_the_latest_chart_goes_first() -> None:
    commands = core.uninstall(CHARTS, "aws")[2:]
    charts = [chart["name"] for chart in CHARTS[::-1] if "chart" in chart]

    assert [line.split()[2] for line in commands[: len(charts)]] == charts
    order = ["delete persistentvolumeclaims", "delete persistentvolume ", "wait", "LoadBalancer"]
    assert [words in line for words, line in zip(order, commands[len(charts) :], strict=True)] == [True] * 4


@pytest.mark.parametrize("name", ("nvidia-device-plugin", "dcgm-exporter"))
def test_what_watches_gpus_runs_on_every_gpu_node_and_on_no_other(name: str) -> None:
    given = values(name)
    tolerated = {taint["key"] for taint in given["tolerations"]}
    terms = given.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    wanted = {
        expression["key"]: expression["values"][0]
        for term in terms.get("nodeSelectorTerms", [])
        for expression in term["matchExpressions"]
    }

    assert tolerated == {toleration.key for toleration in AWS.placements[Role.GPU].tolerations}
    assert given.get("nodeSelector", wanted) == AWS.placements[Role.GPU].nodes


def test_airflow_runs_the_projects_image_as_its_user_with_its_dags() -> None:
    given, image = values("airflow"), (ROOT / "containers" / "airflow" / "Dockerfile").read_text()

    assert f"USER {given['uid']}:{given['gid']}" in image
    assert f"AIRFLOW_HOME={given['airflowHome']}" in image
    assert f"AIRFLOW__CORE__DAGS_FOLDER={given['config']['core']['dags_folder']}" in image
    wanted = f"{given['images']['airflow']['repository'].rpartition('/')[0]}/base:{given['images']['airflow']['tag']}"
    assert wanted == AWS.placements[Role.LIGHT].image
    assert f"apache-airflow=={given['airflowVersion']}" in (ROOT / "pyproject.toml").read_text()


def test_the_trainer_is_the_one_the_documentation_names() -> None:
    trainer = named([{"metadata": chart, **chart} for chart in CHARTS], "trainer")

    assert f"Kubeflow Trainer {trainer['version'].rpartition('.')[0]}" in (ROOT / "docs" / "kubeflow.md").read_text()
    assert values("trainer")["runtimes"]["defaultEnabled"]


def secrets_of(value: Any) -> set[str]:
    """The names of the secrets that an object, or what is nested in it, refers to."""
    if isinstance(value, list):
        return {name for each in value for name in secrets_of(each)}
    if not isinstance(value, dict):
        return set()
    here = {value[key]["name"] for key in ("secretRef", "secretKeyRef") if key in value}
    return here | secrets_of(list(value.values()))


@pytest.fixture
def kubectl(tmp_path: Path) -> Path:
    """A folder with a kubectl that writes down what it is asked, knows no secret, and takes what it is told."""
    command = tmp_path / "kubectl"
    command.write_text(
        f"""#!/bin/sh
        echo "$@" >> {tmp_path}/asked
        case "$*" in
          "get secret"*) [ -e {tmp_path}/there ] ;;
          "create "*) cat >> {tmp_path}/told ;;
          *) cat > /dev/null ;;
        esac
        """
    )
    command.chmod(0o755)
    return tmp_path


def secrets(kubectl: Path, *artifacts: str) -> subprocess.CompletedProcess[str]:
    path = f"{kubectl}:{os.environ['PATH']}"
    command = [FOLDER / "secrets.sh", *artifacts]
    return subprocess.run(command, env={"PATH": path}, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def test_secrets_are_made_for_all_who_read_them_and_are_no_word_of_a_command(kubectl: Path) -> None:
    assert secrets(kubectl, "s3://bucket/mlflow").returncode == 0

    asked, told = (kubectl / "asked").read_text(), (kubectl / "told").read_text()
    made = set(re.findall(r"create secret generic (\S+) --namespace (\S+)", asked))
    wanted = {(name, space) for space in OURS for name in secrets_of(objects(NAMESPACES / space))}
    given = values("airflow")
    names = {given["data"]["metadataSecretName"], given["apiSecretKeySecretName"], given["jwtSecretName"]}
    wanted |= {(name, "airflow") for name in names} | {("grafana-admin", "monitoring")}
    assert wanted <= made
    assert {("nightshift-mlflow", "kubeflow"), ("nightshift-mlflow", "nightshift")} <= made
    passwords = re.findall(r"(?:PASSWORD|password|KEY|key|jwt-secret)=(\S{20,})", told)
    assert len(set(passwords)) == 7 and not any(password in asked for password in passwords)
    assert "MLFLOW_ARTIFACTS_DESTINATION=s3://bucket/mlflow" in told


def test_secrets_that_are_there_are_left_alone(kubectl: Path) -> None:
    (kubectl / "there").touch()

    assert "nothing was changed" in secrets(kubectl, "s3://bucket/mlflow").stdout
    assert not (kubectl / "told").exists()


def test_secrets_without_a_place_for_artifacts_are_refused(kubectl: Path) -> None:
    refused = secrets(kubectl)

    assert refused.returncode == 2 and "ARTIFACTS is empty" in refused.stderr
