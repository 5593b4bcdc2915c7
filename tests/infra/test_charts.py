"""What we give the charts, held against the charts themselves; `../shared/charts` says what they are."""

import re
from urllib.parse import urlsplit

import jsonschema
import pytest
import yaml

from tests.infra.charts import (
    CHARTS,
    FOLDER,
    FREE,
    HELM,
    REAL,
    ROOT,
    UNLISTED,
    Json,
    merge_values,
    read_objects,
    real,
    unknown,
)
from tests.infra.test_kubernetes import kustomization, objects

pytestmark = pytest.mark.skipif(not REAL.exists(), reason="needs the facts of the charts in ../shared/charts")
OURS = (*(FOLDER / "namespaces").glob("*/"), FOLDER.parent / "kubernetes" / "aws", FOLDER.parent / "monitoring")
# how services, and accounts with their namespaces, are named
SERVICE = re.compile(r"https?://([a-z-]+)\.([a-z]+)(?:\.svc[a-z.]*)?:(\d+)")
ACCOUNTS = (
    re.compile(r'namespace += "(?P<namespace>\S+)"(?:,|\n) *(?:service_)?account += "(?P<name>\S+)"'),
    re.compile(r"serviceaccount --namespace (?P<namespace>\S+) (?P<name>\S+)"),
)


def texts() -> list[str]:
    """Everything that is written down about a cluster, but for what is compiled from it."""
    folders = [ROOT / name for name in ("components", "docs", "infra", "nightshift", "pipelines")]
    paths = [path for folder in folders for path in folder.rglob("*") if "compiled" not in path.parts]
    return [path.read_text() for path in paths if path.suffix in {".md", ".py", ".sh", ".tf", ".yaml"}]


def there(kind: str) -> dict[tuple[str, str], Json]:
    """All objects of a kind by namespace and name: the charts', and ours."""
    known = {
        (fact["namespace"], fact["name"]): fact for row in CHARTS for fact in read_objects(row) if fact["kind"] == kind
    }
    for folder in OURS:
        namespace = kustomization(folder).get("namespace", "")
        known |= {
            (namespace, manifest["metadata"]["name"]): manifest
            for manifest in objects(folder)
            if manifest["kind"] == kind
        }
    return known


def chart(name: str) -> Json:
    return next(row for row in CHARTS if row["name"] == name)


@pytest.mark.parametrize("row", HELM, ids=lambda row: row["name"])
def test_every_value_is_one_that_the_chart_knows(row: Json) -> None:
    assert unknown(row) == []


@pytest.mark.parametrize("row", HELM, ids=lambda row: row["name"])
def test_the_charts_own_schema_takes_the_values(row: Json) -> None:
    jsonschema.validate(merge_values(row), real(row["name"], "values.schema.json") or {})


@pytest.mark.parametrize("row", HELM, ids=lambda row: row["name"])
def test_the_version_is_the_one_that_was_looked_at(row: Json) -> None:
    assert row.get("looked_at", row["version"]) == real(row["name"], "Chart.yaml")["version"]


def test_a_version_comes_from_the_project_itself_and_is_newer_than_the_one_that_was_looked_at() -> None:
    def order(version: str) -> list[int]:
        return [int(part) for part in version.removeprefix("v").split(".")]

    for row in CHARTS:
        assert order(row["version"]) > order(row.get("looked_at", "0")), row["name"]
    for name in ("airflow", "kserve", "kserve-crd", "kube-prometheus-stack"):
        assert urlsplit(chart(name)["source"]).path.split("/")[1] in {"apache", "kserve", "prometheus-community"}


@pytest.mark.parametrize("name", sorted({*FREE, *UNLISTED}))
def test_an_exception_is_needed(name: str) -> None:
    """One that nobody needs would hide the next wrong name."""
    for path in FREE.get(name, ()) + UNLISTED.get(name, ()):
        value = merge_values(chart(name))
        for step in path.split("."):
            value = value[step]


def test_a_service_that_is_called_is_there_at_that_port() -> None:
    services, called = there("Service"), {host_and_port for text in texts() for host_and_port in SERVICE.findall(text)}

    assert len(called) >= 3
    for name, namespace, port in called:
        service = services[namespace, name]
        assert int(port) in {entry["port"] for entry in service.get("spec", service)["ports"]}


def test_an_account_that_is_given_a_right_is_there() -> None:
    accounts = there("ServiceAccount")
    grants = [match for text in texts() for pattern in ACCOUNTS for match in pattern.finditer(text)]
    given_rights = {(match["namespace"], match["name"]) for match in grants}
    for (namespace, _), binding in there("RoleBinding").items():
        for subject in binding["subjects"]:
            if subject["kind"] == "ServiceAccount":
                given_rights.add((subject.get("namespace", namespace), subject["name"]))

    assert {("kube-system", "karpenter"), ("nightshift", "mlflow"), ("airflow", "airflow-worker")} <= given_rights
    assert given_rights <= set(accounts)


def test_airflows_image_answers_the_probes_and_holds_what_its_pods_run() -> None:
    """The chart's own commands are of Airflow's own image: `/entrypoint`, `/clean-logs`."""
    airflow = chart("airflow")
    parts = {"scheduler": "scheduler", "triggerer": "triggerer", "dag-processor": "dagProcessor"}
    probes = 0
    for value in read_objects(airflow):
        for container in value.get("containers", []):
            ours = merge_values(airflow).get(parts.get(container["name"].removesuffix("-log-groomer"), ""), {})
            for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                if isinstance(container.get(probe), list):
                    assert ours[probe]["command"][:3] == ["airflow", "jobs", "check"]
                    probes += 1
            if any("/clean-logs" in word for word in container.get("args", [])):
                assert ours["logGroomerSidecar"]["args"][0] == "bash"
                probes += 1

    assert probes >= 4


def test_nothing_installs_packages_from_the_internet() -> None:
    """The trainer's job that brings runtimes does; the chart has none of them unless it is told to."""
    trainer = chart("trainer")

    assert merge_values(trainer) == {} and real("trainer", "values.yaml")["runtimes"]["defaultEnabled"] is False


def patches() -> dict[tuple[str, str], Json]:
    """How Kubeflow's objects are changed, by kind and name."""
    read = yaml.safe_load((FOLDER / "pipelines" / "kustomization.yaml").read_text())["patches"]
    return {
        (patch["target"]["kind"], name): yaml.safe_load(patch["patch"])
        for patch in read
        for name in patch["target"]["name"].split("|")
    }


def test_no_password_that_kubeflows_manifests_hold_is_installed() -> None:
    pipelines = chart("pipelines")
    names = {(fact["kind"], fact["name"]) for fact in read_objects(pipelines)}
    left_out = {name for name, patch in patches().items() if patch.get("$patch") == "delete"}

    assert set(patches()) <= names
    assert {name for name in names if name[0] == "Secret"} == {name for name in left_out if name[0] == "Secret"}


def test_kubeflows_database_asks_root_for_the_password_that_its_clients_have() -> None:
    pod = patches()["Deployment", "mysql"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pipelines = chart("pipelines")
    (mysql,) = [fact for fact in read_objects(pipelines) if (fact["kind"], fact["name"]) == ("Deployment", "mysql")]

    assert [running["name"] for running in mysql["containers"]] == [container["name"]]
    assert mysql["containers"][0]["env"] == ["MYSQL_ALLOW_EMPTY_PASSWORD=true"]
    assert container["env"] == [
        {"name": "MYSQL_ALLOW_EMPTY_PASSWORD", "$patch": "delete"},
        {
            "name": "MYSQL_ROOT_PASSWORD",
            "valueFrom": {"secretKeyRef": {"name": "mysql-secret", "key": "password"}},
        },
    ]


def test_airflows_tasks_report_to_a_service_of_the_chart() -> None:
    airflow = chart("airflow")
    url = urlsplit(merge_values(airflow)["config"]["core"]["execution_api_server_url"])
    service = there("Service")[airflow["namespace"], url.hostname or ""]

    assert url.port in {port["port"] for port in service["ports"]} and url.path == "/execution/"
