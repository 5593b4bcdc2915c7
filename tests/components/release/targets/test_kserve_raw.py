"""What is peculiar to KServe in mode Standard; the rest is in `test_targets.py`."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from components.release.targets import kserve_raw, rollout
from components.release.targets.kserve import NEWEST, notes
from nightshift.local import endpoint
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.serving import options
from nightshift.serving.__main__ import parser
from nightshift_testkit.cluster.kinds import DEPLOYMENT, LIMITS, QUOTA, Json, ResourceKind
from tests.components.release.targets.kserve_raw import NAME, StandardControllers, platform
from tests.components.release.targets.versions import Fleet


@pytest.fixture(scope="module")
def module(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandardControllers]:
    with platform(fleet, tmp_path_factory.mktemp("standard")) as controllers:
        yield controllers


@pytest.fixture
def cluster(module: StandardControllers) -> StandardControllers:
    module.clear()
    module.counted.clear()
    return module


def deployment(cluster: StandardControllers) -> Json:
    return cluster.api.store.get(DEPLOYMENT, NAME, "nightshift")


@contextmanager
def bounded(cluster: StandardControllers, kind: ResourceKind, spec: Json) -> Iterator[None]:
    """Have the namespace bounded for a while."""
    meta = {"name": "bound", "namespace": "nightshift"}
    cluster.cluster.apply({"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec})
    try:
        yield
    finally:
        cluster.api.operations.delete(kind, "bound", "nightshift")


def interrupted(_: float) -> None:
    raise InterruptedError


def test_pods_are_replaced_one_at_a_time_beside_the_others_and_end_when_nobody_asks_them_any_more(
    cluster: StandardControllers, fleet: Fleet
) -> None:
    rollout(cluster.target(), fleet.split(v1=1))
    predictor, spec = cluster.objects[0]["spec"]["predictor"], deployment(cluster)["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert [predictor[name] for name in ("minReplicas", "maxReplicas", "scaleMetric", "scaleTarget")] == [
        2,
        4,
        "cpu",
        70,
    ]
    (container,) = predictor["containers"]
    drained = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 5 < drained < predictor["terminationGracePeriodSeconds"] - 5  # the server's own grace
    assert [port["containerPort"] for port in container["ports"]] == [endpoint.PORT] == [kserve_raw.PORT]


def test_the_server_understands_what_its_container_is_given(
    cluster: StandardControllers, fleet: Fleet, tmp_path: Path
) -> None:
    rollout(cluster.target(), fleet.split(v1=1))
    (container,) = cluster.objects[0]["spec"]["predictor"]["containers"]
    token = tmp_path / "token"
    token.write_text("something")
    words = [str(token) if word == kserve_raw.TOKEN else word for word in container["args"]]
    settings = options.read(parser().parse_args(words), {})
    assert (settings.model, settings.port) == ("s3://registry/features/1", endpoint.PORT)
    assert settings.token
    assert settings.token.admits(b"Bearer something")


def test_it_is_not_there_before_the_pods_of_this_change_are_and_no_others(
    cluster: StandardControllers, fleet: Fleet
) -> None:
    """Until then KServe repeats that the version before was ready."""
    rollout(cluster.target(), fleet.split(v1=1))
    reported = []

    def watched(seconds: float) -> None:
        status = deployment(cluster)["status"]
        reported.append((cluster.objects[0]["status"]["conditions"][0]["status"], status["updatedReplicas"]))
        cluster.pass_time(seconds)

    cluster.waiting(watched).apply(fleet.split(v2=1))
    assert reported[:2] == [("True", 2), ("True", 1)]
    status = deployment(cluster)["status"]
    assert status["replicas"] == status["updatedReplicas"] == status["availableReplicas"] == 2


def test_what_is_left_of_an_object_that_was_deleted_is_not_taken_for_that_of_the_new_one(
    cluster: StandardControllers, fleet: Fleet
) -> None:
    rollout(cluster.target(), fleet.split(v1=1))
    cluster.api.operations.delete(cluster.services, "fraud", "nightshift")
    rollout(cluster.target(), fleet.split(v1=1))
    assert deployment(cluster)["metadata"]["ownerReferences"][0]["uid"] == cluster.objects[0]["metadata"]["uid"]


def test_somebody_elses_deployment_of_our_name_is_refused_and_left_alone(
    cluster: StandardControllers, fleet: Fleet
) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x:1"}]}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    meta = {"name": NAME, "namespace": "nightshift"}
    cluster.cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    with pytest.raises(UserError, match=r"Deployment 'fraud-predictor' exists and is not KServe's"):
        rollout(cluster.target(), fleet.split(v1=1))
    assert cluster.counted.changes == []


@pytest.mark.slow
def test_a_version_whose_pods_find_no_room_waits_and_is_not_taken_back(
    cluster: StandardControllers, fleet: Fleet
) -> None:
    full = {"hard": {"count/inferenceservices.serving.kserve.io": "0"}}
    message = "create inferenceservices .*exceeded quota"
    with bounded(cluster, QUOTA, full), pytest.raises(UnavailableError, match=message):
        rollout(cluster.target(), fleet.split(v1=1))
    rollout(cluster.target(), fleet.split(v1=1))
    with bounded(cluster, QUOTA, {"hard": {"pods": "0"}}):
        with pytest.raises(UnavailableError, match=r"pods .* is forbidden: exceeded quota: bound, .*; run it again"):
            rollout(cluster.target(), fleet.split(v2=1), fleet.split(v1=1))
        assert notes(cluster.objects[0])[NEWEST].startswith("2:")  # nothing is taken back
        with pytest.raises(InterruptedError):
            cluster.waiting(interrupted).apply(fleet.split(v1=1))
        assert notes(cluster.objects[0])[NEWEST].startswith("1:")  # unless it is asked for, without a wait before it
    rollout(cluster.target(), fleet.split(v2=1), fleet.split(v1=1))
    assert cluster.target().serving() == {2: 1}


def test_what_the_namespace_does_not_allow_is_the_users_mistake_and_no_versions(
    cluster: StandardControllers, fleet: Fleet
) -> None:
    refused = "gets no pods in 'nightshift', whatever the version: .*pods .* is forbidden: "
    cluster.adds = {"hostNetwork": True}
    with pytest.raises(UserError, match=f'{refused}violates PodSecurity "baseline:latest"') as security:
        rollout(cluster.target(), fleet.split(v1=1))
    cluster.adds = {}
    rollout(cluster.target(), fleet.split(v1=1))
    limits = {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}
    with bounded(cluster, LIMITS, limits), pytest.raises(UserError, match=f"{refused}maximum memory usage") as limit:
        cluster.target().apply(fleet.split(v2=1))
    rollout(cluster.target(), fleet.split(v1=1))
    assert cluster.target().serving() == {1: 1}
    assert {type(security.value), type(limit.value)} == {UserError}


def test_ours_that_somebody_has_changed_is_made_what_it_should_be(cluster: StandardControllers, fleet: Fleet) -> None:
    rollout(cluster.target(), fleet.split(v1=1))
    cluster.edit(lambda value: value["spec"]["predictor"]["containers"][0].update(image="another"))
    rollout(cluster.target(), fleet.split(v1=1))
    assert cluster.objects[0]["spec"]["predictor"]["containers"][0]["image"] == cluster.settings.image
    assert cluster.target().serving() == {1: 1}


def test_a_replica_with_a_gpu_is_scheduled_where_there_is_one(cluster: StandardControllers, fleet: Fleet) -> None:
    rollout(cluster.target(**cluster.gpu), fleet.split(v1=1))
    predictor = cluster.objects[0]["spec"]["predictor"]
    limits = {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1"}
    assert predictor["containers"][0]["resources"]["limits"] == limits
    assert predictor["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    with pytest.raises(UserError, match=r"state\.serving\.gpus is 2; a replica.s server uses 0 or 1"):
        dataclasses.replace(cluster.settings, gpus=2)
