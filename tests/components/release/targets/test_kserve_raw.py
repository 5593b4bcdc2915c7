"""Releases on KServe in mode Standard: real calls to the stand-in of a cluster, objects checked against definitions."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from components.release.targets import BadVersionError, VersionShare, files, kserve, rollout
from components.release.targets.kserve_raw import RawDeploymentSettings
from components.release.targets.kserve_raw import Standard as Target
from nightshift.errors import UnavailableError, UserError
from nightshift.local import endpoint
from nightshift.serving import options
from nightshift.serving.__main__ import parser
from tests.cluster.cluster import CRDS, Cluster, running
from tests.cluster.kinds import DEPLOYMENT, Json
from tests.cluster.runtimes import ProcessRuntime
from tests.components.release.targets.kserve import Serving, blames_no_version, furnish, waits_for_room
from tests.components.release.targets.kserve_raw import NAME, Standard
from tests.components.release.targets.versions import Fleet, down, killed_everywhere, page

PLACE = RawDeploymentSettings(
    "nightshift", "registry.example.com/nightshift/serving:0.2.0", "serving", "nightshift-serving"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not CRDS.exists():
        pytest.skip(f"{CRDS} is missing")
    with running(ProcessRuntime(), tmp_path_factory.mktemp("cluster"), CRDS, acts=False) as found:
        furnish(found)
        yield found


@pytest.fixture
def serving(cluster: Cluster, fleet: Fleet, tmp_path: Path) -> Iterator[Serving]:
    with config.new_client_from_config(str(cluster.config(tmp_path / "config"))) as connection:
        standard = Standard(cluster.api, fleet)
        yield Serving(cluster, client.CustomObjectsApi(connection), standard, Target, PLACE)
        standard.clear()


def deployment(serving: Serving) -> Json:
    return serving.cluster.api.store.get(DEPLOYMENT, NAME, "nightshift")


def test_a_version_takes_over_and_goes_back_and_nothing_is_written_twice(serving: Serving, versions: Fleet) -> None:
    for parts, version in ((versions.parts(v1=1), 1), (versions.parts(v2=1), 2), (versions.parts(v1=1), 1)):
        rollout(serving.target(), parts)
        assert serving.target().serving() == {version: 1.0}
        serving.counted.calls.clear()
        rollout(serving.target(), parts)
        assert serving.counted.changes == []
    serving.target().clean(())
    assert serving.objects == [] and serving.target().serving() == {}


def test_pods_are_replaced_one_at_a_time_beside_the_others_and_end_when_nobody_asks_them_any_more(
    serving: Serving, fleet: Fleet
) -> None:
    rollout(serving.target(), fleet.parts(v1=1))
    predictor, made = serving.objects[0]["spec"]["predictor"], deployment(serving)["spec"]
    assert made["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert [predictor[name] for name in ("minReplicas", "maxReplicas", "scaleMetric", "scaleTarget")] == [
        2,
        4,
        "cpu",
        70,
    ]
    (container,) = predictor["containers"]
    drained = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 5 < drained < predictor["terminationGracePeriodSeconds"] - 5  # the server's own grace
    assert [each["containerPort"] for each in container["ports"]] == [endpoint.PORT] == [kserve.PORT]


def test_the_server_understands_what_its_container_is_given(serving: Serving, fleet: Fleet, tmp_path: Path) -> None:
    rollout(serving.target(), fleet.parts(v1=1))
    (container,) = serving.objects[0]["spec"]["predictor"]["containers"]
    token = tmp_path / "token"
    token.write_text("something")
    given = [str(token) if word == kserve.TOKEN else word for word in container["args"]]
    found = options.read(parser().parse_args(given), {})
    assert (found.model, found.port) == ("s3://registry/features/1", endpoint.PORT)
    assert found.token
    assert found.token.admits(b"Bearer something")


def test_it_is_not_there_before_the_pods_of_this_change_are_and_no_others(serving: Serving, fleet: Fleet) -> None:
    """Until then KServe repeats that the version before was ready."""
    rollout(serving.target(), fleet.parts(v1=1))
    said = []

    def watched(seconds: float) -> None:
        status = deployment(serving)["status"]
        said.append((serving.objects[0]["status"]["conditions"][0]["status"], status["updatedReplicas"]))
        serving.controller.pause(seconds)

    serving.target(watched).apply(fleet.parts(v2=1))
    assert said[:2] == [("True", 2), ("True", 1)]
    status = deployment(serving)["status"]
    assert status["replicas"] == status["updatedReplicas"] == status["availableReplicas"] == 2


@pytest.mark.parametrize("how", ["broken", "wrong"])
def test_a_version_that_does_not_start_or_answers_wrongly_is_taken_back(
    serving: Serving, fleet: Fleet, how: str
) -> None:
    bad: list[VersionShare] = getattr(fleet, how)()
    said = {"broken": "has timed out progressing", "wrong": "where its files score 0.123"}[how]
    with pytest.raises(UserError, match=said):
        rollout(serving.target(), bad)
    assert serving.objects == []

    rollout(serving.target(), fleet.parts(v1=1))
    for _ in range(2):
        with pytest.raises(UserError, match=said):
            rollout(serving.target(), bad, fleet.parts(v1=1))
        assert serving.target().serving() == {1: 1}


@pytest.mark.parametrize("answer", [down, page])
def test_a_version_that_starts_and_gives_no_answer_is_taken_back(
    serving: Serving, fleet: Fleet, answer: Callable[[], bytes]
) -> None:
    rollout(serving.target(), fleet.parts(v1=1))
    with fleet.silent(answer) as bad, pytest.raises(BadVersionError, match="version 3 does not answer: "):
        rollout(serving.target(), bad, fleet.parts(v1=1))
    assert serving.target().serving() == {1: 1}


def test_a_version_whose_pods_find_no_room_waits_and_is_not_taken_back(serving: Serving, fleet: Fleet) -> None:
    waits_for_room(serving, fleet)


def test_what_the_namespace_does_not_allow_is_the_users_mistake_and_no_versions(serving: Serving, fleet: Fleet) -> None:
    blames_no_version(serving, fleet)


def test_killed_before_any_call_it_is_brought_about_by_the_next_process(serving: Serving, fleet: Fleet) -> None:
    for before, wanted in (([], fleet.parts(v1=1)), (fleet.parts(v1=1), fleet.parts(v2=1))):
        killed_everywhere(
            serving.counted,
            lambda wanted=wanted, before=before: rollout(serving.target(), wanted, before),
            serving.controller.saved(),
            serving.state,
        )
    assert serving.target().serving() == {2: 1}


def test_killed_while_a_bad_version_is_tried_the_next_process_puts_everything_back(
    serving: Serving, fleet: Fleet
) -> None:
    rollout(serving.target(), fleet.parts(v1=1))

    def act() -> None:
        with pytest.raises(UserError):
            rollout(serving.target(), fleet.broken(), fleet.parts(v1=1))

    assert killed_everywhere(serving.counted, act, serving.controller.saved(), serving.state) > 10
    with fleet.silent(down):
        assert killed_everywhere(serving.counted, act, serving.controller.saved(), serving.state) > 10
    assert serving.target().serving() == {1: 1}


def foreign_object() -> Json:
    predictor = {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://somebody/model"}}
    return named("serving.kserve.io/v1beta1", "InferenceService", "fraud", {"predictor": predictor})


def foreign_deployment() -> Json:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x:1"}]}}
    return named("apps/v1", "Deployment", NAME, {"selector": {"matchLabels": {"app": "x"}}, "template": template})


def named(version: str, kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "nightshift"}, "spec": spec
    }  # fmt: skip


@pytest.mark.parametrize("foreign", [foreign_object, foreign_deployment])
def test_what_bears_the_name_and_is_not_ours_is_refused_and_left_alone(
    serving: Serving, fleet: Fleet, foreign: Callable[[], Json]
) -> None:
    serving.cluster.apply(foreign())
    with pytest.raises(UserError, match=r"'fraud.*' exists and"):
        rollout(serving.target(), fleet.parts(v1=1))
    assert serving.counted.changes == []


def test_what_is_left_of_an_object_that_was_deleted_is_not_taken_for_that_of_the_new_one(
    serving: Serving, fleet: Fleet
) -> None:
    rollout(serving.target(), fleet.parts(v1=1))
    serving.cluster.api.operations.delete(serving.controller.kind, "fraud", "nightshift")
    rollout(serving.target(), fleet.parts(v1=1))
    assert deployment(serving)["metadata"]["ownerReferences"][0]["uid"] == serving.objects[0]["metadata"]["uid"]


def test_ours_that_somebody_has_changed_is_made_what_it_should_be(serving: Serving, fleet: Fleet) -> None:
    rollout(serving.target(), fleet.parts(v1=1))
    serving.edit(lambda found: found["spec"]["predictor"]["containers"][0].update(image="another"))
    rollout(serving.target(), fleet.parts(v1=1))
    assert deployment(serving)["spec"]["template"]["spec"]["containers"][0]["image"] == PLACE.image


def test_what_does_not_become_ready_is_said_and_so_is_what_no_container_can_read(
    serving: Serving, fleet: Fleet
) -> None:
    with pytest.raises(UnavailableError, match="'fraud' does not become ready"):
        serving.target(lambda _: None).apply(fleet.parts(v1=1))
    for uri in ("mlflow-artifacts:/1/abc/artifacts/model", "/lustre/registry/1"):
        version = dataclasses.replace(fleet.parts(v1=1)[0].version, source=uri)
        with pytest.raises(UserError, match=r"where no container reads them; .* give state\.serving\.artifacts"):
            files(version, "")


def test_a_replica_with_a_gpu_has_the_server_use_it(serving: Serving, fleet: Fleet) -> None:
    place = dataclasses.replace(PLACE, gpus=1)
    serving.place = place
    rollout(serving.target(), fleet.parts(v1=1))
    predictor = serving.objects[0]["spec"]["predictor"]
    (container,) = predictor["containers"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1"}
    assert predictor["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert parser().parse_args(container["args"]).device == "cuda"


def test_more_gpus_than_the_server_uses_are_refused() -> None:
    with pytest.raises(UserError, match=r"state\.serving\.gpus is 2; the server uses one: give 0 or 1"):
        dataclasses.replace(PLACE, gpus=2)
