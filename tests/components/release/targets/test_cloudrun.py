"""What is peculiar to Cloud Run; the rest is in `test_targets.py`."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth.exceptions import RefreshError, TransportError
from google.cloud import run_v2 as api

from components.release.targets import BadVersionError, rollout
from components.release.targets.google_cloud import Api
from nightshift.runtime.errors import UnavailableError, UserError
from tests.components.release.targets.cloud_run import PARENT, Run, platform
from tests.components.release.targets.versions import Fleet


@pytest.fixture
def project(fleet: Fleet, tmp_path: Path) -> Iterator[Run]:
    with platform(fleet, tmp_path) as project:
        yield project


def test_a_version_runs_as_the_settings_say_and_may_go_when_nobody_asks(project: Run, fleet: Fleet) -> None:
    (share,) = fleet.split(v1=1)
    rollout(project.target(cpu=2, memory="2Gi", max_replicas=9, concurrency=16), [share])
    template = project.service.template
    assert (template.scaling.min_instance_count, template.scaling.max_instance_count) == (0, 9)
    assert template.max_instance_request_concurrency == 16
    (container,) = template.containers
    assert (dict(container.resources.limits), container.resources.cpu_idle) == ({"cpu": "2", "memory": "2Gi"}, True)
    assert list(container.args) == ["--model", share.version.uri, "--name", "fraud"]


def test_an_instance_with_a_gpu_keeps_its_cpus(project: Run, fleet: Fleet) -> None:
    rollout(project.target(**project.gpu), fleet.split(v1=1))
    template = project.service.template
    assert template.node_selector.accelerator == "nvidia-l4"
    (container,) = template.containers
    assert dict(container.resources.limits) == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert not container.resources.cpu_idle


def test_what_others_have_set_of_our_service_and_their_revisions_stay(project: Run, fleet: Fleet) -> None:
    rollout(project.target(), fleet.split(v1=1))
    theirs = f"{PARENT}/services/fraud/revisions/fraud-00002-abc"
    project.revisions[theirs] = api.Revision(name=theirs)
    project.service.ingress = api.IngressTraffic.INGRESS_TRAFFIC_INTERNAL_ONLY
    project.service.labels["team"] = "somebody"
    rollout(project.target(), fleet.split(v2=1))
    assert theirs in project.revisions
    assert project.service.ingress == api.IngressTraffic.INGRESS_TRAFFIC_INTERNAL_ONLY
    assert project.service.labels == {"nightshift": "fraud", "team": "somebody"}


def test_a_refusal_is_no_fault_of_the_version(project: Run, fleet: Fleet) -> None:
    with pytest.raises(UserError, match=r"Cloud Run refuses: .*name Fraud; look at its log") as refused:
        project.target("Fraud").apply(fleet.split(v1=1))
    assert not isinstance(refused.value, BadVersionError)

    def denied(**_: Any) -> None:
        raise exceptions.PermissionDenied("may not read the image")

    operation = SimpleNamespace(result=denied)
    with pytest.raises(UserError, match="may not read the image") as refused:
        Api("Cloud Run").change(lambda **_: operation, {})
    assert type(refused.value) is UserError


@pytest.mark.parametrize(("cause", "kind"), [(TransportError("reset"), UnavailableError), (None, UserError)])
def test_a_metadata_server_that_hiccups_may_be_asked_again_and_wrong_credentials_not(
    cause: Exception | None, kind: type[Exception]
) -> None:
    def unsigned(**_: Any) -> None:
        raise RefreshError("no token") from cause

    with pytest.raises(kind, match="Cloud Run cannot be called: no token"):
        Api("Cloud Run").call(unsigned, {})
