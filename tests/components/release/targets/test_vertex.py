"""Releases on Vertex AI: the library's own clients and messages, against the server of `vertex_ai.py`."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from components.release.targets import BadVersionError, VersionShare, rollout
from components.release.targets.vertex import Clients, Place, Vertex
from nightshift.errors import UnavailableError, UserError
from tests.components.release.targets.versions import Fleet, downloaded, killed_everywhere, killed_on_the_way

pytest.importorskip("google.cloud.aiplatform_v1", reason="google-cloud-aiplatform is not installed")

import grpc
from google.cloud import aiplatform_v1 as api

from tests.components.release.targets.vertex_ai import PARENT, VertexAI, _RefusedError, clients, vertex_ai

PLACE = Place("shop", "us-central1", "registry.example.com/nightshift/serving:0.2.0", "serving@shop.example.com")


class Project:
    """What there is, and the target that is there."""

    def __init__(self, there: VertexAI, connected: Clients) -> None:
        self.there, self.clients = there, connected

    def target(self, name: str = "fraud") -> Vertex:
        return Vertex(name, PLACE, self.clients, self.there.pause)

    @property
    def shares(self) -> dict[int, float]:
        return self.target().serving()


@pytest.fixture(scope="module")
def server(fleet: Fleet) -> Iterator[Project]:
    with vertex_ai(fleet) as found:
        yield Project(*found)


@pytest.fixture
def project(server: Project) -> Project:
    server.there.clear()
    return server


def test_versions_come_and_go_by_percentages_and_nothing_of_the_old_ones_stays(
    project: Project, versions: Fleet
) -> None:
    before: list[VersionShare] = []
    for wanted, shares in (
        (versions.parts(v1=1), {1: 1}),
        (versions.parts(v1=0.75, v2=0.25), {1: 0.75, 2: 0.25}),
        (versions.parts(v2=1), {2: 1}),
    ):
        rollout(project.target(), wanted, before)
        assert project.shares == shares
        answered = Counter(_answers(project, versions))
        assert {number: answered[number] for number in shares} == {key: 100 * part for key, part in shares.items()}
        before = wanted
    state = project.there.state()
    assert len(state["models"]) == 1 and state["models"][0].startswith("fraud-v2-")
    assert list(state["endpoints"]["fraud"]) == state["models"]

    project.target().clean(())
    assert project.there.state() == {"models": [], "endpoints": {}}


def _answers(project: Project, fleet: Fleet) -> Iterator[int]:
    """Which version answers, 100 times."""
    project.there.answered.clear()
    scores = {round(part.score, 6): part.version.version for part in fleet.parts(v1=0.5, v2=0.5)}
    asked = {"endpoint": f"{PARENT}/endpoints/fraud", "instances": fleet.parts(v1=1)[0].request["instances"]}
    request = api.PredictRequest.from_json(json.dumps(asked))
    for _ in range(100):
        answer = project.clients.predictions.predict(request=request)
        yield scores[round(answer.predictions[0]["score"], 6)]


def test_a_larger_percentage_is_one_call_and_no_change_is_none(project: Project, fleet: Fleet) -> None:
    rollout(project.target(), fleet.parts(v1=0.95, v2=0.05))
    for changes in (["UpdateEndpoint"], []):
        project.there.counted.calls.clear()
        rollout(project.target(), fleet.parts(v1=0.75, v2=0.25))
        assert project.there.counted.changes == changes


@pytest.mark.parametrize("how", ["broken", "wrong"])
def test_a_version_that_does_not_start_or_answers_wrongly_leaves_what_was_there(
    project: Project, fleet: Fleet, how: str
) -> None:
    bad: list[VersionShare] = getattr(fleet, how)()
    said = {"broken": "Vertex AI refuses: .*exit_code: 2", "wrong": "where its files score 0.123"}[how]
    with pytest.raises(UserError, match=said):
        rollout(project.target(), bad)
    assert project.there.state() == {"models": [], "endpoints": {}}

    rollout(project.target(), fleet.parts(v1=1))
    before = project.there.state()
    with pytest.raises(UserError, match=said):
        rollout(project.target(), bad, fleet.parts(v1=1))
    assert project.there.state() == before


def unavailable() -> bytes:
    raise _RefusedError(grpc.StatusCode.UNAVAILABLE, "the container answers 503")


def test_a_version_that_starts_and_gives_no_answer_leaves_what_was_there(project: Project, fleet: Fleet) -> None:
    rollout(project.target(), fleet.parts(v1=1))
    before = project.there.state()
    said = r"version 3 has not answered any of 80 requests.* answers 503"
    with fleet.silent(unavailable) as bad, pytest.raises(BadVersionError, match=said):
        both = [*fleet.parts(v1=0.75), dataclasses.replace(bad[0], traffic=0.25)]
        rollout(project.target(), both, fleet.parts(v1=1))
    assert project.there.state() == before


def test_behind_a_tracking_server_a_container_reads_where_that_keeps_its_files(project: Project, fleet: Fleet) -> None:
    part = downloaded(fleet)
    place = dataclasses.replace(PLACE, artifacts="gs://bucket/mlflow")
    content = Vertex("fraud", place, project.clients)._content(part)
    assert content["artifact_uri"] == "gs://bucket/mlflow/1/abc/artifacts/model"
    with pytest.raises(UserError, match=r"state\.registry.*state\.serving\.artifacts"):
        project.target().apply([part])


def test_a_version_gets_requests_only_once_it_has_started(project: Project, fleet: Fleet) -> None:
    rollout(project.target(), fleet.parts(v1=1))
    shares = []

    def watched(seconds: float) -> None:
        project.there.pause(seconds)
        shares.append(project.shares)

    rollout(Vertex("fraud", PLACE, project.clients, watched), fleet.parts(v2=1), fleet.parts(v1=1))
    assert shares[0] == {1: 1}  # while it is uploaded and started
    assert shares[-1] == {2: 1}  # when the other one is taken away
    assert all(each in ({1: 1}, {2: 1}) for each in shares)


def test_killed_before_any_call_it_is_brought_about_by_the_next_process(project: Project, fleet: Fleet) -> None:
    steps = [fleet.parts(v1=1), fleet.parts(v1=0.75, v2=0.25), fleet.parts(v1=0.5, v2=0.5), fleet.parts(v2=1), []]
    killed = killed_on_the_way(
        steps,
        project.target,
        lambda act: killed_everywhere(project.there.counted, act, project.there.saved(), project.there.state),
    )
    assert killed > 60
    assert project.there.state() == {"models": [], "endpoints": {}}


def test_killed_while_a_bad_version_is_tried_the_next_process_puts_everything_back(
    project: Project, fleet: Fleet
) -> None:
    rollout(project.target(), fleet.parts(v1=1))
    before = project.there.state()

    def act() -> None:
        with pytest.raises(UserError, match="exit_code: 2"):
            rollout(project.target(), fleet.broken(), fleet.parts(v1=1))

    assert killed_everywhere(project.there.counted, act, project.there.saved(), project.there.state) > 10
    assert project.there.state() == before


def test_what_bears_the_name_and_is_not_ours_is_refused_and_left_alone(project: Project, fleet: Fleet) -> None:
    rollout(project.target(), fleet.parts(v1=1))
    (name,) = project.there.models
    (endpoint,) = project.there.endpoints.values()
    restore = project.there.saved()

    def refused(said: str) -> None:
        before = project.there.state()
        for act in (lambda: rollout(project.target(), fleet.parts(v2=1)), lambda: project.target().clean(())):
            with pytest.raises(UserError, match=said):
                act()
        assert project.there.state() == before

    endpoint.labels = {"team": "somebody"}
    refused("endpoint 'fraud' exists and has no label nightshift=fraud")

    restore()
    (endpoint,) = project.there.endpoints.values()
    endpoint.deployed_models.append(api.DeployedModel(id="7", model=f"{PARENT}/models/fraud-vendor"))
    refused("endpoint 'fraud' has model 'fraud-vendor' deployed as 7; undeploy it")

    restore()
    project.there.endpoints.clear()
    project.there.models[name].container_spec.image_uri = "another"
    with pytest.raises(UserError, match=r"model 'fraud-v1-\w+' exists with other content"):
        project.target().apply(fleet.parts(v1=1))
    assert project.there.models[name].container_spec.image_uri == "another"


def test_another_use_case_whose_name_begins_alike_and_somebody_elses_models_stay(
    project: Project, fleet: Fleet
) -> None:
    rollout(project.target("fraud-v2"), fleet.parts(v1=1))
    theirs = api.Model(name=f"{PARENT}/models/fraud-v9-theirs", labels={"team": "somebody"})
    project.there.models[theirs.name] = theirs
    before = project.there.state()
    rollout(project.target(), fleet.parts(v1=0.5, v2=0.5))
    project.target().clean(())
    assert project.there.state() == before
    assert project.target("fraud-v2").serving() == {1: 1}


def test_what_cannot_be_brought_about_is_said(project: Project, fleet: Fleet) -> None:
    with pytest.raises(UserError, match=r"release\.shares holds 0\.125; Vertex AI takes whole percentages"):
        project.target().apply(fleet.parts(v1=0.875, v2=0.125))
    with pytest.raises(UnavailableError, match=r"has not ended .*/endpoints/fraud/operations/0 yet; run it again"):
        Vertex("fraud", PLACE, project.clients, lambda _: None).apply(fleet.parts(v1=1))
    with grpc.insecure_channel("127.0.0.1:9") as nowhere, pytest.raises(UnavailableError, match=r"Vertex AI: 503 .*"):
        Vertex("fraud", PLACE, clients(nowhere), project.there.pause).apply(fleet.parts(v1=1))


def test_who_has_changed_the_endpoint_meanwhile_is_not_overwritten(project: Project, fleet: Fleet) -> None:
    rollout(project.target(), fleet.parts(v1=0.5, v2=0.5))
    target = project.target()
    found = target._standing()
    target.apply(fleet.parts(v1=0.75, v2=0.25))
    with pytest.raises(UnavailableError, match="the endpoint has changed; run it again"):
        target._divide(found, dict(zip(found.traffic_split, (90, 10), strict=True)))
    assert project.shares == {1: 0.75, 2: 0.25}


def test_a_machine_with_a_gpu_has_the_server_use_it(project: Project, fleet: Fleet) -> None:
    place = dataclasses.replace(PLACE, machine="g2-standard-4", accelerator="NVIDIA_L4")
    rollout(Vertex("fraud", place, project.clients, project.there.pause), fleet.parts(v1=1))
    endpoint = project.clients.endpoints.get_endpoint(name=f"{PARENT}/endpoints/fraud")
    (deployed,) = endpoint.deployed_models
    machine = deployed.dedicated_resources.machine_spec
    wanted = ("g2-standard-4", api.AcceleratorType.NVIDIA_L4, 1)
    assert (machine.machine_type, machine.accelerator_type, machine.accelerator_count) == wanted
    model = project.clients.models.get_model(name=deployed.model)
    assert list(model.container_spec.args)[-2:] == ["--device", "cuda"]
