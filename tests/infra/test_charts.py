"""What we give the charts, held against the charts themselves; `../shared/charts` says what they are."""

import re

import jsonschema
import pytest
import yaml

from tests.infra.charts import CHARTS, FOLDER, FREE, HELM, REAL, ROOT, UNLISTED, Json, given, made, real, unknown
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
    folders = [ROOT / name for name in ("components", "docs", "infra", "pipelines")]
    paths = [path for folder in folders for path in folder.rglob("*") if "compiled" not in path.parts]
    return [path.read_text() for path in paths if path.suffix in {".md", ".py", ".sh", ".tf", ".yaml"}]


def there(kind: str) -> dict[tuple[str, str], Json]:
    """All objects of a kind by namespace and name: the charts', and ours."""
    found = {
        (each["namespace"], each["name"]): each for chart in CHARTS for each in made(chart) if each["kind"] == kind
    }
    for folder in OURS:
        namespace = kustomization(folder).get("namespace", "")
        found |= {(namespace, each["metadata"]["name"]): each for each in objects(folder) if each["kind"] == kind}
    return found


@pytest.mark.parametrize("chart", HELM, ids=lambda chart: chart["name"])
def test_every_value_is_one_that_the_chart_knows(chart: Json) -> None:
    assert unknown(chart) == []


@pytest.mark.parametrize("chart", HELM, ids=lambda chart: chart["name"])
def test_the_charts_own_schema_takes_the_values(chart: Json) -> None:
    jsonschema.validate(given(chart), real(chart["name"], "values.schema.json") or {})


@pytest.mark.parametrize("chart", HELM, ids=lambda chart: chart["name"])
def test_the_version_is_the_one_that_was_looked_at(chart: Json) -> None:
    assert chart["version"] == real(chart["name"], "Chart.yaml")["version"]


@pytest.mark.parametrize("name", sorted({*FREE, *UNLISTED}))
def test_an_exception_is_needed(name: str) -> None:
    """One that nobody needs would hide the next wrong name."""
    for path in FREE.get(name, ()) + UNLISTED.get(name, ()):
        value = given(next(chart for chart in HELM if chart["name"] == name))
        for step in path.split("."):
            value = value[step]


def test_a_service_that_is_called_is_there_at_that_port() -> None:
    services, called = there("Service"), {found for text in texts() for found in SERVICE.findall(text)}

    assert len(called) >= 3
    for name, namespace, port in called:
        service = services[namespace, name]
        assert int(port) in {each["port"] for each in service.get("spec", service)["ports"]}


def test_an_account_that_is_given_a_right_is_there() -> None:
    accounts = there("ServiceAccount")
    found = [each for text in texts() for pattern in ACCOUNTS for each in pattern.finditer(text)]
    given_rights = {(each["namespace"], each["name"]) for each in found}
    for (namespace, _), binding in there("RoleBinding").items():
        for subject in binding["subjects"]:
            if subject["kind"] == "ServiceAccount":
                given_rights.add((subject.get("namespace", namespace), subject["name"]))

    assert {("kube-system", "karpenter"), ("nightshift", "mlflow"), ("airflow", "airflow-worker")} <= given_rights
    assert given_rights <= set(accounts)


def test_airflows_image_answers_the_probes_and_holds_what_its_pods_run() -> None:
    """The chart's own commands are of Airflow's own image: `/entrypoint`, `/clean-logs`."""
    airflow = next(chart for chart in HELM if chart["name"] == "airflow")
    parts = {"scheduler": "scheduler", "triggerer": "triggerer", "dag-processor": "dagProcessor"}
    asked = 0
    for value in made(airflow):
        for container in value.get("containers", []):
            ours = given(airflow).get(parts.get(container["name"].removesuffix("-log-groomer"), ""), {})
            for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                if isinstance(container.get(probe), list):
                    assert ours[probe]["command"][:3] == ["airflow", "jobs", "check"]
                    asked += 1
            if any("/clean-logs" in word for word in container.get("args", [])):
                assert ours["logGroomerSidecar"]["args"][0] == "bash"
                asked += 1

    assert asked >= 4


def test_nothing_installs_packages_from_the_internet() -> None:
    """The trainer's job that brings runtimes does; the chart has none of them unless it is told to."""
    trainer = next(chart for chart in HELM if chart["name"] == "trainer")

    assert given(trainer) == {} and real("trainer", "values.yaml")["runtimes"]["defaultEnabled"] is False


def test_what_is_changed_of_kubeflow_is_there() -> None:
    pipelines = next(chart for chart in CHARTS if chart["name"] == "pipelines")
    found = {(each["kind"], each["name"]) for each in made(pipelines)}
    patches = yaml.safe_load((FOLDER / "pipelines" / "kustomization.yaml").read_text())["patches"]

    for target in (patch["target"] for patch in patches):
        assert {(target["kind"], name) for name in target["name"].split("|")} <= found
