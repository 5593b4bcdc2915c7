"""The metrics that docs/reference/metrics.md lists, and the queries of dashboards and rules."""

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser

from nightshift.runtime import strict_yaml

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "infra" / "monitoring"
PAGE = ROOT / "docs" / "reference" / "metrics.md"
GATEWAY_PAGE = ROOT / "packages" / "llm" / "docs" / "gateway.md"
SHARED = {
    "What a step pushes": {"pipeline", "use_case", "step"},
    "What the endpoint exposes": {"use_case"},
    "What the exporter exposes": {"pipeline", "use_case"},
}
SUFFIXES = ("_bucket", "_count", "_sum")


@dataclass(frozen=True)
class Query:
    """A PromQL expression, and where it stands."""

    title: str
    expression: str

    def filled(self) -> str:
        """With values for Grafana's variables."""
        filled = self.expression.replace("$__rate_interval", "1m").replace("$use_case", ".*").replace("$gateway", ".*")
        return re.sub(r"\$\w+_dollars", "2.5", filled)

    def metrics(self) -> set[str]:
        """The names of the metrics it asks for."""
        parts: list[promql_parser.Expr] = []
        promql_parser.walk(promql_parser.parse(self.filled()), parts.append)
        return {part.name for part in parts if isinstance(part, promql_parser.VectorSelector) and part.name}


def documented(page: Path = PAGE) -> dict[str, set[str]]:
    """Metric -> its labels, as a page says."""
    labels = {}
    for section in page.read_text().split("\n## ")[1:]:
        shared = SHARED.get(section.partition("\n")[0], set())
        for name, row in re.findall(r"^\| `(nightshift_\w+)` \|(.*)", section, re.MULTILINE):
            own = re.sub(r":[^|]*", "", row.rpartition("|")[0].rpartition("|")[0])
            labels[name] = shared | set(re.findall(r"`(\w+)`", own))
    return labels | ({"nightshift_kubeflow_up": set()} if page == PAGE else {})


def of_gpus() -> set[str]:
    """The metrics that dcgm-exporter is asked for."""
    lines = (FOLDER / "dcgm-counters.csv").read_text().splitlines()
    return {row[0] for row in csv.reader(line for line in lines if not line.startswith("#"))}


def rules() -> list[dict[str, Any]]:
    files = sorted((FOLDER / "rules").glob("*.yaml"))
    groups = [group for path in files for group in strict_yaml.load_document(path.read_text())["spec"]["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def dashboards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((FOLDER / "dashboards").glob("*.json"))}


def panels() -> list[Query]:
    return [
        Query(f"{name}: {panel['title']} {target['refId']}", target["expr"])
        for name, board in dashboards().items()
        for panel in board["panels"]
        for target in panel["targets"]
    ]


def base(metric: str) -> str:
    """The metric that a histogram's series belongs to."""
    for suffix in SUFFIXES:
        metric = metric.removesuffix(suffix)
    return metric
