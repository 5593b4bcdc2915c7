"""Releases on Knative: real calls to the stand-in of a cluster, objects checked against KServe's own definition."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from components.release.targets import BadVersionError, VersionShare, rollout
from components.release.targets.knative import Knative
from components.release.targets.kserve import Place
from nightshift.errors import UnavailableError, UserError
from tests.cluster.cluster import CRDS, Cluster, running
from tests.cluster.kinds import Json
from tests.cluster.runtimes import ProcessRuntime
from tests.components.release.targets.knative import Knative as Stood
from tests.components.release.targets.kserve import Serving, blames_no_version, furnish, waits_for_room
from tests.components.release.targets.versions import Fleet, down, killed_everywhere, killed_on_the_way, page

PLACE = Place("nightshift", "registry.example.com/nightshift/serving:0.2.0", "serving", "serving-token")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not CRDS.exists():
        pytest.skip(f"{CRDS} is missing")
    with running(ProcessRuntime(), tmp_path_factory.mktemp("cluster"), CRDS) as found:
        furnish(found)
        yield found


@pytest.fixture
def serving(cluster: Cluster, fleet: Fleet, tmp_path: Path) -> Iterator[Serving]:
    with config.new_client_from_config(str(cluster.config(tmp_path / "config"))) as connection:
        knative = Stood(cluster.api, fleet)
        yield Serving(cluster, client.CustomObjectsApi(connection), knative, Knative, PLACE)
        knative.clear()


def test_a_release_goes_through_its_shares_to_one_version_and_back(serving: Serving, versions: Fleet) -> None:
    steps = [
        (versions.parts(v1=1), {1: 1}),
        (versions.parts(v1=0.95, v2=0.05), {1: 0.95, 2: 0.05}),
        (versions.parts(v1=0.5, v2=0.5), {1: 0.5, 2: 0.5}),
        (versions.parts(v2=1), {2: 1}),
        (versions.parts(v2=0.75, v1=0.25), {2: 0.75, 1: 0.25}),
        (versions.parts(v1=0.75, v2=0.25), {1: 0.75, 2: 0.25}),  # as after a promotion by hand
        (versions.parts(v2=1), {2: 1}),
    ]
    for parts, shares in steps:
        rollout(serving.target(), parts)
        assert serving.target().serving() == shares
        serving.counted.calls.clear()
        rollout(serving.target(), parts)
        assert serving.counted.changes == []
    assert "canaryTrafficPercent" not in serving.objects[0]["spec"]["predictor"]
    serving.target().clean(())
    assert serving.objects == []


def test_a_larger_share_makes_no_new_revision(serving: Serving, fleet: Fleet) -> None:
    rollout(serving.target(), fleet.parts(v1=0.95, v2=0.05))
    before = serving.objects[0]["status"]["components"]["predictor"]["latestCreatedRevision"]
    for parts in (fleet.parts(v1=0.75, v2=0.25), fleet.parts(v2=1)):
        serving.counted.calls.clear()
        rollout(serving.target(), parts)
        assert serving.counted.changes == ["replace_namespaced_custom_object"]
    assert serving.objects[0]["status"]["components"]["predictor"]["latestCreatedRevision"] == before


@pytest.mark.parametrize("how", ["broken", "wrong"])
def test_a_version_that_does_not_start_or_answers_wrongly_never_gets_a_request(
    serving: Serving, fleet: Fleet, how: str
) -> None:
    bad: list[VersionShare] = getattr(fleet, how)()
    said = {"broken": "exited with code 2", "wrong": "where its files score 0.123"}[how]
    with pytest.raises(UserError, match=said):
        rollout(serving.target(), bad)
    assert serving.objects == []

    rollout(serving.target(), fleet.parts(v1=1))
    shares = []
    pause = serving.controller.pause

    def watched(seconds: float) -> None:
        pause(seconds)
        shares.append(serving.target().serving())

    endpoint = serving.target(watched)
    with pytest.raises(UserError, match=said):
        rollout(endpoint, bad, fleet.parts(v1=1))
    assert serving.target().serving() == {1: 1}
    assert all(set(each) <= {1} for each in shares)


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
    steps = [fleet.parts(v1=1), fleet.parts(v1=0.95, v2=0.05), fleet.parts(v1=0.5, v2=0.5), fleet.parts(v2=1)]
    killed = killed_on_the_way(
        steps,
        serving.target,
        lambda act: killed_everywhere(serving.counted, act, serving.controller.saved(), serving.state),
    )
    assert killed > 20
    assert serving.target().serving() == {2: 1}


def test_killed_while_a_bad_version_is_tried_the_next_process_puts_everything_back(
    serving: Serving, fleet: Fleet
) -> None:
    rollout(serving.target(), fleet.parts(v1=1))

    def act() -> None:
        with pytest.raises(UserError):
            rollout(serving.target(), fleet.broken(), fleet.parts(v1=1))

    assert killed_everywhere(serving.counted, act, serving.controller.saved(), serving.state) > 10
    assert serving.target().serving() == {1: 1}


def test_what_bears_the_name_and_is_not_ours_is_refused_and_left_alone(serving: Serving, fleet: Fleet) -> None:
    spec = {"predictor": {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://somebody/model"}}}
    meta = {"name": "fraud", "namespace": "nightshift"}
    serving.cluster.apply(
        {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": meta, "spec": spec}
    )
    for act in (lambda: rollout(serving.target(), fleet.parts(v1=1)), lambda: serving.target().clean(())):
        with pytest.raises(UserError, match="'fraud' exists and has no annotation nightshift/use-case=fraud"):
            act()
    assert [value["spec"] for value in serving.objects] == [spec]


def test_ours_that_somebody_has_changed_is_made_what_it_should_be(serving: Serving, fleet: Fleet) -> None:
    rollout(serving.target(), fleet.parts(v1=1))

    def edit(found: Json) -> None:
        found["spec"]["predictor"]["containers"][0]["image"] = "another"

    serving.edit(edit)
    rollout(serving.target(), fleet.parts(v1=1))
    assert serving.objects[0]["spec"]["predictor"]["containers"][0]["image"] == PLACE.image
    assert serving.target().serving() == {1: 1}


def test_what_cannot_be_brought_about_is_said(serving: Serving, fleet: Fleet) -> None:
    with pytest.raises(UserError, match=r"release\.shares holds 0\.125; KServe takes whole percentages"):
        serving.target().apply(fleet.parts(v1=0.875, v2=0.125))
    endpoint = serving.target(lambda _: None)
    with pytest.raises(UnavailableError, match="'fraud' does not become ready"):
        endpoint.apply(fleet.parts(v1=1))

    def edit(found: Json) -> None:
        found["status"] = {"deploymentMode": "Standard"}

    serving.edit(edit)
    with pytest.raises(UserError, match=r"is in mode Standard, and state\.serving\.kind means Knative"):
        serving.target().apply(fleet.parts(v1=1))
