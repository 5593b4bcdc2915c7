"""What a gateway exposes is what its page says, and a Prometheus that has scraped it fills the dashboard."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from nightshift_testkit.engines.simulated import MODEL, SimulatedReplica
from nightshift_testkit.metrics import GATEWAY_PAGE, Query, base, documented, panels
from nightshift_testkit.processes import wait_until
from nightshift_testkit.prometheus import running
from packages.llm.tests.gateway.conftest import CHAT, RunningGateway, routing

PANELS = [panel for panel in panels() if panel.title.startswith("language: ")]


def load(gateway: RunningGateway) -> None:
    """Have the gateway count something of each kind."""
    body: dict[str, Any] = {"model": MODEL, "messages": CHAT, "max_tokens": 40}
    for fields in ({}, {"stream": True}, {"model": "other"}, {"n": 200}):
        httpx.post(f"{gateway.url}/v1/chat/completions", json=body | fields)


def test_what_is_exposed_is_what_the_page_says_with_its_labels() -> None:
    with routing([SimulatedReplica()]) as gateway:
        load(gateway)
        families = text_string_to_metric_families(httpx.get(f"{gateway.url}/metrics").text)
        samples = [sample for family in families for sample in family.samples]
    exposed: dict[str, set[str]] = {}
    for sample in samples:
        if not sample.name.endswith("_created"):
            exposed.setdefault(base(sample.name), set()).update({*sample.labels} - {"le"})
    assert exposed == documented(GATEWAY_PAGE)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has scraped a gateway; gives its URL."""
    folder = tmp_path_factory.mktemp("gateway")
    replica = SimulatedReplica()
    with routing([replica]) as gateway:
        targets = {"job_name": "gateway", "static_configs": [{"targets": [gateway.url.removeprefix("http://")]}]}
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [targets]}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        options = (f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data")
        load(gateway)
        with running("prometheus", *options) as url:

            def has_rates() -> bool:
                load(gateway)
                return bool(ask(url, "rate(nightshift_gateway_answers_total[1m]) > 0"))

            wait_until(has_rates, "the gateway is scraped twice")
            yield url


def ask(prometheus: str, expression: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{prometheus}/api/v1/query", params={"query": expression}).json()
    assert answer["status"] == "success", answer
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


@pytest.mark.slow
@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_every_panel_has_something_to_show(panel: Query, prometheus: str) -> None:
    assert ask(prometheus, panel.filled())
