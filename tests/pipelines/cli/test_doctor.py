"""`nightshift doctor` and `nightshift debug-dump`: what they print, and their exit codes."""

import json
import tarfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema
import pytest

from nightshift.contracts.__main__ import ARTIFACTS, schema
from nightshift.runtime.errors import UserError
from nightshift_testkit.cluster.cluster import CONFIG
from nightshift_testkit.servers import free_port, serving
from tests.pipelines.samples import called


class Kubeflow(BaseHTTPRequestHandler):
    """A Kubernetes API that knows its version and refuses everything else, and a Kubeflow of version 1."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        content = {"/version": {"gitVersion": "v1.36.0"}, "/apis/v2beta1/healthz": {"tag_name": "1.8"}}.get(self.path)
        self._answer(200 if content else 403, content or {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer(201, {"status": {"allowed": False}})

    def _answer(self, status: int, document: object) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Kubeflow)
    with serving(server):
        yield server.server_port


def use_cluster(port: int, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make a server the cluster of the user's kubeconfig."""
    (folder / "kubeconfig").write_text(CONFIG % (f"http://127.0.0.1:{port}", ""))
    patch.setenv("KUBECONFIG", str(folder / "kubeconfig"))


@pytest.mark.slow
def test_this_machine_is_shown_line_by_line_with_a_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = called("doctor", "--workspace", str(tmp_path))

    *checks, counts = capsys.readouterr().out.splitlines()
    assert code in (0, 2) and "ok" in counts
    assert any(line.startswith("ok          packages: ") for line in checks)


def test_an_environment_with_faults_is_exit_code_two_and_each_fault_has_its_fix(
    port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cluster(port, tmp_path, monkeypatch)
    endpoint = f"http://127.0.0.1:{port}"

    assert called("doctor", "--environment", "aws", "--endpoint", endpoint) == 2

    lines = capsys.readouterr().out.splitlines()
    fault = lines.index("FAILED      Kubeflow Pipelines: version 1.8")
    assert lines[fault + 1].strip() == "allowed: 2.x"
    assert lines[fault + 2].strip().startswith("fix: make cloud-install")


def test_a_cluster_that_is_down_is_exit_code_one_in_a_document_of_the_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cluster(free_port(), tmp_path, monkeypatch)

    assert called("doctor", "--environment", "gcp", "--in-pod", "--json") == 1

    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema(ARTIFACTS["health_report"])))
    assert document["checks"][0]["status"] == "unavailable"


def test_a_pod_that_cannot_be_started_is_a_fault_beside_the_others(
    port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cluster(port, tmp_path, monkeypatch)

    assert called("doctor", "--environment", "aws", "--in-pod", "--json") == 2

    document = json.loads(capsys.readouterr().out)
    assert document["in_pod"] and document["checks"][-1]["name"].startswith("in a pod: ")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("doctor --in-pod", "--in-pod needs a cluster"),
        ("doctor --cloud aws", "--cloud and --plan belong together"),
        ("doctor --plan plan.json", "--cloud and --plan belong together"),
        pytest.param("debug-dump fraud-9", "there is no run 'fraud-9'", marks=pytest.mark.slow),
    ],
)
def test_flags_that_do_not_fit_are_refused_with_what_would(
    words: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UserError, match=reason):
        called(*words.split())


def test_without_a_kubeconfig_the_commands_that_write_one_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    with pytest.raises(UserError, match="aws eks update-kubeconfig or gcloud"):
        called("doctor", "--environment", "aws")


@pytest.mark.slow
def test_the_dump_names_what_is_in_it_and_where_it_lies_and_holds_no_secret(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTSHIFT_DATABASE_PASSWORD", "geheim-42")
    (workspace / "runs" / "fraud-1" / "drift" / "log.txt").write_text("connecting as shop with geheim-42\n")
    file = workspace / "dump.tar.gz"

    assert called("debug-dump", "fraud-1", "--workspace", str(workspace), "--output", str(file)) == 0

    printed = capsys.readouterr().out
    with tarfile.open(file) as archive:
        members = {name: archive.extractfile(name).read().decode() for name in archive.getnames()}  # type: ignore[union-attr]
    assert {"versions.json", "variables.json", "doctor-local.json", "run/run.json"} < members.keys()
    assert members["run/drift/log.txt"] == "connecting as shop with [redacted]\n"
    assert "geheim" not in "".join(members.values())
    assert all(name in printed for name in members) and f"{file}: " in printed
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_the_last_run_is_dumped_and_what_does_not_fit_is_named(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = workspace / "runs" / "fraud-1" / "drift" / "log.txt"
    log.write_text("x" * 99 + "\n" + "0123456789" * 60_000)
    file = workspace / "dump.tar.gz"

    words = ["--workspace", str(workspace), "--output", str(file), "--max-megabytes", "0.1"]
    assert called("debug-dump", *words) == 0

    assert "left out  run/drift/log.txt: too large; raise --max-megabytes" in capsys.readouterr().out
    with tarfile.open(file) as archive:
        assert "run/run.json" in archive.getnames()
        assert sum(member.size for member in archive) <= 100_000
