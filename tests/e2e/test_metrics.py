"""Real runs, a real endpoint and the exporter, scraped by a real Prometheus: the metrics, and the panels."""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from nightshift.cluster.kubeflow import KubeflowApi, KubeflowTarget
from nightshift_testkit.kubeflow import Kubeflow, serve
from nightshift_testkit.metrics import Query, base, documented, panels
from nightshift_testkit.processes import wait_until
from nightshift_testkit.prometheus import running
from tests.e2e.nights import GROUP, STABLE, TRAINED, Nights
from tests.pipelines.engines.kubeflow.test_exporter import exporting
from tests.pipelines.engines.kubeflow.test_exporter import nightshift as on_kubeflow

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

AGAIN = {"job", "instance", "__name__", "le"}  # labels that Prometheus adds, or a histogram


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, nights: Nights, monitored: dict[str, str]) -> Iterator[str]:
    """A Prometheus that has scraped all of it for a while; gives its URL."""
    folder = tmp_path_factory.mktemp("metrics")
    # with a champion to compare with
    nights.run("training", STABLE[0], "--target", "record-only")
    endpoint: str = nights.left(f"fraud-training-{TRAINED}-*/deployment/deployment")["endpoint"]
    with ExitStack() as stack:
        exporter = stack.enter_context(beside_kubeflow(stack))
        write(folder / "prometheus.yaml", nights.gateway, endpoint, exporter)
        options = (f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data")
        url = stack.enter_context(running("prometheus", *options))
        send_requests(endpoint)
        wait_until(lambda: ask(url, "nightshift_kubeflow_up"), "the exporter is scraped")
        wait_until(lambda: ask(url, "nightshift_step_seconds"), "the gateway is scraped")
        wait_until(
            lambda: ask(url, "rate(nightshift_endpoint_requests_total[1m])"),
            "the endpoint is scraped twice",
        )
        yield url


def beside_kubeflow(stack: ExitStack) -> AbstractContextManager[str]:
    """Run the exporter beside a Kubeflow with one run of each state."""
    kubeflow = next(kept := serve(Kubeflow()))
    stack.callback(lambda: next(kept, None))
    on_kubeflow(kubeflow, "schedule")
    server = KubeflowApi(KubeflowTarget(kubeflow.url, "nightshift"))
    definition = server.find_newest("training")
    values = dict.fromkeys(definition.parameters, "x") | {"config": {"name": "fraud"}, "state": {}}
    for state in ("SUCCEEDED", "FAILED", "RUNNING"):
        server.submit(f"run-{state}", definition, values)
        run = kubeflow.runs[-1]
        run.state, run.created_at = state, datetime.now(UTC) - timedelta(hours=1)
        run.finished_at = datetime.now(UTC)
    return exporting(kubeflow)


def write(path: Path, gateway: str, endpoint: str, exporter: str) -> None:
    targets = {"pushgateway": gateway, "endpoint": endpoint, "exporter": exporter.removesuffix("/metrics")}
    jobs = [
        {
            "job_name": name,
            "honor_labels": name == "pushgateway",
            "static_configs": [{"targets": [url.removeprefix("http://")]}],
        }
        for name, url in targets.items()
    ]
    path.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))


def send_requests(endpoint: str) -> None:
    """Have the endpoint answer for some seconds, also wrong requests."""
    inputs = httpx.get(f"{endpoint}/model").json()["inputs"]
    event = dict.fromkeys(inputs["numeric"], 1.0) | {name: values[0] for name, values in inputs["categorical"].items()}
    for instances in [[event], [event] * 5, []] * 20:
        httpx.post(f"{endpoint}/score", json={"instances": instances})
        time.sleep(0.1)


def ask(prometheus: str, expression: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{prometheus}/api/v1/query", params={"query": expression}).json()
    assert answer["status"] == "success", answer
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


@pytest.mark.parametrize(
    "panel",  # those of a gateway: packages/llm/tests/gateway/test_dashboard.py
    [panel for panel in panels() if not re.search("DCGM|nightshift_gateway", panel.expression)],
    ids=lambda p: p.title,
)
def test_every_panel_has_something_to_show(panel: Query, prometheus: str) -> None:
    assert ask(prometheus, panel.filled())


def test_the_metrics_that_are_exposed_are_those_that_are_documented_with_their_labels(prometheus: str) -> None:
    exposed: dict[str, set[str]] = {}
    for series in ask(prometheus, '{__name__=~"nightshift_.*"}'):
        labels = set(series["metric"])
        exposed.setdefault(base(series["metric"]["__name__"]), set()).update(labels - AGAIN)

    # prometheus-client adds when it began to count
    assert {name: labels for name, labels in exposed.items() if not name.endswith("_created")} == documented()


def test_what_a_step_pushes_says_whose_it_is(prometheus: str) -> None:
    steps = {
        (series["metric"]["pipeline"], series["metric"]["step"])
        for series in ask(prometheus, 'nightshift_step_seconds{use_case="fraud", job="nightshift"}')
    }

    assert {("training", "drift"), ("monitoring", "drift"), ("monitoring", "launching")} <= steps
