"""What only Google Cloud's configuration has to show."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cluster.core import Chart
from infra.policies.pipelines import WEBHOOKS

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
OBJECTS = ROOT.parent / "shared" / "charts" / "objects"
CHARTS: list[Chart] = yaml.safe_load((ROOT / "infra/cluster/charts.yaml").read_text())
OPEN = {443, 10250}  # what GKE's own rule lets through


def webhook_ports(objects: list[Json]) -> Iterator[int]:
    """The ports of the pods that answer the webhooks among a chart's objects."""
    services = {(fact.get("namespace"), fact["name"]): fact for fact in objects if fact["kind"] == "Service"}
    for hook in (hook for fact in objects for hook in fact.get("webhooks", [])):
        service = services[hook["service"]["namespace"], hook["service"]["name"]]
        wanted = {port["port"]: port["targetPort"] for port in service["ports"]}[hook["service"].get("port", 443)]
        for pod in objects:
            if service["selector"].items() <= pod.get("podLabels", {}).items():
                ports = [port for container in pod["containers"] for port in container.get("ports", [])]
                yield from (
                    port["containerPort"] for port in ports if wanted in (port.get("name"), port["containerPort"])
                )


def test_the_control_plane_reaches_the_webhook_of_every_chart() -> None:
    if not OBJECTS.exists():
        pytest.skip(f"{OBJECTS} is missing")
    ports_by_chart = {}
    for path in OBJECTS.glob("*.yaml"):
        if any(chart["name"] == path.stem and "gcp" in chart["clouds"] for chart in CHARTS):
            ports_by_chart[path.stem] = set(webhook_ports(list(yaml.safe_load_all(path.read_text()))))

    assert {"cert-manager", "kserve", "kube-prometheus-stack", "trainer"} <= {
        name for name, ports in ports_by_chart.items() if ports
    }
    assert set().union(*ports_by_chart.values()) - OPEN <= {int(port) for port in WEBHOOKS}
