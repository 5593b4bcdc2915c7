import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from components.common import registry
from components.common.contracts import package
from components.common.errors import UserError
from components.tabular.inputs import Scorer
from tests.processes import SECONDS, started, wait_until

EVENT = pd.DataFrame([{"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}])


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "registry")


def test_a_registered_model_outlives_the_run_that_made_it(stocked, save_model, tmp_path):
    uri = save_model(0.5)
    expected = Scorer(uri, package.load(uri)).score(EVENT)
    version = registry.register(stocked, "fraud", uri, {"logical_date": "2018-08-14"})
    shutil.rmtree(tmp_path / "runs")
    assert (version.version, version.tags["logical_date"]) == (4, "2018-08-14")
    assert version.sha256 == package.load(version.uri).sha256
    np.testing.assert_array_equal(Scorer(version.uri, package.load(version.uri)).score(EVENT), expected)
    assert len(package.read_reference(version.uri)) == 3


def test_mlflow_leads_from_the_version_to_its_metrics_parameters_and_files(registry_template):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{registry_template}/mlflow.db")
    run = client.get_run(client.get_model_version("fraud", "1").run_id)
    assert run.data.metrics == {"average_precision": 0.6}
    assert run.data.params == {"candidate": "logistic_regression", "C": "1.0"}
    assert run.info.status == "FINISHED"
    files = {Path(file.path).name for file in client.list_artifacts(run.info.run_id, "model")}
    assert files == {"model.json", "logistic_regression.onnx", "reference.parquet"}


def test_mlflow_sends_nothing_home(registry_template):
    from mlflow.telemetry.utils import is_telemetry_disabled

    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert is_telemetry_disabled()


def test_the_same_model_again_is_the_version_it_was(stocked, save_model):
    first = registry.register(stocked, "fraud", save_model(0.5), {"parent_run": "one"})
    again = registry.register(stocked, "fraud", save_model(0.5), {"parent_run": "two"})
    assert again == first
    assert [version.version for version in registry.versions(stocked, "fraud")] == [1, 2, 3, 4]


def test_a_registry_without_anything_knows_no_model_and_is_not_made_by_looking(folder):
    assert registry.champion(folder, "fraud") is None
    assert registry.versions(folder, "fraud") == []
    assert registry.names(folder) == []
    assert not Path(folder).exists()


def test_models_do_not_share_versions_or_champions(stocked, save_model):
    registry.promote(stocked, "fraud", 1)
    assert registry.register(stocked, "handbook", save_model(0.1), {}).version == 1
    assert registry.names(stocked) == ["fraud", "handbook"]
    assert registry.champion(stocked, "handbook") is None


@pytest.mark.parametrize(
    ("actions", "champions"),
    [
        ("1 2 back", [1, 2, 1]),
        ("1 2 back back", [1, 2, 1, "nothing"]),
        ("1 2 back back 2 back", [1, 2, 1, "nothing", 2, 1]),
        ("1 2 3 back back back", [1, 2, 3, 2, 1, "nothing"]),
        ("1 2 2 back", [1, 2, 2, 1]),
        ("1 2 1 back back back", [1, 2, 1, 2, 1, "nothing"]),
        ("1 2 back 3 back", [1, 2, 1, 3, 1]),
        ("back", ["nothing"]),
    ],
)
def test_a_rollback_goes_back_to_the_champion_before(stocked, actions, champions):
    assert [_act(stocked, action) for action in actions.split()] == champions


def _act(folder: str, action: str) -> int | str:
    if action != "back":
        registry.promote(folder, "fraud", int(action))
    else:
        try:
            registry.rollback(folder, "fraud")
        except UserError as error:
            return "nothing" if "nothing to roll back to" in str(error) else str(error)
    champion = registry.champion(folder, "fraud")
    return champion.version if champion else "none"


def test_who_promoted_and_who_rolled_back_is_written_down(stocked):
    registry.promote(stocked, "fraud", 1)
    promoted = registry.promote(stocked, "fraud", 2)
    registry.rollback(stocked, "fraud")
    first, second, _ = registry.versions(stocked, "fraud")
    assert promoted.tags.keys() >= {"registered_at", "registered_by", "promoted_at", "promoted_by"}
    assert second.tags.keys() >= {"rolled_back_at", "rolled_back_by"}
    assert "rolled_back_at" not in first.tags


def test_a_version_deleted_since_is_passed_over_by_a_rollback(stocked):
    for number in (1, 2, 3):
        registry.promote(stocked, "fraud", number)
    from mlflow import MlflowClient

    MlflowClient(f"sqlite:///{stocked}/mlflow.db").delete_model_version("fraud", "2")
    assert registry.rollback(stocked, "fraud").version == 1


def test_a_rollback_does_not_stay_where_it_is_after_a_promotion_that_was_cut_short(stocked):
    registry.promote(stocked, "fraud", 1)
    registry.promote(stocked, "fraud", 2)
    from mlflow import MlflowClient

    # the promotion of 3 wrote down its predecessor, and ended before the alias was moved
    MlflowClient(f"sqlite:///{stocked}/mlflow.db").set_registered_model_tag("fraud", registry.EARLIER, "[1, 2]")
    assert registry.rollback(stocked, "fraud").version == 1


def test_a_wrong_version_is_answered_with_those_that_exist(stocked):
    with pytest.raises(UserError, match=r"'fraud' has no version 9; existing versions: 1, 2, 3"):
        registry.promote(stocked, "fraud", 9)
    assert registry.champion(stocked, "fraud") is None


def test_a_removed_version_is_gone_with_its_files_and_who_removed_it_is_written_down(stocked):
    gone, kept = (Path(registry.find(stocked, "fraud", number).uri).parents[1] for number in (1, 2))
    registry.remove(stocked, "fraud", [1])
    assert [version.version for version in registry.versions(stocked, "fraud")] == [2, 3]
    assert (gone.exists(), kept.exists(), registry.leftovers(stocked, "fraud")) == (False, True, [])
    from mlflow import MlflowClient

    run = MlflowClient(f"sqlite:///{stocked}/mlflow.db").get_run(gone.name)
    assert run.info.lifecycle_stage == "deleted"
    assert run.data.tags.keys() >= {"removed_at", "removed_by"}


def test_what_is_needed_however_old_is_the_champion_and_the_one_before(stocked, folder):
    assert registry.pinned(stocked, "fraud") == {}
    for number in (1, 2, 3):
        registry.promote(stocked, "fraud", number)
    assert registry.pinned(stocked, "fraud") == {2: "rollback target", 3: "champion"}
    empty = f"{folder}-of-nothing"
    registry.remove(empty, "fraud", [])
    assert (registry.pinned(empty, "fraud"), registry.leftovers(empty, "fraud")) == ({}, [])
    assert not Path(empty).exists()


def test_a_version_that_does_not_exist_cannot_be_removed(stocked):
    with pytest.raises(UserError, match=r"registry .*name=fraud, version=9.* not found"):
        registry.remove(stocked, "fraud", [9])


def test_a_file_that_is_not_the_one_its_manifest_names_is_not_registered(stocked, save_model):
    uri = save_model(0.5)
    Path(uri, "logistic_regression.onnx").write_bytes(b"something else")
    with pytest.raises(UserError, match=r"is not the file that model\.json names"):
        registry.register(stocked, "fraud", uri, {})
    assert len(registry.versions(stocked, "fraud")) == 3


def test_a_registry_that_was_moved_keeps_its_champion_and_takes_new_versions(stocked, save_model, tmp_path):
    registry.promote(stocked, "fraud", 1)
    moved = str(shutil.copytree(stocked, tmp_path / "a new place"))
    shutil.rmtree(stocked)
    assert package.load(registry.champion(moved, "fraud").uri).selected == "logistic_regression"
    version = registry.register(moved, "fraud", save_model(0.2), {})
    assert version.uri.startswith(moved)
    assert package.load(version.uri).sha256 == version.sha256


def test_processes_that_register_at_once_get_a_version_each(folder, save_model):
    code = "import sys; from components.common import registry; registry.register(*sys.argv[1:4], {})"
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
    with pytest.raises(UserError, match="give a folder that can be written to"), registry.exclusive(f"{tmp_path}/file"):
        pass


def test_a_file_that_is_no_database_is_said_to_be_one(tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database " * 100)
    with pytest.raises(UserError, match="file is not a database"):
        registry.champion(str(tmp_path), "fraud")


def test_a_server_that_does_not_answer_is_said_to_be_one():
    with pytest.raises(UserError, match=r"registry http://127.0.0.1:9: .*; check the folder or the server"):
        registry.champion("http://127.0.0.1:9", "fraud")


@pytest.fixture
def tracking_server(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = tmp_path / "server"
    store.mkdir()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{store}/mlflow.db", "--artifacts-destination", str(store / "files")]
    with (store / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **registry.SETTINGS}
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: urllib.request.urlopen(f"{url}/health").status == 200, f"{url} answers")
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_a_tracking_server_is_as_good_as_a_folder(tracking_server, save_model):
    uri = save_model(0.5)
    registry.register(tracking_server, "fraud", uri, {"config": json.dumps({"long": "x" * 20_000})})
    registry.register(tracking_server, "fraud", save_model(0.6), {})
    registry.promote(tracking_server, "fraud", 1)
    registry.promote(tracking_server, "fraud", 2)
    assert registry.rollback(tracking_server, "fraud").version == 1
    champion = registry.champion(tracking_server, "fraud")
    expected = Scorer(uri, package.load(uri)).score(EVENT)
    np.testing.assert_array_equal(Scorer(champion.uri, package.load(champion.uri)).score(EVENT), expected)
