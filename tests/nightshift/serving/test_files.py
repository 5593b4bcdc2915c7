"""The files of a server on this machine: who may read them, and what becomes of it when they or the disk go wrong."""

import os
import resource
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest

from nightshift import storage
from nightshift.contracts.package import load as load_manifest
from nightshift.local import endpoint
from nightshift.serving import files
from nightshift.serving.files import DeploymentPointer
from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port
from tests.nightshift.serving.events import CHOSEN, EVENTS, LATER, PAST, model
from tests.nightshift.serving.test_events import raw
from tests.nightshift.tabular.online.streams import written


def score(url: str, *events) -> httpx.Response:
    return httpx.post(f"{url}/score", json={"events": [raw(event) for event in events]})


@pytest.mark.slow
def test_what_a_server_writes_is_for_its_user_alone_whatever_the_umask(tmp_path) -> None:
    uri, root = model(tmp_path / "package"), str(tmp_path / "registry")
    snapshot = written(EVENTS, CHOSEN, PAST, str(tmp_path))
    pointer = DeploymentPointer(1, uri, load_manifest(uri).sha256, "2018-08-01T00:00:00+00:00", snapshot)
    storage.write_json(files.pointer_uri(root, "fraud"), asdict(pointer))
    before, umask = {*tmp_path.rglob("*")}, os.umask(0)
    try:
        start = endpoint._Start(free_port(), str(tmp_path / "lake/predictions"), endpoint.PATIENCE)
        server = endpoint._launch(root, "fraud", start)
        wait_until(lambda: Path(files.state_uri(root, "fraud")).exists() or server.poll() is not None, "it listens")
        running = endpoint.find_running(root, "fraud")
        wait_until(lambda: _answers(running.url), "it answers")
        assert score(running.url, LATER[0]).status_code == 200
        server.terminate()
        server.wait(30)
    finally:
        os.umask(umask)
    modes = {path.relative_to(tmp_path): path.stat().st_mode & 0o777 for path in {*tmp_path.rglob("*")} - before}
    names = {path.suffix or path.name for path in modes}
    assert {".log", ".json", ".lock", "mark", "lock", ".state", ".parquet"} <= names
    assert not {path: oct(mode) for path, mode in modes.items() if mode & 0o077}


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def served(serve, tmp_path):
    """A server over a snapshot, which nobody refreshes but the test."""
    snapshot = written(EVENTS, CHOSEN, PAST, str(tmp_path))
    return serve(model(tmp_path / "package"), snapshot=snapshot)


def status(served) -> str:
    served.current.refresh()
    return httpx.get(f"{served.url}/healthz").json()["status"]


def test_health_is_right_again_when_the_disk_is_without_another_event(served) -> None:
    assert score(served.url, LATER[0]).status_code == 200
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30, hard))
    try:
        assert score(served.url, LATER[1]).status_code == 503
        assert status(served) == "degraded"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert status(served) == "ok"
    assert score(served.url, *LATER[:3]).status_code == 200


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"version": "one"}'])
def test_a_pointer_that_names_no_version_is_said_until_it_does(served, content) -> None:
    whole = served.pointer.read_bytes()
    served.pointer.write_bytes(content)
    assert status(served) == "degraded"
    assert "does not name the version to be served" in served.current.problem
    served.pointer.write_bytes(whole)
    assert status(served) == "ok"


def test_a_version_whose_files_were_not_there_yet_is_loaded_once_they_are(served, tmp_path) -> None:
    later = tmp_path / "later"
    model(later, slope=0.05)
    pointer = files.read_pointer(str(served.pointer))
    second = asdict(pointer) | {"version": 2, "uri": str(later), "sha256": load_manifest(str(later)).sha256}
    later.rename(tmp_path / "away")
    storage.write_json(str(served.pointer), second)
    assert status(served) == "degraded"
    (tmp_path / "away").rename(later)
    served.current._next_check = 0.0
    assert (status(served), served.current.model.pointer.version) == ("ok", 2)
