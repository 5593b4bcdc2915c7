"""What is peculiar to KServe in mode Standard; the rest is in `test_targets.py`."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from components.release.targets import BadVersionError, kserve_raw, rollout
from components.release.targets.kserve import NEWEST
from nightshift.local import endpoint
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.serving import options
from nightshift.serving.__main__ import parser
from nightshift_testkit.cluster.kinds import DEPLOYMENT, LIMITS, QUOTA, Json, ResourceKind
from tests.components.release.targets.kserve_raw import (
    NAME,
    ControllersWithoutGateway,
    StandardControllers,
    platform,
    predictors,
)
from tests.components.release.targets.versions import Fleet
from tests.nightly.kserve_releases import Outcome, simulate


@pytest.fixture(scope="module")
def module(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandardControllers]:
    with platform(fleet, tmp_path_factory.mktemp("standard")) as controllers:
        yield controllers


@pytest.fixture
def cluster(module: StandardControllers) -> StandardControllers:
    module.clear()
    module.counted.clear()
    return module


@pytest.fixture(scope="module")
def without_gateway(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllersWithoutGateway]:
    with ControllersWithoutGateway.running(fleet, tmp_path_factory.mktemp("bare"), acts=False) as controllers:
        yield controllers


def deployment(cluster: StandardControllers, name: str = NAME) -> Json:
    return cluster.api.store.get(DEPLOYMENT, name, "nightshift")


def newest(cluster: StandardControllers) -> list[str]:
    """The versions of the object, the stable predictor's first."""
    (value,) = cluster.objects
    return [predictor["annotations"][NEWEST].partition(":")[0] for predictor in predictors(value["spec"])]


@contextmanager
def bounded(cluster: StandardControllers, kind: ResourceKind, spec: Json) -> Iterator[None]:
    """Have the namespace bounded for a while."""
    meta = {"name": "bound", "namespace": "nightshift"}
    cluster.cluster.apply({"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec})
    try:
        yield
    finally:
        cluster.api.operations.delete(kind, "bound", "nightshift")


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
    assert (settings.model, settings.port) == (kserve_raw.MODEL, endpoint.PORT)
    assert settings.token
    assert settings.token.admits(b"Bearer something")


def test_a_change_of_settings_is_not_there_before_its_pods_are_and_no_others(
    cluster: StandardControllers, fleet: Fleet
) -> None:
    """Until then KServe repeats that the pods before were ready."""
    rollout(cluster.target(), fleet.split(v1=1))
    reported = []

    def watched(seconds: float) -> None:
        status = deployment(cluster)["status"]
        reported.append((cluster.objects[0]["status"]["conditions"][0]["status"], status["updatedReplicas"]))
        cluster.pass_time(seconds)

    cluster.waiting(watched, **cluster.gpu).apply(fleet.split(v1=1))
    assert reported[:2] == [("True", 2), ("True", 1)]
    status = deployment(cluster)["status"]
    assert status["replicas"] == status["updatedReplicas"] == status["availableReplicas"] == 2


def test_a_canary_has_fixed_replicas_and_becomes_the_stable_predictor_without_a_restart(
    cluster: StandardControllers, fleet: Fleet
) -> None:
    rollout(cluster.target(), fleet.split(v1=1))
    rollout(cluster.target(), fleet.split(v1=0.95, v2=0.05))
    (canary,) = cluster.objects[0]["spec"]["canary"]
    assert (canary["predictor"]["name"], canary["predictor"]["minReplicas"], canary["trafficPercent"]) == (
        "version-2", 2, 5,
    )  # fmt: skip
    assert not {"maxReplicas", "scaleMetric", "scaleTarget", "autoScaling"} & canary["predictor"].keys()
    pods = deployment(cluster, "fraud-version-2-predictor")
    rollout(cluster.target(), fleet.split(v2=1))
    spec = cluster.objects[0]["spec"]
    assert (spec["predictor"]["name"], spec["predictor"]["maxReplicas"], "canary" in spec) == ("version-2", 4, False)
    cluster.pass_time(0)
    (stays,) = cluster.deployments
    assert (stays["metadata"]["uid"], stays["spec"]["template"]) == (pods["metadata"]["uid"], pods["spec"]["template"])


def test_no_request_goes_to_pods_that_do_not_start_have_not_been_asked_or_are_gone(
    cluster: StandardControllers, fleet: Fleet
) -> None:
    """KServe deletes a Deployment at once, and the gateway follows the route later."""
    seen: list[set[int]] = []

    def watched(seconds: float) -> None:
        cluster.pass_time(seconds)
        assert all(cluster.is_answering(name) for name in cluster.backends())
        seen.append(set(cluster.shares()))

    champion = fleet.split(v1=1)
    rollout(cluster.waiting(watched), champion)
    for split in (fleet.split(v1=0.5, v2=0.5), champion, fleet.split(v1=0.5, v2=0.5), fleet.split(v2=1), champion):
        rollout(cluster.waiting(watched), split)
        watched(0)
        watched(0)
    assert {1, 2} in seen
    seen.clear()
    for bad in (fleet.broken(), fleet.wrong()):
        bad = dataclasses.replace(bad, traffic=0.5)
        with pytest.raises(BadVersionError):
            rollout(cluster.waiting(watched), [*fleet.split(v1=0.5), bad], champion)
    assert seen and all(shares == {1} for shares in seen)


@pytest.mark.slow
def test_releases_that_end_in_every_way_and_are_killed_at_random_reach_healthy_pods_alone(tmp_path: Path) -> None:
    """More of them: `python -m tests.nightly.kserve_releases`."""
    assert simulate(tmp_path, releases=12, seed=3).keys() == set(Outcome)


def test_without_a_gateway_a_version_replaces_the_pods_of_the_service_once_it_has_been_asked(
    without_gateway: ControllersWithoutGateway, fleet: Fleet
) -> None:
    cluster, champion = without_gateway, fleet.split(v1=1)
    rollout(cluster.target(), champion)
    traffic: list[dict[int, float]] = []
    cluster.counted.watch = lambda: traffic.append(cluster.shares())
    for bad in (fleet.broken(), fleet.wrong()):
        with pytest.raises(BadVersionError):
            rollout(cluster.target(), [bad], champion)
    cluster.counted.watch = None
    assert traffic and all(shares == {1: 1} for shares in traffic)
    rollout(cluster.target(), fleet.split(v2=1), champion)
    assert (newest(cluster), cluster.target().serving(), cluster.shares()) == (["2"], {2: 1}, {2: 1})
    assert "name" not in cluster.objects[0]["spec"]["predictor"]
    with pytest.raises(UserError, match=r"KServe makes no HTTPRoute 'fraud' .*set release\.shares to \[\]"):
        rollout(cluster.target(), fleet.split(v2=0.75, v1=0.25), fleet.split(v2=1))
    assert newest(cluster) == ["2"]


def test_more_replicas_are_asked_of_all_versions_at_once(cluster: StandardControllers, fleet: Fleet) -> None:
    """A canary may have no more than the stable predictor."""
    for target in (cluster.target(min_replicas=1), cluster.target(), cluster.target(min_replicas=1)):
        rollout(target, fleet.split(v2=0.25, v1=0.75))
        rollout(target, fleet.split(v1=0.75, v2=0.25))
    least = [predictor["minReplicas"] for predictor in predictors(cluster.objects[0]["spec"])]
    assert least == [1, 1]


def test_a_name_that_leaves_no_room_for_the_versions_is_named(cluster: StandardControllers, fleet: Fleet) -> None:
    long = cluster.target("f" * 48)
    rollout(long, fleet.split(v1=1))
    with pytest.raises(UserError, match=r"too long for KServe: f+-version-2-predictor has over 58 characters"):
        rollout(long, fleet.split(v2=1))


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
        assert newest(cluster) == ["1", "2"]  # nothing is taken back
        rollout(cluster.target(), fleet.split(v1=1))
        assert newest(cluster) == ["1"]  # unless it is asked for
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
