"""What runs in a cluster beside the pipelines: manifests, charts and the commands that install them."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

from infra.cluster import core
from nightshift.runtime.errors import UserError
from nightshift_testkit import tracking
from nightshift_testkit.cluster.kinds import BINDING, ROLE
from nightshift_testkit.cluster.rbac import AccessRequest, User, allowed
from nightshift_testkit.cluster.store import ResourceStore
from pipelines.environments import AWS, GCP, GPU, SITES, STATE, Role
from pipelines.images import PUSHED_IMAGES
from tests.infra import checks, kustomize
from tests.infra.charts import CHARTS, FOLDER, ROOT, Json, values
from tests.infra.test_kubernetes import FOLDER as KUBERNETES
from tests.infra.test_kubernetes import files, objects

NAMESPACES = FOLDER / "namespaces"
OURS = ("airflow", "kubeflow", "monitoring", "nightshift")


class Script(Protocol):
    """Gives commands to a shell that has other tools; returns how it ended, and what they were asked.

    The tools find what the variable `says` names.
    """

    def __call__(
        self, commands: list[str], fails: str = "nothing", **environment: str
    ) -> tuple[subprocess.CompletedProcess[str], list[str]]: ...


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def run(
        commands: list[str], fails: str = "nothing", **environment: str
    ) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        log = tmp_path / "asked"
        log.write_text("")
        for name in ("helm", "kubectl"):
            tool = tmp_path / name
            tool.write_text(f"""#!/bin/sh
            echo "$*" >> {log}
            case "$*" in *"{fails}"*) exit 1 ;; get*) printf %s "$says" ;; esac
            """)
            tool.chmod(0o755)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done, log.read_text().splitlines()

    return run


def of_kind(namespace: str, kind: str) -> list[Json]:
    return [value for value in objects(NAMESPACES / namespace) if value["kind"] == kind]


def lets_in(policy: Json, caller: str, port: int) -> bool:
    """Whether a policy lets every pod of a namespace in at a port."""
    for rule in policy.get("ingress", []):
        ports = [entry["port"] for entry in rule.get("ports", [{"port": port}])]
        selectors = [peer.get("namespaceSelector", {}) for peer in rule.get("from", [])]
        names = {selector.get("matchLabels", {}).get("kubernetes.io/metadata.name") for selector in selectors}
        names |= {
            value
            for selector in selectors
            for expression in selector.get("matchExpressions", [])
            for value in expression["values"]
        }
        if port in ports and caller in names:
            return True
    return False


def named(objects: list[Json], name: str) -> Json:
    return next(value for value in objects if value["metadata"]["name"] == name)


@pytest.fixture(scope="module")
def built() -> list[Json]:
    """All objects as kustomize puts them together, in their namespaces."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH: nothing was built")
    return kustomize.built(NAMESPACES)


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
    assert policy["ingress"] == []
    assert all(rule["to"] for rule in policy["egress"])


@pytest.mark.parametrize(
    ("caller", "port", "called"),
    [
        ("kubeflow", 5000, "nightshift"),
        ("kubeflow", 9091, "nightshift"),
        ("airflow", 8888, "kubeflow"),
        ("nightshift", 8888, "kubeflow"),
        ("monitoring", 9108, "nightshift"),
    ],
)
def test_who_has_to_call_another_namespace_is_let_in(caller: str, port: int, called: str) -> None:
    assert any(lets_in(policy["spec"], caller, port) for policy in of_kind(called, "NetworkPolicy"))


def test_nobody_is_let_into_the_store_that_asks_for_no_login() -> None:
    for policy in (
        manifest["spec"] for manifest in of_kind("kubeflow", "NetworkPolicy") if manifest["spec"].get("ingress")
    ):
        labels = policy["podSelector"].get("matchLabels", {})
        left_out = {"key": "app", "operator": "NotIn", "values": ["seaweedfs"]}
        assert labels.get("app", "seaweedfs") != "seaweedfs" or left_out in policy["podSelector"]["matchExpressions"]


def test_airflow_reaches_slack_and_mail_servers_for_its_alerts() -> None:
    (policy,) = [
        manifest["spec"]
        for manifest in of_kind("airflow", "NetworkPolicy")
        if manifest["metadata"]["name"] == "airflow"
    ]
    anywhere = {port["port"] for rule in policy["egress"] if "to" not in rule for port in rule["ports"]}

    assert anywhere == {443, 465, 587}


def test_airflow_is_not_let_into_monitoring() -> None:
    assert not any(lets_in(policy["spec"], "airflow", 9090) for policy in of_kind("monitoring", "NetworkPolicy"))


@pytest.mark.parametrize("namespace", OURS)
@pytest.mark.parametrize("domain", ["", "@example.com"], ids=["EKS", "GKE"])
def test_people_may_do_what_their_groups_are_for(namespace: str, domain: str) -> None:
    """Beside what Kubernetes' own `edit` and `view` hold, which know no kinds of charts."""
    store = ResourceStore()
    for value in kustomize.built(NAMESPACES / namespace):
        if kind := {"Role": ROLE, "RoleBinding": BINDING}.get(value["kind"]):
            store.add(kind, value)
    operator, reader = (User("one", (f"nightshift-{group}{domain}",)) for group in ("operators", "readers"))
    charted = [("trainer.kubeflow.org", "trainjobs"), ("argoproj.io", "workflows")]
    charted += [("serving.kserve.io", "inferenceservices")]

    for group, resource in charted:
        assert allowed(store, operator, AccessRequest("create", group, resource, namespace))
        assert allowed(store, reader, AccessRequest("list", group, resource, namespace))
        assert not allowed(store, reader, AccessRequest("create", group, resource, namespace))
    # who reaches the pipelines' API starts runs: it asks for no login
    forwarding = AccessRequest("create", "", "pods/portforward", namespace)
    assert allowed(store, reader, forwarding) == (namespace != "kubeflow")
    bound = [(binding["roleRef"]["name"], binding["subjects"]) for binding in of_kind(namespace, "RoleBinding")]
    for role, subject in (("edit", operator), ("view", reader)):
        assert any(role == name and subject.groups[0] in {person["name"] for person in who} for name, who in bound)


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
    assert all(budget["spec"]["minAvailable"] > 10 * int(quota["requests.cpu"]) for budget in budgets)


def test_no_role_is_given_everything_or_secrets() -> None:
    for role in (value for value in objects(NAMESPACES) if value["kind"] == "Role"):
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert "secrets" not in rule["resources"]


def test_the_registry_is_where_the_steps_look_for_it_with_the_login_they_use() -> None:
    service = named(of_kind("nightshift", "Service"), "mlflow")
    server = named(of_kind("nightshift", "Deployment"), "mlflow")["spec"]["template"]["spec"]["containers"][0]
    login = {variable["valueFrom"]["secretKeyRef"]["name"] for variable in server["env"] if "valueFrom" in variable}

    assert AWS.parameters["state"]["registry"] == f"http://mlflow.nightshift:{service['spec']['ports'][0]['port']}"
    assert login == {secret.name for site in (AWS, GCP) for secret in site.placements[Role.LIGHT].secrets}
    assert "mlflow.nightshift:5000" in next(word for word in server["command"] if "allowed-hosts" in word)
    # with them it takes more memory than its limit
    assert tracking.SETTINGS.items() <= {variable["name"]: variable.get("value") for variable in server["env"]}.items()


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

    assert '-k "$OVERLAYS/namespaces"' in commands[0] and commands[0] == commands[-4]
    assert commands[1] == 'infra/cluster/secrets.sh "$ARTIFACTS"'
    assert commands[-2] == 'kubectl apply -k "$OVERLAYS"'
    assert not any("nvidia" in command or "autoscaler" in command for command in commands)


def test_the_autoscaler_knows_its_cluster() -> None:
    command = next(line for line in core.install(CHARTS, "aws", "nightshift-dev") if "cluster-autoscaler" in line)

    assert '--set "autoDiscovery.clusterName=nightshift-dev"' in command


def test_karpenter_is_the_one_that_terraform_gives_rights_and_a_queue_to() -> None:
    commands = core.install(CHARTS, "aws", "nightshift-dev", {"karpenter"})
    command = next(line for line in commands if "karpenter" in line)
    terraform = (ROOT / "infra" / "aws" / "modules" / "karpenter" / "main.tf").read_text()

    queue = re.search(r'"aws_sqs_queue".*?name += "\$\{var.cluster_name\}(\S+)"', terraform, re.DOTALL)
    assert queue and f'--set "settings.interruptionQueue=nightshift-dev{queue[1]}"' in command
    assert re.findall(r'(?:namespace|service_account) += "(\S+)"', terraform) == ["kube-system", "karpenter"]
    # the chart names the account after the release
    assert "--install karpenter" in command and "--namespace kube-system" in command


def test_what_brings_monitors_comes_after_the_operator_that_knows_them() -> None:
    names = [chart["name"] for chart in CHARTS]

    assert names.index("kube-prometheus-stack") < min(names.index("dcgm-exporter"), names.index("pushgateway"))


def test_kubeflows_kinds_are_there_before_objects_of_them() -> None:
    applied = core.install(CHARTS, "aws", "c")
    kinds = next(number for number, line in enumerate(applied) if "cluster-scoped-resources" in line)

    assert "condition=established" in applied[kinds + 1] and "infra/cluster/pipelines" in applied[kinds + 2]


def test_all_of_kubeflow_is_of_one_version() -> None:
    pipelines = next(chart for chart in CHARTS if chart["name"] == "pipelines")
    built = yaml.safe_load((FOLDER / "pipelines" / "kustomization.yaml").read_text())

    remote = [*pipelines["kustomize"][:-1], *built["resources"]]
    assert [url.partition("?ref=")[2] for url in remote] == [pipelines["version"]] * 2


def test_artifacts_lie_in_the_clouds_store_below_what_steps_may_write() -> None:
    granted = (ROOT / "infra" / "aws" / "modules" / "identity" / "main.tf").read_text()
    roots = [line for line in core.install(CHARTS, "gcp", "c") if "defaultPipelineRoot" in line]

    assert len(roots) == 1 and '"defaultPipelineRoot=$STORE/pipelines"' in roots[0]
    assert re.search(r"written += .*\"pipelines\"", granted)
    assert re.search(r"steps += .*writes = local.written", granted)


def test_airflow_keeps_logs_where_its_pods_may_write_and_read() -> None:
    granted = (ROOT / "infra" / "aws" / "modules" / "identity" / "main.tf").read_text()
    command = next(line for line in core.install(CHARTS, "aws", "c") if "--install airflow" in line)

    assert '--set "config.logging.remote_base_log_folder=$STORE/airflow"' in command
    module, _, name = values("airflow")["config"]["logging"]["logging_config_class"].rpartition(".")
    assert f" as {name}\n" in (ROOT / f"{module.replace('.', '/')}.py").read_text()
    grants = re.findall(r'"airflow", account = "(\S+)", reads = (\S+), writes = (\S+) \}', granted)
    assert grants == [
        ("airflow-worker", "[]", '["airflow"]'),
        ("airflow-triggerer", "[]", '["airflow"]'),
        ("airflow-api-server", '["airflow"]', "[]"),
    ]


def test_airflow_runs_the_image_that_was_pushed_and_starts_those_that_were() -> None:
    command = next(line for line in core.install(CHARTS, "aws", "c") if "--install airflow" in line)

    for value in ("images.airflow.repository=$REGISTRY/airflow", "images.airflow.digest=$AIRFLOW_DIGEST"):
        assert f'--set "{value}"' in command
    assert values("airflow")["env"][2] == {"name": PUSHED_IMAGES} and '--set "env[2].value=$IMAGES"' in command


@pytest.mark.parametrize("there", ["", "customresourcedefinition/clusterstoragecontainers.serving.kserve.io"])
def test_a_kind_of_kserve_that_its_chart_leaves_out_the_second_time_is_kept(script: Script, there: str) -> None:
    commands = core.install(CHARTS, "aws", "c")
    kinds = next(number for number, line in enumerate(commands) if "--install kserve-crd" in line)
    done, calls = script(commands[kinds - 1 : kinds + 1], says=there)

    kept = [f"annotate --overwrite {there} helm.sh/resource-policy=keep"] if there else []
    assert done.returncode == 0 and calls[1:-1] == kept and "--install kserve-crd" in calls[-1]


def test_airflows_database_is_ready_before_the_pods_that_helm_waits_for() -> None:
    commands = core.install(CHARTS, "aws", "c")
    chart = next(number for number, line in enumerate(commands) if "--install airflow" in line)
    job = values("airflow")["migrateDatabaseJob"]

    assert "--wait --timeout 15m" in commands[chart] and job["useHelmHooks"] is False
    # Helm waits for the job too, and the image of one that is there cannot be changed
    assert job["ttlSecondsAfterFinished"] > 15 * 60
    assert commands[chart - 1].startswith("kubectl delete job --namespace airflow airflow-run-airflow-migrations")


def test_airflow_knows_where_its_steps_run() -> None:
    account = named(of_kind("kubeflow", "RoleBinding"), "airflow-launches")
    for cloud in SITES.keys() & {"aws", "gcp"}:
        command = next(line for line in core.install(CHARTS, cloud, "c") if "--install airflow" in line)
        assert f'--set "env[0].value={cloud}"' in command
    assert values("airflow")["env"] == [
        {"name": "NIGHTSHIFT_ENVIRONMENT"},
        {"name": "NIGHTSHIFT_NAMESPACE", "value": "kubeflow"},
        *({"name": name} for name in (PUSHED_IMAGES, STATE, "NIGHTSHIFT_DATA")),
    ]
    assert {subject["namespace"] for subject in account["subjects"]} == {"airflow"}


def test_what_airflow_starts_at_a_time_fits_into_the_quota_and_waits_in_its_pool() -> None:
    """A pod beyond the quota is refused, where one without a node waits."""
    hard = named(of_kind("kubeflow", "ResourceQuota"), "runs")["spec"]["hard"]
    pool = re.search(r"airflow pools set gpu (\d+)", values("airflow")["migrateDatabaseJob"]["args"][-1])
    assert pool and int(pool[1]) == int(hard[f"requests.{GPU}"])

    others = values("airflow")["config"]["core"]["parallelism"] - int(pool[1])
    for site in (AWS, GCP):
        gpu, light = site.placements[Role.GPU], site.placements[Role.LIGHT]
        assert int(pool[1]) * int(gpu.cpu_request) + others * int(light.cpu_request) <= int(hard["requests.cpu"])
        memory = int(pool[1]) * gigabytes(gpu.memory_request) + others * gigabytes(light.memory_request)
        assert memory <= gigabytes(hard["requests.memory"])


def gigabytes(quantity: str) -> int:
    return int(quantity.removesuffix("Gi"))


@pytest.mark.parametrize("cloud", ("aws", "gcp"))
def test_the_commands_are_a_script_that_a_shell_reads(cloud: str) -> None:
    for commands in (core.install(CHARTS, cloud, "c"), core.uninstall(CHARTS, cloud)):
        subprocess.run(["bash", "-n", "-c", "\n".join(commands)], check=True)


def test_every_database_has_a_dump_and_a_way_back() -> None:
    runbook = (ROOT / "docs/runbooks/restore.md").read_text()
    ours = [space for space in OURS if any("postgres" in str(value["spec"]) for value in of_kind(space, "StatefulSet"))]

    assert ours
    for command in ("pg_dump", "pg_restore"):
        calls = re.findall(rf"--namespace (\w+) postgresql-0 -- sh -c \\?\s*'{command} ", runbook)
        assert sorted(calls) == ours, command
    # Kubeflow brings its own
    assert "mysqldump " in runbook and "'mysql --user" in runbook


def test_aws_has_a_default_class_of_encrypted_disks_before_anything_claims_one() -> None:
    (disks,) = objects(FOLDER / "storage")
    kubernetes_validate.validate(disks, kubernetes_validate.latest_version(), strict=True)

    assert disks["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert disks["parameters"]["encrypted"] == "true"
    assert disks["volumeBindingMode"] == "WaitForFirstConsumer"
    commands = [line for line in core.install(CHARTS, "aws", "c") if line.startswith(("kubectl", "helm"))]
    assert commands[1] == "kubectl apply -k infra/cluster/storage"
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
    fake, log = tmp_path / "kubectl", tmp_path / "asked"
    log.touch()
    fake.write_text(
        f"""#!/bin/sh
        [ $1 = api-resources ] && printf '%s\\n' {" ".join(kinds)} || echo "$@" >> {log}
        """
    )
    fake.chmod(0o755)
    nodes = core.uninstall(CHARTS, "aws")[1]
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-euo", "pipefail", "-c", nodes], env={"PATH": path}, check=True)

    assert [line.split()[-1] for line in log.read_text().splitlines()] == deleted


def test_disks_and_load_balancers_go_after_the_charts_and_the_latest_chart_goes_first() -> None:
    commands = core.uninstall(CHARTS, "aws")[2:]
    charts = [chart["name"] for chart in CHARTS[::-1] if "chart" in chart]

    assert [line.split()[2] for line in commands[: len(charts)]] == charts
    order = ["delete persistentvolumeclaims", "delete persistentvolume ", "wait", "LoadBalancer"]
    assert [words in line for words, line in zip(order, commands[len(charts) :], strict=True)] == [True] * 4


@pytest.mark.parametrize("name", ("nvidia-device-plugin", "dcgm-exporter"))
def test_what_watches_gpus_runs_on_every_gpu_node_and_on_no_other(name: str) -> None:
    chart = values(name)
    tolerated = {taint["key"] for taint in chart["tolerations"]}
    terms = chart.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    wanted = {
        expression["key"]: expression["values"][0]
        for term in terms.get("nodeSelectorTerms", [])
        for expression in term["matchExpressions"]
    }

    assert tolerated == {toleration.key for toleration in AWS.placements[Role.GPU].tolerations}
    # nodes of several GPUs too
    assert chart.get("nodeSelector", wanted) == {"nightshift/pool": AWS.placements[Role.GPU].nodes["nightshift/pool"]}


def test_airflow_runs_the_projects_image_as_its_user_with_its_dags() -> None:
    chart, image = values("airflow"), (ROOT / "containers" / "Dockerfile").read_text()

    pod, home = chart["securityContexts"]["pod"], chart["airflowHome"]
    assert f"USER {pod['runAsUser']}:{pod['runAsGroup']}" in image and pod["fsGroup"] == pod["runAsGroup"]
    assert f"AIRFLOW_HOME={home}" in image and f"COPY dags {home}/dags" in image
    # a cluster mounts single files into it, which does not make it the user's
    assert f"install --directory --owner {pod['runAsUser']} --group {pod['runAsGroup']} {home} " in image
    wanted = f"{chart['images']['airflow']['repository'].rpartition('/')[0]}/base:{chart['images']['airflow']['tag']}"
    assert wanted == checks.example_image("base")
    assert f"apache-airflow=={chart['airflowVersion']}" in (ROOT / "pyproject.toml").read_text()


def test_the_trainer_is_the_one_the_documentation_names() -> None:
    trainer = named([{"metadata": chart, **chart} for chart in CHARTS], "trainer")

    page = (ROOT / "docs/guides/integrations/kubeflow.md").read_text()
    assert f"Kubeflow Trainer {trainer['version'].rpartition('.')[0]}" in page


def secrets_of(value: Any) -> set[str]:
    """The names of the secrets that an object, or what is nested in it, refers to."""
    if isinstance(value, list):
        return {name for part in value for name in secrets_of(part)}
    if not isinstance(value, dict):
        return set()
    here = {value[key]["name"] for key in ("secretRef", "secretKeyRef") if key in value}
    return here | secrets_of(list(value.values()))


@pytest.fixture
def kubectl(tmp_path: Path) -> Path:
    """A folder with a kubectl that writes down what it is asked, knows listed secrets, and takes what it is told."""
    command = tmp_path / "kubectl"
    command.write_text(
        f"""#!/bin/sh
        echo "$@" >> {tmp_path}/asked
        case "$*" in
          "get secret"*) if grep -qsx "$4 $5" {tmp_path}/there; then echo "secret/$5"; fi ;;
          "create "*) tee -a {tmp_path}/told > {tmp_path}/$6.$4 ;;
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

    commands, inputs = (kubectl / "asked").read_text(), (kubectl / "told").read_text()
    created = set(re.findall(r"create secret generic (\S+) --namespace (\S+)", commands))
    wanted = {(name, space) for space in OURS for name in secrets_of(objects(NAMESPACES / space))}
    airflow = values("airflow")
    names = {airflow["data"]["metadataSecretName"], airflow["apiSecretKeySecretName"], airflow["jwtSecretName"]}
    names |= {volume["secret"]["secretName"] for volume in airflow["apiServer"]["extraVolumes"]}
    wanted |= {(name, "airflow") for name in names} | {("grafana-admin", "monitoring")}
    built = yaml.safe_load((FOLDER / "pipelines" / "kustomization.yaml").read_text())
    left_out = next(patch["target"]["name"] for patch in built["patches"] if patch["target"]["kind"] == "Secret")
    wanted |= {(name, "kubeflow") for name in left_out.split("|")}
    assert wanted <= created
    wanted_by_steps = [secret for placement in AWS.placements.values() for secret in placement.secrets]
    shared = {secret.name for secret in wanted_by_steps if not secret.is_optional}
    assert {(name, space) for name in shared for space in ("kubeflow", "nightshift")} <= created
    passwords = re.findall(r"(?:PASSWORD|password|token|KEY|key|jwt-secret)=(\S{20,})", inputs)
    passwords += re.findall(r'passwords.json=\{"admin": "(\S{20,})"\}', inputs)
    assert len(set(passwords)) == 11 and not any(password in commands for password in passwords)
    assert "MLFLOW_ARTIFACTS_DESTINATION=s3://bucket/mlflow" in inputs
    # the driver that tests/dags runs Airflow and MLflow's server with
    assert "connection=postgresql+psycopg2://airflow:" in inputs
    assert "MLFLOW_BACKEND_STORE_URI=postgresql+psycopg2://mlflow:" in inputs


def keys_of(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the secrets and keys that an object, or what is nested in it, takes a variable from."""
    for nested in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        yield from keys_of(nested)
    if isinstance(value, dict) and "secretKeyRef" in value:
        yield value["secretKeyRef"]["name"], value["secretKeyRef"]["key"]


def contents(kubectl: Path) -> dict[tuple[str, str], dict[str, str]]:
    """What the secrets hold that were made, by namespace and name."""
    return {
        (path.stem, path.suffix[1:]): dict(line.split("=", 1) for line in path.read_text().splitlines())
        for path in kubectl.glob("*.*")
    }


def test_a_secret_has_the_keys_that_are_read_of_it_and_no_others(kubectl: Path) -> None:
    assert secrets(kubectl, "s3://bucket/mlflow").returncode == 0

    database = {"POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"}
    mlflow = ("MLFLOW_BACKEND_STORE_URI", "MLFLOW_ARTIFACTS_DESTINATION", "MLFLOW_FLASK_SERVER_SECRET_KEY")
    keys = {name: set(content) for name, content in contents(kubectl).items()}
    assert keys == {
        # Secrets whose every key is a pod's variable
        ("nightshift", "mlflow"): set(mlflow),
        ("nightshift", "postgresql"): database,
        ("airflow", "postgresql"): database,
        **{(space, "nightshift-mlflow"): {"username", "password"} for space in ("nightshift", "kubeflow")},
        **{(space, "nightshift-serving"): {"token"} for space in ("nightshift", "kubeflow")},
        # as the charts, and Kubeflow's manifests, ask for them
        ("airflow", "airflow-database"): {"connection"},
        ("airflow", "airflow-keys"): {"api-secret-key", "jwt-secret"},
        ("airflow", "airflow-login"): {"passwords.json"},
        ("kubeflow", "mlpipeline-minio-artifact"): {"accesskey", "secretkey"},
        ("kubeflow", "mysql-secret"): {"username", "password"},
        ("monitoring", "grafana-admin"): {"admin-user", "admin-password"},
    }
    for space in OURS:
        assert all(key in keys[space, name] for name, key in keys_of(objects(NAMESPACES / space)))
    for site in SITES.values():
        for secret in (secret for placement in site.placements.values() for secret in placement.secrets):
            if not secret.is_optional:
                assert set(secret.keys) <= keys["kubeflow", secret.name]


def test_who_has_a_database_logs_in_to_it_with_its_own_user_password_and_name(kubectl: Path) -> None:
    assert secrets(kubectl, "s3://bucket/mlflow").returncode == 0

    written = contents(kubectl)
    urls = {name: urlsplit(text) for name, content in written.items() for text in content.values() if "@" in text}
    assert set(urls) == {("nightshift", "mlflow"), ("airflow", "airflow-database")}
    for (namespace, _), url in urls.items():
        service = named(of_kind(namespace, "Service"), str(url.hostname))
        own = written[namespace, service["metadata"]["name"]]
        assert url.port == service["spec"]["ports"][0]["port"]
        assert (url.username, url.password) == (own["POSTGRES_USER"], own["POSTGRES_PASSWORD"])
        assert url.path == f"/{own['POSTGRES_DB']}"


OF_LOGINS = ("nightshift", "kubeflow")
SHARED = [f"{space} {name}" for name in ("nightshift-serving", "nightshift-mlflow") for space in OF_LOGINS]


def test_secrets_that_are_there_are_left_alone(kubectl: Path) -> None:
    (kubectl / "there").write_text("\n".join(["monitoring grafana-admin", *SHARED, ""]))

    assert "were not changed" in secrets(kubectl, "s3://bucket/mlflow").stdout
    assert not (kubectl / "told").exists()


@pytest.mark.parametrize("missing", SHARED)
def test_a_cluster_with_all_other_secrets_gets_a_login_that_one_side_lacks_on_both_and_nothing_else(
    missing: str, kubectl: Path
) -> None:
    name = missing.split()[1]
    there = ["monitoring grafana-admin", *(other for other in SHARED if other != missing)]

    assert created_secrets(kubectl, *there) == [f"{space} {name}" for space in OF_LOGINS]
    first, second = contents(kubectl)["nightshift", name], contents(kubectl)["kubeflow", name]
    assert first == second
    assert f"{name} is new; servers read it" in secrets(kubectl, "s3://bucket/mlflow").stdout


def created_secrets(kubectl: Path, *there: str) -> list[str]:
    """The secrets that are made, as `namespace name`, where some are there."""
    (kubectl / "there").write_text("".join(f"{name}\n" for name in there))
    (kubectl / "asked").write_text("")
    assert secrets(kubectl, "s3://bucket/mlflow").returncode == 0
    created = re.findall(r"create secret generic (\S+) --namespace (\S+)", (kubectl / "asked").read_text())
    return [f"{space} {name}" for name, space in created]


def test_secrets_are_made_once_and_all_again_after_a_run_that_was_cut_off(kubectl: Path) -> None:
    every = created_secrets(kubectl)

    assert created_secrets(kubectl, *every) == []
    for count in range(len(every)):
        again = created_secrets(kubectl, *every[:count])
        # passwords are made anew: nobody knows which were handed out
        assert set(again) >= {*every} - {*SHARED}
        assert {*SHARED} <= {*again, *every[:count]}


def test_secrets_without_a_place_for_artifacts_are_refused(kubectl: Path) -> None:
    refused = secrets(kubectl)

    assert refused.returncode and "folder of the artifacts of MLflow" in refused.stderr
