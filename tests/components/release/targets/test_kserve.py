"""What is peculiar to KServe, whatever its mode; the rest is in `test_targets.py`."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from components.release.targets import rollout
from components.release.targets.kserve import NEWEST, notes
from nightshift.errors import UnavailableError, UserError
from tests.cluster.kinds import LIMITS, QUOTA, Json, Kind
from tests.components.release.targets import knative, kserve_raw
from tests.components.release.targets.kserve import Controllers
from tests.components.release.targets.versions import Fleet


@pytest.fixture(scope="module", params=[knative, kserve_raw])
def module(
    request: pytest.FixtureRequest, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controllers]:
    with request.param.platform(fleet, tmp_path_factory.mktemp("kserve")) as controllers:
        yield controllers


@pytest.fixture
def cluster(module: Controllers) -> Controllers:
    module.clear()
    return module


@contextmanager
def bounded(cluster: Controllers, kind: Kind, spec: Json) -> Iterator[None]:
    """Have the namespace bounded for a while."""
    meta = {"name": "bound", "namespace": "nightshift"}
    cluster.cluster.apply({"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec})
    try:
        yield
    finally:
        cluster.api.operations.delete(kind, "bound", "nightshift")


def interrupted(_: float) -> None:
    raise InterruptedError


@pytest.mark.slow
def test_a_version_whose_pods_find_no_room_waits_and_is_not_taken_back(cluster: Controllers, fleet: Fleet) -> None:
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
    cluster: Controllers, fleet: Fleet
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


def test_ours_that_somebody_has_changed_is_made_what_it_should_be(cluster: Controllers, fleet: Fleet) -> None:
    rollout(cluster.target(), fleet.split(v1=1))
    cluster.edit(lambda value: value["spec"]["predictor"]["containers"][0].update(image="another"))
    rollout(cluster.target(), fleet.split(v1=1))
    assert cluster.objects[0]["spec"]["predictor"]["containers"][0]["image"] == cluster.settings.image
    assert cluster.target().serving() == {1: 1}


def test_a_replica_with_a_gpu_is_scheduled_where_there_is_one(cluster: Controllers, fleet: Fleet) -> None:
    rollout(cluster.target(**cluster.gpu), fleet.split(v1=1))
    predictor = cluster.objects[0]["spec"]["predictor"]
    limits = {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1"}
    assert predictor["containers"][0]["resources"]["limits"] == limits
    assert predictor["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    with pytest.raises(UserError, match=r"state\.serving\.gpus is 2; a replica.s server uses 0 or 1"):
        dataclasses.replace(cluster.settings, gpus=2)
