import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nightshift import registry
from nightshift.contracts import package
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.tabular.inputs import FrameScorer
from nightshift_testkit import tracking
from nightshift_testkit.processes import SECONDS, started
from nightshift_testkit.servers import serving

HOSTILE = [
    "a?b",
    "a#b",
    "a%20b",
    "100%",
    "a b",
    "a+b&c=d;e",
    "Кириллица",
    "日本",
    "-rf",
    "a'b\"c",
    "a\nb",
    "[a]{b}*",
    "a:b@c",
]
EVENT = pd.DataFrame([{"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}])


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "registry")


def test_a_registered_model_outlives_the_run_that_made_it(stocked, save_model, tmp_path):
    uri = save_model(0.5)
    expected = FrameScorer(uri, package.load(uri)).score(EVENT)
    version = registry.register(stocked, "fraud", uri, {"logical_date": "2018-08-14"})
    shutil.rmtree(tmp_path / "runs")
    assert (version.version, version.tags["logical_date"]) == (4, "2018-08-14")
    assert version.sha256 == package.load(version.uri).sha256
    np.testing.assert_array_equal(FrameScorer(version.uri, package.load(version.uri)).score(EVENT), expected)
    assert len(package.read_reference(version.uri)) == 3


@pytest.mark.slow
def test_a_version_keeps_its_metrics_its_card_and_who_registered_it(folder, save_model):
    version = registry.register(folder, "fraud", save_model(0.5), {"parent_run": "one"}, {"auc": 0.6}, "# card")

    record = json.loads(Path(folder, "models/fraud/1.json").read_text())
    assert (record["metrics"], record["sha256"], record["tags"]) == ({"auc": 0.6}, version.sha256, version.tags)
    assert version.tags["registered_by"] == registry.user()
    assert Path(folder, "models/fraud/1/model_card.md").read_text() == "# card"


def test_the_same_model_again_is_the_version_it_was(stocked, save_model):
    first = registry.register(stocked, "fraud", save_model(0.5), {"parent_run": "one"})
    again = registry.register(stocked, "fraud", save_model(0.5), {"parent_run": "two"})
    assert again == first
    assert [version.version for version in registry.versions(stocked, "fraud")] == [1, 2, 3, 4]


def test_a_registry_without_anything_knows_no_model_and_is_not_made_by_looking(folder):
    assert release_record.champion(ReleaseRef(folder, "fraud")) is None
    assert registry.versions(folder, "fraud") == []
    assert registry.names(folder) == []
    assert not Path(folder).exists()


def test_models_do_not_share_versions_or_champions(stocked, save_model):
    release_record.promote(ReleaseRef(stocked, "fraud"), 1)
    assert registry.register(stocked, "handbook", save_model(0.1), {}).version == 1
    assert registry.names(stocked) == ["fraud", "handbook"]
    assert release_record.champion(ReleaseRef(stocked, "handbook")) is None


def test_a_removed_version_is_gone_with_its_files_and_who_removed_it_is_written_down(stocked):
    gone, kept = (Path(registry.find(stocked, "fraud", number).uri).parent for number in (1, 2))
    registry.remove(stocked, "fraud", [1])
    assert [version.version for version in registry.versions(stocked, "fraud")] == [2, 3]
    assert (gone.exists(), kept.exists(), registry.leftovers(stocked, "fraud")) == (False, True, [])
    record = json.loads(Path(stocked, "models/fraud/1.json").read_text())
    assert record["tags"]["removed_by"] == registry.user()


def test_a_version_that_does_not_exist_cannot_be_removed(stocked):
    with pytest.raises(UserError, match=r"model 'fraud' has no version 9; existing versions: 1, 2, 3"):
        registry.remove(stocked, "fraud", [9])


def test_a_file_that_is_not_the_one_its_manifest_names_is_not_registered(stocked, save_model):
    uri = save_model(0.5)
    Path(uri, "logistic_regression.onnx").write_bytes(b"something else")
    with pytest.raises(UserError, match=r"is not the file that model\.json names"):
        registry.register(stocked, "fraud", uri, {})
    assert len(registry.versions(stocked, "fraud")) == 3


def test_a_registry_that_was_moved_keeps_its_champion_and_takes_new_versions(stocked, save_model, tmp_path):
    release_record.promote(ReleaseRef(stocked, "fraud"), 1)
    moved = str(shutil.copytree(stocked, tmp_path / "a new place"))
    shutil.rmtree(stocked)
    assert package.load(release_record.champion(ReleaseRef(moved, "fraud")).uri).selected == "logistic_regression"
    version = registry.register(moved, "fraud", save_model(0.2), {})
    assert version.uri.startswith(moved)
    assert package.load(version.uri).sha256 == version.sha256


@pytest.mark.slow
def test_processes_that_register_at_once_get_a_version_each(folder, save_model):
    code = "import sys; from nightshift import registry; registry.register(*sys.argv[1:4], {})"
    models = [save_model(0.1), save_model(0.2)]
    with ExitStack() as stack:
        commands = [[sys.executable, "-c", code, folder, "fraud", model] for model in models]
        processes = [stack.enter_context(started(command)) for command in commands]
        assert [process.wait(SECONDS) for process in processes] == [0, 0]
    assert [version.version for version in registry.versions(folder, "fraud")] == [1, 2]


def test_a_registry_is_a_folder_or_a_server(save_model):
    with pytest.raises(UserError, match=r"registry is 's3://bucket/registry'; give a local folder or the http"):
        registry.register("s3://bucket/registry", "fraud", save_model(0.5), {})


def test_a_folder_that_cannot_be_written_to_is_said_to_be_one(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="give a folder that can be written to"), registry.lock(f"{tmp_path}/file"):
        pass


@pytest.mark.parametrize("content", ["half of {", '{"schema": 1, "tags": {}, "metrics": {}}'])
def test_a_damaged_record_is_named_with_what_is_wrong(content, stocked):
    Path(stocked, "models/fraud/2.json").write_text(content)
    with pytest.raises(UserError, match=r"fraud/2\.json is no RegisteredVersion .*; restore it from a backup"):
        registry.versions(stocked, "fraud")


def test_a_registration_that_was_cut_short_is_no_version_and_the_next_one_takes_its_number(stocked, save_model):
    left = Path(stocked, "models/fraud/4/model/of the other model.onnx")
    left.parent.mkdir(parents=True)
    left.touch()
    assert [version.version for version in registry.versions(stocked, "fraud")] == [1, 2, 3]

    version = registry.register(stocked, "fraud", save_model(0.5), {})

    assert (version.version, left.exists()) == (4, False)


def test_a_removal_that_was_cut_short_is_finished_by_the_next(stocked):
    files = Path(registry.find(stocked, "fraud", 1).uri).parent
    registry.remove(stocked, "fraud", [1])
    files.mkdir()  # as if it had ended before
    assert registry.leftovers(stocked, "fraud") == [str(files)]

    registry.remove(stocked, "fraud", [2])

    assert (files.exists(), registry.leftovers(stocked, "fraud")) == (False, [])


@pytest.mark.slow
def test_a_registry_in_a_folder_is_used_without_mlflow(stocked):
    code = "import sys; from nightshift import registry; registry.find(sys.argv[1], 'fraud', 1); "
    code += "print({'mlflow', 'sqlalchemy', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, stocked], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.fixture
def answering():
    """`answering(status, body)` is the URL of a server that answers everything with these."""
    with ExitStack() as stack:

        def serve(status: int, body: str = "<html>a page</html>") -> str:
            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.send_response(status)
                    self.send_header("Content-Type", "text/html" if "<" in body else "application/json")
                    self.end_headers()
                    self.wfile.write(body.encode())

                def log_message(self, *words: object) -> None:
                    pass

            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            stack.enter_context(serving(server))
            return f"http://127.0.0.1:{server.server_port}"

        yield serve


@pytest.fixture
def one_try(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.mark.parametrize("server", ["http://127.0.0.1:9", "http://mlflow.invalid:5000"])
def test_a_server_that_does_not_answer_may_do_so_later(one_try, server):
    with pytest.raises(
        UnavailableError, match=rf"registry {server}: .*; check that the server runs, then run the same"
    ):
        registry.alias(server, "fraud")


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_server_that_fails_may_do_better_later(one_try, answering, status):
    with pytest.raises(UnavailableError, match=rf"{status}.*; check that the server runs, then run the same command"):
        registry.versions(answering(status), "fraud")


@pytest.mark.slow
def test_a_server_that_runs_and_cannot_store_files_is_said_to_run(one_try, save_model, tmp_path):
    (tmp_path / "files").touch()  # where its artifact store should be a folder
    uri = save_model(0.5)

    with (
        tracking.serve(tmp_path) as server,
        pytest.raises(
            UnavailableError, match=r"mlflow-artifacts.*; the server runs and answers other .* artifact store failed"
        ),
    ):
        registry.register(server, "fraud", uri, {})


def test_a_server_whose_json_is_no_answer_may_do_better_later(one_try, answering):
    with pytest.raises(UnavailableError):
        registry.versions(answering(200, "[]"), "fraud")


# 405, 415 and 422 have no code of MLflow's, and gateways refuse with JSON of their own
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 415, 422])
@pytest.mark.parametrize("body", ["<html>Forbidden</html>", '{"message": "Forbidden"}'])
def test_what_a_server_refuses_is_the_users_to_fix(one_try, answering, status, body):
    with pytest.raises(UserError, match=r"Forbidden.*; check what the server says, and the login in MLFLOW_TRACKING"):
        registry.versions(answering(status, body), "fraud")


def test_a_page_where_a_tracking_server_is_expected_is_the_users_to_fix(one_try, answering):
    with pytest.raises(UserError, match=r"<html>Log in</html>.*; check what the server says"):
        registry.versions(answering(200, "<html>Log in</html>"), "fraud")


@pytest.mark.parametrize("name", ["a?b", "a%20b", "-#rf"])
def test_a_registry_lies_in_its_folder_whatever_that_is_called(name, registry_template, save_model, tmp_path):
    folder = shutil.copytree(registry_template, tmp_path / "place" / name)
    version = registry.register(str(folder), "fraud", save_model(0.5), {}, card="# card")
    registry.set_alias(str(folder), "fraud", 4)

    assert registry.find(str(folder), "fraud", 4).sha256 == version.sha256
    assert (registry.alias(str(folder), "fraud"), registry.names(str(folder))) == (4, ["fraud"])
    assert [path.name for path in (tmp_path / "place").iterdir()] == [name]
    assert {path.name for path in folder.iterdir()} == {"registry.lock", "models"}
    assert Path(version.uri).is_relative_to(folder)


def test_a_registry_is_made_in_a_folder_whatever_that_is_called(save_model, tmp_path):
    folder = tmp_path / "place" / "".join(HOSTILE)
    registry.register(str(folder), "fraud", save_model(0.5), {})

    assert registry.names(str(folder)) == ["fraud"]
    assert [path.name for path in (tmp_path / "place").iterdir()] == [folder.name]
