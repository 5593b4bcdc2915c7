"""The example of a language model that is served on a cluster, in infra/kubernetes/language/."""

import json
from typing import Any

import pytest

from nightshift_testkit.cluster.cluster import CRDS
from nightshift_testkit.cluster.kinds import custom
from nightshift_testkit.cluster.validation import validate
from tests.infra.test_kubernetes import FOLDER, objects

OBJECTS = {(value["kind"], value["metadata"]["name"]): value for value in objects(FOLDER / "language")}


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {name: value["spec"] for (own, name), value in OBJECTS.items() if own == kind}


@pytest.mark.parametrize("key", OBJECTS, ids="-".join)
def test_the_kinds_own_definition_takes_every_object(key: tuple[str, str]) -> None:
    value = OBJECTS[key]
    group, _, version = value["apiVersion"].partition("/")
    path = CRDS / f"{key[0].lower()}s.{group}.json"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    (kind,) = [kind for kind in custom(json.loads(path.read_text())) if kind.version == version]
    validate(kind, value)


def test_the_route_shares_the_requests_between_pools_that_are_there() -> None:
    ((rule,),) = [route["rules"] for route in of_kind("HTTPRoute").values()]
    weights = {backend["name"]: backend["weight"] for backend in rule["backendRefs"]}
    assert weights.keys() == of_kind("InferencePool").keys()
    assert weights["chat-2"] / sum(weights.values()) == 0.05
    assert {backend["kind"] for backend in rule["backendRefs"]} == {"InferencePool"}


def test_what_is_scaled_is_routed_to_and_watched_by_the_requests_that_wait_at_it() -> None:
    (scaled,) = of_kind("ScaledObject").values()
    (trigger,) = scaled["triggers"]
    name = scaled["scaleTargetRef"]["name"]
    assert of_kind("InferencePool")[name]["selector"] == {"matchLabels": {"app": name}}
    assert f'vllm:num_requests_waiting{{namespace="nightshift", pod=~"{name}-' in trigger["metadata"]["query"]
    assert scaled["minReplicaCount"] <= scaled["fallback"]["replicas"] <= scaled["maxReplicaCount"]


def test_the_ports_that_requests_go_to_are_those_whose_metrics_are_read() -> None:
    ((endpoint,),) = [monitor["podMetricsEndpoints"] for monitor in of_kind("PodMonitor").values()]
    ports = {port["number"] for pool in of_kind("InferencePool").values() for port in pool["targetPorts"]}
    assert ports == {endpoint["portNumber"]}
