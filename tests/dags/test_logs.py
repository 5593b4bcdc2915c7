"""Tasks' logs that are kept in an object store; a folder stands in for it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.engines.airflow.logs import REMOTE_TASK_LOG, StoredLogs

LOG = "dag_id=fraud_training/run_id=one/task_id=features/attempt=1.log"
RESOLVE = """
import json
from airflow.logging_config import get_remote_task_log
from airflow.sdk.log import load_remote_log_handler

log = get_remote_task_log()
log.upload("a/attempt=1.log")
print(json.dumps([type(log).__name__, type(load_remote_log_handler()).__name__, log.read("a/attempt=1.log")]))
"""


def test_a_log_is_read_after_the_pod_that_wrote_it_has_gone(tmp_path: Path) -> None:
    pod, page = tmp_path / "pod", StoredLogs(str(tmp_path / "page"), str(tmp_path / "store"))
    (pod / LOG).parent.mkdir(parents=True)
    (pod / LOG).write_text("hello\n")
    StoredLogs(str(pod), str(tmp_path / "store")).upload(LOG)
    (pod / LOG).unlink()

    assert page.read(LOG) == ([str(tmp_path / "store" / LOG)], ["hello\n"])


def test_what_the_triggerer_wrote_of_a_try_belongs_to_its_log_and_another_try_does_not(tmp_path: Path) -> None:
    logs = StoredLogs(str(tmp_path / "local"), str(tmp_path / "store"))
    folder = (tmp_path / "store" / LOG).parent
    folder.mkdir(parents=True)
    for name in ("attempt=1.log", "attempt=1.log.trigger.7.log", "attempt=2.log"):
        (folder / name).write_text(name)

    assert logs.read(LOG)[1] == ["attempt=1.log", "attempt=1.log.trigger.7.log"]


def test_a_task_without_a_log_has_none(tmp_path: Path) -> None:
    assert StoredLogs(str(tmp_path), str(tmp_path / "store")).read(LOG) == ([], [])


def test_a_log_that_cannot_be_stored_is_in_the_log_of_the_pod_and_the_page_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / LOG).parent.mkdir(parents=True)
    (tmp_path / LOG).write_text("line 1\nline 2\n")
    (tmp_path / "file").touch()
    logs = StoredLogs(str(tmp_path), str(tmp_path / "file" / "store"))

    with pytest.raises(Exception, match="Not a directory"):
        logs.upload(LOG)

    printed = capsys.readouterr().err
    assert f"could not be stored at {tmp_path}/file/store/{LOG}: " in printed
    assert "line 1\nline 2\n" in printed
    ((uri,), (text,)) = logs.read(LOG, SimpleNamespace(state="success"))
    assert uri == f"{tmp_path}/file/store/{LOG}"
    assert "see the log of its pod" in text


def test_the_page_of_a_running_task_is_left_to_airflow_and_that_of_one_that_ended_without_a_log_says_so(
    tmp_path: Path,
) -> None:
    logs = StoredLogs(str(tmp_path), str(tmp_path / "store"))

    assert logs.read(LOG, SimpleNamespace(state="running")) == ([], [])
    assert "is not there; a task whose log could not be stored" in logs.read(LOG, SimpleNamespace(state="failed"))[1][0]


def test_without_a_store_logs_stay_where_they_are() -> None:
    assert REMOTE_TASK_LOG is None


def test_every_part_of_airflow_takes_the_store_from_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "logs" / "a").mkdir(parents=True)
    (tmp_path / "logs" / "a" / "attempt=1.log").write_text("hello")
    settings = {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__LOGGING__LOGGING_CONFIG_CLASS": "pipelines.engines.airflow.logs.LOGGING_CONFIG",
        "AIRFLOW__LOGGING__REMOTE_BASE_LOG_FOLDER": str(tmp_path / "store"),
    }
    done = subprocess.run([sys.executable, "-c", RESOLVE], env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    stored = str(tmp_path / "store" / "a" / "attempt=1.log")
    assert json.loads(done.stdout.splitlines()[-1]) == ["StoredLogs", "StoredLogs", [[stored], ["hello"]]]
