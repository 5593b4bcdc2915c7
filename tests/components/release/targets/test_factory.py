"""Which target a state means."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from components.release.targets import NoAnswerError, factory, files
from components.release.targets.cloudrun import CloudRun
from components.release.targets.local import Local
from components.release.targets.sagemaker import SageMaker
from components.release.targets.vertex import Vertex
from nightshift import registry
from nightshift.contracts import package
from nightshift.contracts.state import State
from nightshift.runtime.errors import UserError
from nightshift_testkit.servers import serving
from tests.components.states import state

ROLE, IMAGE = "arn:aws:iam::123456789012:role/serving", "registry.example.com/nightshift/serving:0.3.0"

KSERVE = {"kind": "kserve", "namespace": "nightshift", "image": IMAGE, "account": "serving", "secret": "token"}


def find_target(folder: Path, **changed: Any) -> Any:
    return factory.find_target(State.parse(state(folder, **changed)), "fraud")


def test_without_a_place_it_is_this_machine_or_nowhere(tmp_path: Path) -> None:
    assert isinstance(find_target(tmp_path, target="local"), Local)
    assert find_target(tmp_path, target="register-only") is None


def test_numbers_may_come_as_floats_as_a_pipeline_passes_them_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    endpoint = find_target(tmp_path, serving={"kind": "sagemaker", "role": ROLE, "image": IMAGE, "count": 2.0})
    assert isinstance(endpoint, SageMaker)
    assert repr(endpoint._settings.count) == "2"


def test_google_cloud_is_reached_with_the_credentials_that_its_libraries_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"client_id": "a", "client_secret": "b", "refresh_token": "c", "quota_project_id": "shop"}
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"type": "authorized_user"} | keys))
    settings = {"project": "shop", "region": "us-central1", "image": IMAGE, "account": "serving@shop.example.com"}
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    endpoint = find_target(tmp_path, serving=settings | {"kind": "cloudrun", "min_replicas": 1.0})
    assert isinstance(endpoint, CloudRun)
    assert repr(endpoint._settings.min_replicas) == "1"
    endpoint = find_target(tmp_path, serving=settings | {"kind": "vertex"})
    assert isinstance(endpoint, Vertex)
    assert endpoint._clients.endpoints.transport.host == "us-central1-aiplatform.googleapis.com:443"

    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing"))
    with pytest.raises(UserError, match=r"no credentials for Google Cloud: .*missing"):
        find_target(tmp_path, serving=settings | {"kind": "cloudrun"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"kind": "azure"},
            "state.serving.kind is 'azure'; allowed: sagemaker, kserve, llm, vertex, cloudrun",
        ),
        ({"kind": "sagemaker", "rol": ROLE}, "state.serving.rol: unknown; .* did you mean 'role'"),
        ({"kind": "sagemaker", "role": ROLE}, "state.serving: .*image.*; see docs/guides/release.md"),
        ({"kind": "kserve", "namespace": "nightshift"}, "state.serving: .*image"),
        (KSERVE | {"min_replicas": 0}, "min_replicas is 0; a Deployment keeps at least 1"),
        (KSERVE | {"max_replicas": 1}, "min_replicas is 2 and max_replicas 1; allowed: 0 <= min_replicas"),
        (KSERVE | {"requests_per_second": 700}, "state.serving.requests_per_second: unknown"),
        ({"kind": "cloudrun", "projct": "shop"}, "state.serving.projct: unknown; .* did you mean 'project'"),
    ],
)
def test_a_wrong_place_is_named_with_what_is_allowed(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_target(tmp_path, serving=fields)


@pytest.mark.slow
@pytest.mark.xdist_group("tracking")
def test_a_container_finds_the_files_that_a_tracking_server_keeps_where_that_keeps_them(
    tracking_server: str, tracking_store: Path, save_model: Callable[[float], str]
) -> None:
    registry.register(tracking_server, "served", save_model(0.5), {})
    version = registry.find(tracking_server, "served", 1)
    assert package.load(files(version, str(tracking_store / "files"))).sha256 == version.sha256


class Door(BaseHTTPRequestHandler):
    """Answers with the request's token, and to an empty body with the status that its path names."""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.rfile.read(length)
        self.send_response(200 if length else int(self.path[1:]))
        self.end_headers()
        self.wfile.write(self.headers.get("Authorization", "nobody").encode())

    def log_message(self, *_: object) -> None:
        pass


def test_served_models_are_asked_with_their_token(monkeypatch: pytest.MonkeyPatch) -> None:
    server = HTTPServer(("127.0.0.1", 0), Door)
    url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        monkeypatch.delenv(factory.TOKEN, raising=False)
        assert factory.ask(url, b"{}") == b"nobody"
        monkeypatch.setenv(factory.TOKEN, "something")
        assert factory.ask(url, b"{}") == b"Bearer something"
        with pytest.raises(NoAnswerError, match="answers 503"):
            factory.ask(f"{url}/503", b"")
        for status in (401, 403):
            with pytest.raises(UserError, match=rf"/{status} answers {status}; {factory.TOKEN} has to hold") as refused:
                factory.ask(f"{url}/{status}", b"")
            assert type(refused.value) is UserError
    with pytest.raises(NoAnswerError, match="does not answer"):
        factory.ask(url, b"{}")
