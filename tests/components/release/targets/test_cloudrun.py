"""Releases on Cloud Run: real requests to the server of `cloud_run.py`, checked against the published types."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from google.auth.exceptions import RefreshError, TransportError

from components.release.targets import BadVersionError, VersionShare, rollout
from components.release.targets.cloudrun import Access, CloudRun, Place
from nightshift.errors import UnavailableError, UserError
from tests.components.release.targets.cloud_run import PARENT, RefusedError, Run, check, cloud_run
from tests.components.release.targets.versions import Fleet, downloaded, killed_everywhere, killed_on_the_way, page

PLACE = Place("shop", "us-central1", "registry.example.com/nightshift/serving:0.2.0", "serving@shop.example.com")
NOTHING: dict[str, Any] = {"services": {}, "revisions": []}


class Project:
    """What there is, and the target that is there."""

    def __init__(self, there: Run, access: Access) -> None:
        self.there, self.access = there, access

    def target(self, name: str = "fraud") -> CloudRun:
        return CloudRun(name, PLACE, self.access, self.there.pause)

    @property
    def service(self) -> dict[str, Any]:
        return self.there.services[f"{PARENT}/services/fraud"]


@pytest.fixture(scope="module")
def server(fleet: Fleet) -> Iterator[Project]:
    with cloud_run(fleet) as found:
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
        (versions.parts(v1=0.95, v2=0.05), {1: 0.95, 2: 0.05}),
        (versions.parts(v1=0.5, v2=0.5), {1: 0.5, 2: 0.5}),
        (versions.parts(v2=1), {2: 1}),
        (versions.parts(v2=0.75, v1=0.25), {2: 0.75, 1: 0.25}),
        (versions.parts(v2=1), {2: 1}),  # as after a rollback
    ):
        rollout(project.target(), wanted, before)
        assert project.target().serving() == shares
        assert len(project.there.revisions) == len(shares)
        project.there.counted.calls.clear()
        rollout(project.target(), wanted, before)
        assert project.there.counted.changes == []
        before = wanted
    project.target().clean(())
    assert project.there.state() == NOTHING


def test_a_larger_percentage_is_one_call_and_makes_no_revision(project: Project, fleet: Fleet) -> None:
    rollout(project.target(), fleet.parts(v1=0.95, v2=0.05))
    before = set(project.there.revisions)
    project.there.counted.calls.clear()
    rollout(project.target(), fleet.parts(v1=0.75, v2=0.25))
    assert project.there.counted.changes == [f"PATCH /v2/{PARENT}/services/fraud"]
    assert set(project.there.revisions) == before


def test_a_version_runs_as_the_place_says_and_may_go_when_nobody_asks(project: Project, fleet: Fleet) -> None:
    (part,) = fleet.parts(v1=1)
    place = dataclasses.replace(PLACE, cpu=2, memory="2Gi", max_replicas=9, concurrency=16)
    rollout(CloudRun("fraud", place, project.access, project.there.pause), [part])
    template = project.service["template"]
    assert template["scaling"] == {"minInstanceCount": 0, "maxInstanceCount": 9}
    assert template["maxInstanceRequestConcurrency"] == 16
    (container,) = template["containers"]
    assert container["resources"] == {"limits": {"cpu": "2", "memory": "2Gi"}, "cpuIdle": True}
    assert container["args"] == ["--model", part.version.uri, "--name", "fraud"]


@pytest.mark.parametrize("how", ["broken", "wrong"])
def test_a_version_that_does_not_start_or_answers_wrongly_never_gets_a_request(
    project: Project, fleet: Fleet, how: str
) -> None:
    bad: list[VersionShare] = getattr(fleet, how)()
    said = {"broken": "Cloud Run refuses: .*failed to start", "wrong": "where its files score 0.123"}[how]
    with pytest.raises(UserError, match=said):
        rollout(project.target(), bad)
    assert project.there.state() == NOTHING

    rollout(project.target(), fleet.parts(v1=1))
    before, shares = project.there.state(), []

    def watched(seconds: float) -> None:
        project.there.pause(seconds)
        shares.append(project.target().serving())

    target = CloudRun("fraud", PLACE, project.access, watched)
    with pytest.raises(UserError, match=said):
        rollout(target, bad, fleet.parts(v1=1))
    assert project.there.state() == before
    assert shares and all(each == {1: 1} for each in shares)


def unavailable() -> bytes:
    raise RefusedError(503, "the container answers 503")


@pytest.mark.parametrize("answer", [unavailable, page])
def test_a_version_that_starts_and_gives_no_answer_never_gets_a_request(
    project: Project, fleet: Fleet, answer: Callable[[], bytes]
) -> None:
    rollout(project.target(), fleet.parts(v1=1))
    before = project.there.state()
    with fleet.silent(answer) as bad, pytest.raises(BadVersionError, match="version 3 does not answer: "):
        rollout(project.target(), bad, fleet.parts(v1=1))
    assert project.there.state() == before


def test_killed_before_any_call_it_is_brought_about_by_the_next_process(project: Project, fleet: Fleet) -> None:
    steps = [fleet.parts(v1=1), fleet.parts(v1=0.95, v2=0.05), fleet.parts(v1=0.5, v2=0.5), fleet.parts(v2=1), []]
    killed = killed_on_the_way(
        steps,
        project.target,
        lambda act: killed_everywhere(project.there.counted, act, project.there.saved(), project.there.state),
    )
    assert killed > 40
    assert project.there.state() == NOTHING


def test_killed_while_a_bad_version_is_tried_the_next_process_puts_everything_back(
    project: Project, fleet: Fleet
) -> None:
    for bad, said in ((fleet.broken(), "failed to start"), (fleet.wrong(), "where its files score")):
        project.there.clear()
        rollout(project.target(), fleet.parts(v1=1))
        before = project.there.state()

        def act(bad: list[VersionShare] = bad, said: str = said) -> None:
            with pytest.raises(UserError, match=said):
                rollout(project.target(), bad, fleet.parts(v1=1))

        assert killed_everywhere(project.there.counted, act, project.there.saved(), project.there.state) > 10
        assert project.there.state() == before


def test_what_bears_the_name_and_is_not_ours_is_refused_and_left_alone(project: Project, fleet: Fleet) -> None:
    rollout(project.target(), fleet.parts(v1=1))
    restore = project.there.saved()

    def refused(said: str) -> None:
        before = project.there.state()
        for act in (lambda: rollout(project.target(), fleet.parts(v2=1)), lambda: project.target().clean(())):
            with pytest.raises(UserError, match=said):
                act()
        assert project.there.state() == before

    project.service["labels"] = {"team": "somebody"}
    refused("service 'fraud' exists and has no label nightshift=fraud")

    restore()
    (each,) = project.service["trafficStatuses"]
    each["revision"] = "fraud-00002-abc"
    refused("service 'fraud' is answered by 'fraud-00002-abc', which is not ours")


def test_what_others_have_set_of_our_service_and_their_revisions_stay(project: Project, fleet: Fleet) -> None:
    rollout(project.target(), fleet.parts(v1=1))
    theirs = f"{PARENT}/services/fraud/revisions/fraud-00002-abc"
    project.there.revisions[theirs] = {"name": theirs, "template": {}, "etag": "0"}
    project.service["ingress"] = "INGRESS_TRAFFIC_INTERNAL_ONLY"
    project.service["labels"]["team"] = "somebody"
    rollout(project.target("fraud-v2"), fleet.parts(v1=1))
    rollout(project.target(), fleet.parts(v2=1))
    assert theirs in project.there.revisions
    assert project.service["ingress"] == "INGRESS_TRAFFIC_INTERNAL_ONLY"
    assert project.service["labels"] == {"nightshift": "fraud", "team": "somebody"}
    project.target().clean(())
    assert project.target("fraud-v2").serving() == {1: 1}


def test_who_has_changed_the_service_meanwhile_is_not_overwritten(project: Project, fleet: Fleet) -> None:
    rollout(project.target(), fleet.parts(v1=1))
    found = project.target()._settled()
    project.service["etag"] = "7"
    before = project.there.state()
    with pytest.raises(UnavailableError, match=r"the service has changed \(409\); run it again"):
        project.target()._written(found, fleet.parts(v2=1)[0], [])
    assert project.there.state() == before


def test_what_cannot_be_brought_about_is_said(project: Project, fleet: Fleet) -> None:
    with pytest.raises(UserError, match=r"release\.shares holds 0\.125; Cloud Run takes whole percentages"):
        project.target().apply(fleet.parts(v1=0.875, v2=0.125))
    with pytest.raises(UserError, match=r"Cloud Run refuses to POST .*: service ID Fraud \(400\)"):
        project.target("Fraud").apply(fleet.parts(v1=1))
    with pytest.raises(UnavailableError, match="Cloud Run has not changed service 'fraud' yet; run it again"):
        CloudRun("fraud", PLACE, project.access, lambda _: None).apply(fleet.parts(v1=1))
    nowhere = Access(requests.Session(), project.access.ask, "http://127.0.0.1:9")
    with nowhere.session, pytest.raises(UnavailableError, match="Cloud Run does not answer"):
        CloudRun("fraud", PLACE, nowhere, project.there.pause).apply(fleet.parts(v1=1))


def test_a_refusal_is_no_fault_of_the_version(project: Project, fleet: Fleet) -> None:
    operation = {"name": "it", "done": True, "error": {"code": 7, "message": "may not read the image"}}
    with pytest.raises(UserError, match="Cloud Run refuses: may not read the image") as refused:
        project.target()._finish(operation)
    assert not isinstance(refused.value, BadVersionError)


def test_behind_a_tracking_server_a_container_reads_where_that_keeps_its_files(project: Project, fleet: Fleet) -> None:
    part = downloaded(fleet)
    place = dataclasses.replace(PLACE, artifacts="gs://bucket/mlflow")
    content = CloudRun("fraud", place, project.access)._content(part)
    assert content["containers"][0]["args"][:2] == ["--model", "gs://bucket/mlflow/1/abc/artifacts/model"]
    with pytest.raises(UserError, match=r"state\.registry.*state\.serving\.artifacts"):
        project.target().apply([part])


class Unsigned(requests.Session):
    """A session whose credentials cannot be renewed."""

    def __init__(self, cause: Exception | None) -> None:
        super().__init__()
        self._cause = cause

    def request(self, *_: Any, **__: Any) -> requests.Response:
        raise RefreshError("no token") from self._cause


def test_a_metadata_server_that_hiccups_may_be_asked_again_and_wrong_credentials_not(
    project: Project, fleet: Fleet
) -> None:
    for cause, kind in ((TransportError("reset"), UnavailableError), (None, UserError)):
        with Unsigned(cause) as session, pytest.raises(kind, match="Cloud Run cannot be asked: no token"):
            CloudRun("fraud", PLACE, Access(session, project.access.ask)).apply(fleet.parts(v1=1))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"template": {"scaling": {"minInstances": 0}}}, "Unknown name \"minInstances\" at '.template.scaling'"),
        ({"traffic": [{"percent": 5.0}]}, r"\.traffic\.percent is 5\.0"),
        ({"traffic": [{"type": "REVISION"}]}, r"\.traffic\.type is 'REVISION'"),
        ({"labels": {"version": 1}}, "labels is"),
    ],
)
def test_the_server_of_these_tests_refuses_what_is_not_of_the_published_types(body: dict[str, Any], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        check(body, "GoogleCloudRunV2Service")


def test_an_instance_with_a_gpu_has_the_server_use_it(project: Project, fleet: Fleet) -> None:
    place = dataclasses.replace(PLACE, accelerator="nvidia-l4", cpu=4, memory="16Gi")
    rollout(CloudRun("fraud", place, project.access, project.there.pause), fleet.parts(v1=1))
    template = project.service["template"]
    assert template["nodeSelector"] == {"accelerator": "nvidia-l4"}
    (container,) = template["containers"]
    limits = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert container["resources"] == {"limits": limits, "cpuIdle": False}
    assert container["args"][-2:] == ["--device", "cuda"]
