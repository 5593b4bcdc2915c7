import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nightshift import storage
from nightshift.contracts.section import Page
from nightshift_testkit.s3 import bucket, environment, reached_at

pytestmark = pytest.mark.slow

HEAVY = {"pandas", "numpy", "matplotlib", "sklearn", "torch", "mlflow", "onnxruntime"}


def run(*argv: str, folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "components.reporting", *argv]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | environment)


def test_the_files_lie_at_their_uris_and_in_the_runs_folder(sample):
    sample.report()
    for flag, name in (("summary", "summary.json"), ("report", "report.html")):
        assert sample.file(flag).read_bytes() == (sample.folder / name).read_bytes()
    assert Page.model_validate_json((sample.folder / "page.json").read_bytes()).run == sample.run


def test_latest_moves_to_the_newest_run(sample, new_run):
    sample.report()
    latest = sample.runs / "latest"
    assert str(latest.readlink()) == sample.run
    newer = new_run(sample.runs, "newer")
    newer.change("run.json", started="2026-11-21T02:10:00+00:00")
    newer.report()
    assert str(latest.readlink()) == "newer"
    assert not list(sample.runs.glob("*.tmp"))


def test_latest_stays_when_an_older_run_is_reported_again(sample, new_run):
    newer = new_run(sample.runs, "newer")
    newer.change("run.json", started="2026-11-21T02:10:00+00:00")
    newer.report()
    sample.report()
    assert str((sample.runs / "latest").readlink()) == "newer"


def test_a_folder_called_latest_is_left_alone_and_costs_no_run(sample, caplog):
    kept = sample.runs / "latest" / "mine.txt"
    kept.parent.mkdir()
    kept.touch()
    summary, _ = sample.report()
    assert summary["status"] == "succeeded"
    assert kept.exists()
    assert "latest does not point at this run" in caplog.text
    assert not list(sample.runs.glob("*.tmp"))


def test_the_command_reports_its_own_measures_and_loads_no_data_library(sample):
    outputs = {"summary": {"artifacts": [{"uri": sample.flags["summary"], "metadata": {}}]}}
    sample.executor_input["outputs"] = {"artifacts": outputs, "outputFile": str(sample.folder / "output.json")}
    code = f"import json, runpy, sys; sys.argv[1:] = {sample.argv!r}"
    code += "; runpy.run_module('components.reporting', run_name='__main__'); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(json.loads(done.stdout))
    written = json.loads((sample.folder / "output.json").read_text())
    assert written["artifacts"]["summary"]["artifacts"][0]["metadata"]["peak_memory_bytes"] < 400e6


def test_a_receiver_that_is_down_fails_no_night_and_its_notification_stays_pending(sample, monkeypatch, caplog):
    config = json.loads(sample.flags["config"]) | {"notify": {"receivers": [{"variable": "NIGHTSHIFT_NOTIFY"}]}}
    sample.flags["config"] = json.dumps(config)
    sample.change("evaluation/verdict.json", decision="fail")
    monkeypatch.setenv("NIGHTSHIFT_NOTIFY", "http://127.0.0.1:1/geheim")
    summary, _ = sample.report()
    assert summary["status"] == "succeeded"
    outbox = storage.read_json(f"{sample.runs.parent}/audit/notifications.json")
    assert [entry["notification"]["event"] for entry in outbox["pending"]] == ["refused"]
    assert "1 notifications stay pending: NIGHTSHIFT_NOTIFY is not delivered" in caplog.text
    assert "geheim" not in caplog.text


def test_help_lists_the_flags(sample):
    done = run("--help")
    assert done.returncode == 0
    assert all(f"--{flag}" in done.stdout for flag in sample.flags)


def test_a_broken_artifact_is_one_line_and_exit_code_2(sample):
    sample.file("events").write_text("{")
    done = run(*sample.argv)
    assert done.returncode == 2
    assert done.stderr.startswith(f"reporting: {sample.uris['events']} is not JSON")
    assert len(done.stderr.splitlines()) == 1


def test_a_broken_section_is_one_line_that_names_the_file_and_the_field(sample):
    path = sample.uris["drift"] + ".section.json"
    storage.write_json(path, storage.read_json(path) | {"weight": "heavy"})
    done = run(*sample.argv)
    assert done.returncode == 2
    assert done.stderr.startswith(f"reporting: {path} is no Section of this version: weight is 'heavy' ")
    assert len(done.stderr.splitlines()) == 1


def test_on_an_object_store_the_run_has_its_files_and_no_link(sample, tmp_path):
    here, there = str(sample.runs), "s3://lake/runs"
    namesake = tmp_path / "here" / "lake" / "runs"  # what a link to the bucket would land in
    namesake.mkdir(parents=True)
    with bucket() as url, reached_at(url):
        for path in sample.folder.rglob("*"):
            if path.is_file():
                storage.write_bytes(str(path).replace(here, there), path.read_bytes())
        argv = [word.replace(here, there) for word in sample.argv]
        done = run(*argv, folder=tmp_path / "here", **environment(url))
        assert done.returncode == 0, done.stderr
        names = {entry.uri.removeprefix(f"{there}/") for entry in storage.walk(there)}
        page = storage.read_bytes(f"{there}/{sample.run}/report.html").decode()
    assert {f"{sample.run}/summary.json", f"{sample.run}/report.html", f"{sample.run}/reporting/report"} <= names
    assert not [name for name in names if name.startswith("latest")]
    assert not list(namesake.iterdir())
    assert 'href="drift/drift/evidently.html"' in page
