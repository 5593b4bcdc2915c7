"""What network policies let through, as Kubernetes defines it."""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.infra.edges.model import Cluster, Json, Pod

# what is somewhere else: the API server when it calls a webhook, the Internet, a cloud's services
ELSEWHERE = "0.0.0.0"  # noqa: S104


@dataclass(frozen=True)
class Rule:
    """One entry of a policy's ingress or egress."""

    policy: str
    direction: str
    at: int

    def __str__(self) -> str:
        return f"{self.policy}: {self.direction} {self.at}"


def rules(cluster: Cluster) -> Iterator[tuple[Rule, Json]]:
    """Return every rule of the policies that are ours, and what it says: the charts' are theirs."""
    for policy in cluster.of_kind("NetworkPolicy"):
        if "metadata" in policy:
            for direction in ("ingress", "egress"):
                for at, written in enumerate(policy["spec"].get(direction, [])):
                    yield Rule(_name(policy), direction, at), written


def through(
    cluster: Cluster, client: Pod | str, server: Pod | str, port: int, protocol: str
) -> Mapping[str, list[Rule]]:
    """Return by direction the rules that let a call through; a direction that no policy closes is missing."""
    sides = {"egress": (client, server, "to"), "ingress": (server, client, "from")}
    return {
        direction: _open(cluster, direction, here, _Call(there, port, protocol, _pod_ports(server)), way)
        for direction, (here, there, way) in sides.items()
        if isinstance(here, Pod) and not here.on_host and _closed(cluster, direction, here)
    }


@dataclass(frozen=True)
class _Call:
    peer: Pod | str
    port: int
    protocol: str
    names: Mapping[str, int]


def _pod_ports(server: Pod | str) -> Mapping[str, int]:
    return server.ports if isinstance(server, Pod) else {}


def _chosen(cluster: Cluster, direction: str, pod: Pod) -> list[Json]:
    return [
        policy
        for policy in cluster.of_kind("NetworkPolicy")
        if policy["namespace"] == pod.namespace
        and direction.capitalize() in policy["spec"].get("policyTypes", ["Ingress"])
        and matches(policy["spec"].get("podSelector", {}), pod.labels)
    ]


def _closed(cluster: Cluster, direction: str, pod: Pod) -> bool:
    return bool(_chosen(cluster, direction, pod))


def _open(cluster: Cluster, direction: str, pod: Pod, call: _Call, way: str) -> list[Rule]:
    return [
        Rule(_name(policy), direction, at)
        for policy in _chosen(cluster, direction, pod)
        for at, rule in enumerate(policy["spec"].get(direction, []))
        if _port(rule, call) and _peer(cluster, rule.get(way), policy["namespace"], call.peer)
    ]


def _port(rule: Json, call: _Call) -> bool:
    ports = rule.get("ports")
    return not ports or any(
        entry.get("protocol", "TCP") == call.protocol
        and call.names.get(entry.get("port"), entry.get("port")) in (None, call.port)
        for entry in ports
    )


def _peer(cluster: Cluster, peers: list[Json] | None, namespace: str, peer: Pod | str) -> bool:
    return not peers or any(_is(cluster, candidate, namespace, peer) for candidate in peers)


def _is(cluster: Cluster, wanted: Json, namespace: str, peer: Pod | str) -> bool:
    if isinstance(peer, str):
        return "ipBlock" in wanted and ipaddress.ip_address(peer) in ipaddress.ip_network(wanted["ipBlock"]["cidr"])
    if "ipBlock" in wanted:
        return False
    there = (
        matches(wanted["namespaceSelector"], _labels(cluster, peer.namespace))
        if "namespaceSelector" in wanted
        else peer.namespace == namespace
    )
    return there and matches(wanted.get("podSelector", {}), peer.labels)


def _labels(cluster: Cluster, namespace: str) -> Mapping[str, str]:
    namespaces = (fact for fact in cluster.of_kind("Namespace") if fact["name"] == namespace)
    return {"kubernetes.io/metadata.name": namespace} | next(namespaces, {}).get("labels", {})


def matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Say whether a selector of Kubernetes chooses what has these labels."""
    wanted = selector.get("matchLabels", {})
    return wanted.items() <= labels.items() and all(
        _holds(expression, labels) for expression in selector.get("matchExpressions", [])
    )


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]


def _name(policy: Json) -> str:
    return f"{policy['namespace']}/{policy['name']}"
