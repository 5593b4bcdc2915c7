"""What KEDA and the autoscaler make of ScaledObjects with triggers of Prometheus, at one moment.

A deployment gets as many replicas as the trigger asks for that asks for most, within its bounds; how long they wait
before they take replicas away is left out. Series are read from the pages of the pods that PodMonitors select, and of
PromQL there are sums, and sums of sums.
"""

import math
import re
from collections.abc import Callable, Iterator

import promql_parser
from prometheus_client.parser import text_string_to_metric_families

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import DEPLOYMENT, Json, ResourceKind
from nightshift_testkit.cluster.selectors import fits

Series = tuple[str, dict[str, str], float]  # name, labels, value


class Keda:
    """Scales the deployments of a cluster."""

    def __init__(self, cluster: SimulatedCluster, read_page: Callable[[Json, str], str]) -> None:
        """Makes no calls.

        Args:
            cluster: whose custom resources have KEDA's and Prometheus'.
            read_page: pod, path -> what it answers.
        """
        self._cluster, self._read_page = cluster, read_page

    def sync(self) -> None:
        """Bring every deployment that a ScaledObject names to the number of replicas it asks for."""
        series = list(self._scrape())
        for scaled in self._cluster.api.store.copies(self._kind("ScaledObject")):
            wanted = count_replicas(scaled["spec"], series)
            name, namespace = scaled["spec"]["scaleTargetRef"]["name"], scaled["metadata"]["namespace"]
            if self._cluster.get(DEPLOYMENT, name, namespace)["spec"].get("replicas", 1) != wanted:
                self._scale(name, namespace, wanted)

    def _scale(self, name: str, namespace: str, replicas: int) -> None:
        self._cluster.api.operations.change(
            DEPLOYMENT, name, lambda value: value["spec"].update(replicas=replicas), namespace
        )

    def _scrape(self) -> Iterator[Series]:
        for monitor in self._cluster.api.store.copies(self._kind("PodMonitor")):
            namespace = monitor["metadata"]["namespace"]
            for pod in self._cluster.pods(namespace):
                if pod["status"]["phase"] == "Running" and fits(
                    pod["metadata"].get("labels", {}), monitor["spec"]["selector"]
                ):
                    yield from self._scrape_pod(pod, monitor["spec"]["podMetricsEndpoints"])

    def _scrape_pod(self, pod: Json, endpoints: list[Json]) -> Iterator[Series]:
        target = {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]}
        for endpoint in endpoints:
            for family in text_string_to_metric_families(self._read_page(pod, endpoint["path"])):
                yield from ((sample.name, sample.labels | target, sample.value) for sample in family.samples)

    def _kind(self, name: str) -> ResourceKind:
        return next(kind for kind in self._cluster.api.kinds if kind.name == name)


def count_replicas(spec: Json, series: list[Series]) -> int:
    """Return how many replicas a ScaledObject asks for."""
    values = [
        evaluate(promql_parser.parse(trigger["metadata"]["query"]), series) / float(trigger["metadata"]["threshold"])
        for trigger in spec["triggers"]
    ]
    return max(spec["minReplicaCount"], min(spec["maxReplicaCount"], math.ceil(max(values))))


def evaluate(query: promql_parser.Expr, series: list[Series]) -> float:
    """Return the value of a query; 0 where it selects nothing.

    Raises:
        ValueError: when it has more than sums.
    """
    if isinstance(query, promql_parser.BinaryExpr) and str(query.op) == "+":
        return evaluate(query.lhs, series) + evaluate(query.rhs, series)
    if isinstance(query, promql_parser.AggregateExpr) and str(query.op) == "sum":
        selector = query.expr
        return sum(value for name, labels, value in series if name == selector.name and _is_selected(selector, labels))
    raise ValueError(f"{query} is not evaluated; only sums are")


def _is_selected(selector: promql_parser.VectorSelector, labels: dict[str, str]) -> bool:
    """Say whether a series has the labels that a selector names; patterns fit whole values."""
    matchers = selector.matchers.matchers
    return all(_fits(matcher, labels.get(matcher.name, "")) for matcher in matchers)


def _fits(matcher: promql_parser.Matcher, value: str) -> bool:
    if matcher.op == promql_parser.MatchOp.Re:
        return bool(re.fullmatch(matcher.value, value))
    if matcher.op == promql_parser.MatchOp.Equal:
        return bool(matcher.value == value)
    raise ValueError(f"{matcher} is not evaluated; only = and =~ are")
