"""Dashboards, alert rules and the exporter's manifest in infra/monitoring/."""

import json
import re
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import kubernetes_validate
import pytest
import yaml

from nightshift.local.endpoint import PORT
from nightshift_llm.gateway.__main__ import PORT as GATEWAY_PORT
from nightshift_testkit.metrics import (
    FOLDER,
    GATEWAY_PAGE,
    PAGE,
    ROOT,
    Query,
    base,
    dashboards,
    documented,
    of_gpus,
    panels,
    rules,
)
from nightshift_testkit.processes import wait_until
from nightshift_testkit.prometheus import program, running
from nightshift_testkit.servers import serving
from pipelines import arguments
from pipelines.cli.__main__ import parse_command_line
from pipelines.environments import KUBEFLOW_INSIDE, SITES, Role
from tests.infra import checks

ALERTS = [Query(rule["alert"], rule["expr"]) for rule in rules()]
OF_THE_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
MONITORS = {"exporter.yaml", "gke.yaml", "serving.yaml", "language.yaml"}
OF_THE_CLUSTER = {"kube_node_status_capacity"}  # kube-state-metrics, which kube-prometheus-stack brings


def manifest(kind: str) -> dict[str, Any]:
    (chosen,) = (entry for entry in yaml.safe_load_all((FOLDER / "exporter.yaml").read_text()) if entry["kind"] == kind)
    return dict(chosen)


def promtool(*words: str) -> None:
    done = subprocess.run([program("promtool"), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def plain(folder: Path, annotated: bool) -> list[str]:
    """Write the rules as promtool reads them, with or without what is for people."""
    written = []
    for path in sorted((FOLDER / "rules").glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())["spec"]
        for rule in (rule for group in spec["groups"] for rule in group["rules"]):
            rule["annotations"] = rule["annotations"] if annotated else {}
        (folder / path.name).write_text(yaml.safe_dump(spec))
        written.append(str(folder / path.name))
    return written


def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    promtool("check", "rules", "--lint-fatal", *plain(tmp_path, annotated=True))


@pytest.mark.parametrize("path", sorted((FOLDER / "rules" / "tests").glob("*.yaml")), ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_not_before(path: Path, tmp_path: Path) -> None:
    plain(tmp_path, annotated=False)
    (tmp_path / "tests.yaml").write_text(path.read_text())

    promtool("test", "rules", str(tmp_path / "tests.yaml"))


class Slack(BaseHTTPRequestHandler):
    """An incoming webhook of Slack, which keeps what it is posted."""

    posted: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.posted.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.slow
def test_the_documented_receiver_hears_of_an_alert_and_not_of_the_watchdog(tmp_path: Path) -> None:
    ((text),) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/runbooks/alerts.md").read_text(), re.DOTALL)
    (tmp_path / "alert-receivers").mkdir()
    config = yaml.safe_load(text.replace("/etc/alertmanager/secrets", str(tmp_path)))["alertmanager"]["config"]
    config["route"] |= {"group_wait": "0s"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (rule,) = [rule for rule in rules() if rule["alert"] == "NightshiftRunFailed"]
    labels = {"alertname": rule["alert"], "pipeline": "training", "use_case": "fraud", **rule["labels"]}
    notes = {key: re.sub(r"\{\{ \$labels\.(\w+) }}", r"{\1}", text) for key, text in rule["annotations"].items()}
    alert = {"labels": labels, "annotations": {key: notes[key].format(**labels) for key in ("summary", "runbook_url")}}
    options = [f"--config.file={tmp_path}/config.yaml", f"--storage.path={tmp_path}", "--cluster.listen-address="]
    with ThreadingHTTPServer(("127.0.0.1", 0), Slack) as slack, serving(slack):
        (tmp_path / "alert-receivers" / "slack").write_text(f"http://127.0.0.1:{slack.server_port}/services/T0/B0")
        with running("prometheus-alertmanager", *options) as url:
            for labeled in ({"labels": {"alertname": "Watchdog"}}, alert):
                assert httpx.post(f"{url}/api/v2/alerts", json=[labeled]).is_success
            wait_until(lambda: Slack.posted, "Slack was told")

    (message,) = Slack.posted
    (attachment,) = message["attachments"]
    assert (message["channel"], attachment["title"]) == ("#ml-nights", "firing: NightshiftRunFailed (warning)")
    assert attachment["text"] == (
        "The last training run of fraud failed. See docs/runbooks/alerts.md#nightshiftrunfailed\n"
    )


def test_every_alert_is_shown_firing_and_not_firing() -> None:
    shown: dict[bool, set[str]] = {True: set(), False: set()}
    for path in (FOLDER / "rules" / "tests").glob("*.yaml"):
        for case in (case for test in yaml.safe_load(path.read_text())["tests"] for case in test["alert_rule_test"]):
            shown[bool(case["exp_alerts"])].add(case["alertname"])

    assert shown == {fires: {alert.title for alert in ALERTS} for fires in (True, False)}


def test_every_alert_says_how_bad_it_is_what_it_is_and_what_to_do() -> None:
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs/runbooks/alerts.md").read_text(), re.MULTILINE)
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        annotations = rule["annotations"]
        assert set(annotations) == {"summary", "description", "runbook_url"}
        assert annotations["runbook_url"] == f"docs/runbooks/alerts.md#{rule['alert'].lower()}"
    assert sections == [
        alert.title for path in ("runs", "models", "serving", "language", "gpus") for alert in in_file(path)
    ]


def in_file(name: str) -> list[Query]:
    groups = yaml.safe_load((FOLDER / "rules" / f"{name}.yaml").read_text())["spec"]["groups"]
    return [Query(rule["alert"], rule["expr"]) for group in groups for rule in group["rules"]]


def test_prometheus_understands_the_query_of_every_panel(tmp_path: Path) -> None:
    recorded = [{"record": f"panel:{i}", "expr": panel.filled()} for i, panel in enumerate(panels())]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))

    promtool("check", "rules", str(path))


@pytest.mark.parametrize("query", [*ALERTS, *panels()], ids=lambda query: query.title)
def test_only_metrics_are_asked_for_that_somebody_exposes(query: Query) -> None:
    metrics = query.metrics()

    assert metrics
    assert {base(name) for name in metrics} <= {
        base(name) for page in (PAGE, GATEWAY_PAGE) for name in documented(page)
    } | of_gpus() | OF_THE_PROCESS | OF_THE_CLUSTER


def test_no_alert_is_about_what_a_managed_cluster_does_not_show() -> None:
    """Neither cloud lets anybody scrape its control plane, and GKE has no CoreDNS."""
    chart_values = yaml.safe_load((ROOT / "infra/cluster/values/kube-prometheus-stack.yaml").read_text())

    for hidden in ("kubeControllerManager", "kubeScheduler", "kubeEtcd", "kubeProxy", "coreDns"):
        assert chart_values[hidden] == {"enabled": False}, hidden


def monitored(name: str) -> dict[str, Any]:
    """The spec of a monitor in a file that holds nothing else."""
    (monitor,) = yaml.safe_load_all((FOLDER / name).read_text())
    return dict(monitor["spec"])


def test_what_alerts_ask_for_is_scraped_where_it_is_exposed() -> None:
    """By the beginning of a metric's name: who exposes it in a cluster, and what lets Prometheus know of it."""
    (served,) = monitored("serving.yaml")["podMetricsEndpoints"]
    image = (ROOT / "containers/Dockerfile").read_text()
    pushed = yaml.safe_load((ROOT / "infra/cluster/values/pushgateway.yaml").read_text())["serviceMonitor"]["enabled"]
    exported = manifest("ServiceMonitor")["spec"]["endpoints"]
    stack = yaml.safe_load((ROOT / "infra/cluster/values/kube-prometheus-stack.yaml").read_text())
    scraped = {
        "kube_": "kubeStateMetrics" not in stack,
        "DCGM_": monitored("gke.yaml")["podMetricsEndpoints"],
        "nightshift_gateway_": monitored("language.yaml")["podMetricsEndpoints"][0]["portNumber"] == int(GATEWAY_PORT),
        "nightshift_endpoint_": served["portNumber"] == PORT and f"EXPOSE {PORT}\n" in image,
        **dict.fromkeys(("nightshift_run_", "nightshift_schedule_", "nightshift_kubeflow_"), exported),
        **{
            f"nightshift_{path.name}_": pushed
            for path in (ROOT / "components").iterdir()
            if (path / "component.py").exists()
        },
    }

    metrics = {name for alert in ALERTS for name in alert.metrics()}
    unknown = {name for name in metrics if not any(name.startswith(start) and scraped[start] for start in scraped)}
    assert unknown == set()


def test_queries_name_pipelines_that_are_compiled() -> None:
    pipelines = {name for query in [*ALERTS, *panels()] for name in re.findall(r'pipeline="([^"]*)"', query.expression)}

    assert pipelines == {"monitoring", "training"} <= {*arguments.list_shipped()}


def test_a_dashboard_shows_the_use_cases_or_gateways_that_are_chosen_alone() -> None:
    for panel in panels():
        for name, labels in re.findall(r"(nightshift_\w+)(?:\{([^}]*)\})?", panel.expression):
            chosen = 'instance=~"$gateway"' if name.startswith("nightshift_gateway_") else 'use_case=~"$use_case"'
            assert chosen in labels, panel.title


def test_names_of_metrics_are_found_in_a_query() -> None:
    query = 'sum by (a) (rate(x_total{b="y", c=~"$use_case"}[5m])) / on (d) z offset 1h or vector(0) > 6 * 3600'

    assert Query("", query).metrics() == {"x_total", "z"}


def test_every_dashboard_can_be_told_from_the_others_and_every_panel_explains_itself() -> None:
    boards = dashboards()
    assert {board["uid"] for board in boards.values()} == {f"nightshift-{name}" for name in boards}
    for board in boards.values():
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        positions = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
        assert len(set(positions)) == len(positions)
        assert all(panel["title"] and panel["fieldConfig"]["defaults"]["unit"] for panel in board["panels"])


def test_every_file_belongs_to_the_kustomization() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (generated,) = kustomization["configMapGenerator"]
    files = [*FOLDER.glob("rules/*.yaml"), *FOLDER.glob("dashboards/*.json")]
    paths = {str(path.relative_to(FOLDER)) for path in files}

    assert {*kustomization["resources"], *generated["files"]} == paths | MONITORS
    assert kustomization["namespace"] == "nightshift"


@pytest.mark.parametrize("kind", ["ServiceAccount", "Deployment", "Role", "RoleBinding", "Service", "NetworkPolicy"])
def test_kubernetes_own_schema_takes_the_exporters_objects(kind: str) -> None:
    kubernetes_validate.validate(manifest(kind), kubernetes_validate.latest_version(), strict=True)


def test_the_exporter_runs_in_the_base_image_and_may_do_little() -> None:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == checks.example_image("base")
    assert pod["nodeSelector"] == SITES["aws"].placements[Role.LIGHT].nodes
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert [rule["verbs"] for rule in manifest("Role")["rules"]] == [["list"]]


def test_the_exporter_is_started_scraped_and_let_through_as_its_command_line_says() -> None:
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    args = parse_command_line(container["command"][1:])
    (service,), (port,) = manifest("Service")["spec"]["ports"], container["ports"]
    (entry,), (egress,) = manifest("NetworkPolicy")["spec"]["ingress"], manifest("NetworkPolicy")["spec"]["egress"][1:]

    assert (args.host, args.port) == ("0.0.0.0", port["containerPort"])  # noqa: S104
    assert (service["port"], service["targetPort"]) == (args.port, port["name"])
    assert [port["port"] for port in entry["ports"]] == [args.port]
    assert container["env"] == [{"name": "KFP_ENDPOINT", "value": KUBEFLOW_INSIDE}]
    assert KUBEFLOW_INSIDE.endswith(f":{egress['ports'][0]['port']}")
    assert manifest("ServiceMonitor")["spec"]["endpoints"][0]["port"] == service["name"]
