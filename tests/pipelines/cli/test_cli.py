"""The command line, as a person uses it."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kfp import dsl

from nightshift_testkit.processes import SECONDS, engine, started, wait_until
from pipelines import configs
from tests.pipelines.samples import command, compiled_file, dated, one_step, one_step_a_day, run_of, shell, write

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def nightshift(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(engine(*words), capture_output=True, text=True, timeout=SECONDS, check=False)


def test_the_committed_schema_is_the_one_the_command_prints() -> None:
    assert command("config", "schema").stdout == (ROOT / "docs/schemas/config.json").read_text()


def test_a_config_is_shown_with_its_defaults_which_make_the_same_config(tmp_path: Path) -> None:
    path = tmp_path / "shown.yaml"
    path.write_text(command("config", "show", "leads").stdout)

    assert configs.load(str(path)) == configs.load("leads")


def test_a_run_prints_its_name_and_each_step(tmp_path: Path) -> None:
    def pipeline(text: str = "a") -> None:
        write(text=text)

    done = nightshift(*run_of(pipeline, tmp_path, "--set", "text=b"))
    assert done.returncode == 0
    assert "run sample-" in done.stdout
    assert "write done in" in done.stdout
    (folder,) = (tmp_path / "runs").glob("sample-*")
    assert (folder / "write/output").read_text() == "b"


def test_the_record_holds_the_peak_memory_of_each_step(tmp_path: Path) -> None:
    nightshift(*run_of(one_step("python -c 'b = bytearray(200_000_000)'"), tmp_path))
    (record,) = (tmp_path / "runs").glob("sample-*/run.json")
    peak = json.loads(record.read_text())["steps"]["shell"]["peak_memory_bytes"]
    assert 200_000_000 < peak < 400_000_000


def test_a_failure_names_the_step_its_command_its_last_lines_and_the_way_on(tmp_path: Path) -> None:
    done = nightshift(*run_of(one_step("echo out of luck >&2; exit 3"), tmp_path))
    (folder,) = (tmp_path / "runs").glob("sample-*")
    assert done.returncode == 1
    assert "shell failed (exit code 3)" in done.stdout
    assert "out of luck" in done.stdout
    assert "command  sh -c echo out of luck" in done.stdout
    assert f"nightshift run --resume {folder.name} --workspace {tmp_path}\n" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_night_whose_step_fails_is_reported_where_a_tracking_server_shows_nights(tmp_path: Path) -> None:
    down = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    words = ["run", "scoring", "--data", str(tmp_path), "--workspace", str(tmp_path)]
    done = subprocess.run(engine(*words), capture_output=True, text=True, env=os.environ | down)
    assert done.returncode == 2
    (pending,) = (tmp_path / "audit/tracking").iterdir()
    run = json.loads(pending.read_text())["run"]
    assert json.loads((tmp_path / "runs" / run / "summary.json").read_text())["status"] == "failed"


def test_a_users_mistake_in_a_step_ends_the_run_with_exit_code_two(tmp_path: Path) -> None:
    assert nightshift(*run_of(one_step("exit 2"), tmp_path)).returncode == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nowhere.yaml"], "does not exist"),
        (["run", "traning"], "monitoring, nightly, release, scoring, training; did you mean "),
        (["run", "--config", "nope"], "give a YAML file or one of bert, demand, digits, fraud"),
        (["run", "--config", "frau"], "did you mean 'fraud'"),
        (["run", "--date", "yesterday"], "write a day as YYYY-MM-DD"),
        (["run", "--set", "x"], "--set takes name=value"),
        (["run", "--set", "state.laek=/x"], "state.laek: unknown; allowed here: audit, "),
        (["run", "--set", "state.lake="], "state.lake is ''; give a folder or a URI"),
        (
            ["run", "--set", "state.runs=s3://bucket/runs"],
            "'s3://bucket/runs', but the runs of this machine",
        ),
        (["run", "--set", "state=here"], "parameter 'state' is 'here'; it takes a STRUCT"),
        (["run", "--resume", "r1"], "there is no run 'r1'"),
        (["run", "--resume", "r1", "--date", "2025-01-01"], "leave out date, or start a new run"),
        (["run", "--resume", "r1", "--target", "record-only"], "leave out target, or start a new run"),
        (["run", "--runner", "docker", "--target", "local"], "leave out --runner docker"),
        (["run", "--runner", "docker", "--set", "state.target=local"], "leave out --runner docker"),
        (["show", "r1"], "there is no run 'r1'"),
        (["loadtest", "--seconds", "5", "--set", "load={}"], "--set load=... and flags (seconds) say what the load is"),
        (
            ["loadtest", "--set", "laod=1"],
            "has no parameter 'laod'; it has: config, data, date, device, load, state; did you mean 'load'?",
        ),
        (["release", "status"], "holds no model yet; `nightshift run` registers one"),
        (["release", "start"], "release start takes a version"),
        (["release", "abort", "2"], "release abort takes no version"),
        (["release", "start", "new"], "version is 'new'; give a number"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_two(words: list[str], message: str, tmp_path: Path) -> None:
    done = command(*words, "--workspace", str(tmp_path))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_load_test_is_given_what_was_asked_for_and_needs_a_champion(tmp_path: Path) -> None:
    words = ["--rates", "5", "50", "--connections", "2", "--seconds", "0.1", "--workspace", str(tmp_path)]
    done = nightshift("loadtest", *words)
    (record,) = (tmp_path / "runs").glob("fraud-loadtest-*/run.json")
    load = json.loads(record.read_text())["parameters"]["load"]
    assert load == {"rates": [5, 50], "connections": [2], "seconds": 0.1}
    assert done.returncode == 2
    assert "has no champion of 'fraud'" in " ".join(done.stdout.split())


def test_a_load_test_takes_parameters_by_name_too(tmp_path: Path) -> None:
    words = ["--set", 'load={"seconds": 5}', "--set", f"state.registry={tmp_path}/other", "--workspace", str(tmp_path)]
    assert f"{tmp_path}/other" in "".join(nightshift("loadtest", *words).stdout.split())
    (record,) = (tmp_path / "runs").glob("fraud-loadtest-*/run.json")
    parameters = json.loads(record.read_text())["parameters"]
    assert (parameters["load"], parameters["state"]["registry"]) == ({"seconds": 5}, f"{tmp_path}/other")


def test_a_pipeline_without_a_report_says_so(tmp_path: Path) -> None:
    run = nightshift(*run_of(one_step("true"), tmp_path)).stdout.split()[1]
    done = command("report", run, "--workspace", str(tmp_path))
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        [f"nightshift: sample writes no report; nightshift show {run} prints what it found"],
    )


def test_a_run_is_resumed_by_its_name_alone(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def pipeline(text: str) -> None:
        shell(script=f'[ -e "{gate}" ]').after(write(text=text))

    words = run_of(pipeline, tmp_path, "--set", "text=b")
    nightshift(*words)
    Path(words[1]).unlink()
    gate.touch()
    (folder,) = (tmp_path / "runs").glob("sample-*")
    done = nightshift("run", "--resume", folder.name, "--workspace", str(tmp_path))
    assert done.returncode == 0
    assert "write reused" in done.stdout
    assert "shell done" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_cannot_be_written_is_named_by_no_path(tmp_path: Path) -> None:
    words = run_of(one_step("true"), tmp_path)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(engine(*words), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr.splitlines()[0].startswith("nightshift: No space left on device; make room")


@pytest.mark.parametrize("words", [("config", "schema"), ("cloud", "schema")])
def test_a_reader_that_has_enough_ends_a_command_without_a_message(words: tuple[str, ...]) -> None:
    with subprocess.Popen(engine(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout
        assert command.stderr
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == 141


def test_a_run_that_serves_its_model_is_not_resumed_in_containers(tmp_path: Path) -> None:
    def pipeline(state: dict[str, Any]) -> None:
        shell(script="exit 1")

    nightshift(*run_of(pipeline, tmp_path))
    (folder,) = (tmp_path / "runs").glob("sample-*")
    done = command("run", "--resume", folder.name, "--runner", "docker", "--workspace", str(tmp_path))
    assert done.returncode == 2
    assert "an endpoint ends with its container" in done.stderr


def test_a_run_that_is_not_there_is_answered_with_the_newest_whoever_named_it(tmp_path: Path) -> None:
    names = ("sample-2025-01-02-scheduled-2025", "sample-2025-01-01-20250104T000000", "sample-2025-01-02-by-hand")
    for moment, name in zip((1, 3, 2), names, strict=True):
        record = tmp_path / "runs" / name / "run.json"
        record.parent.mkdir(parents=True)
        record.write_text("{}")
        os.utime(record, (moment, moment))
    (tmp_path / "runs/latest").symlink_to(names[1])
    done = command("show", "r1", "--workspace", str(tmp_path))
    assert f"the newest is {names[1]}" in done.stderr


def test_a_second_run_of_the_same_date_is_refused_while_the_first_goes_on(tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"

    waiting = one_step_a_day(f'touch "{begun}"; while [ ! -e "{gate}" ]; do sleep 0.05; done')
    words = run_of(waiting, tmp_path, "--date", "2025-01-01")
    with started(engine(*words), stdout=subprocess.DEVNULL) as first:
        wait_until(begun.exists, "the first run's step has begun")
        second = command(*words)
        gate.touch()
        assert first.wait(SECONDS) == 0
    assert second.returncode == 2
    assert "sample-2025-01-01-" in second.stderr
    assert "in progress for the same date" in second.stderr
    assert nightshift(*words).returncode == 0


def test_no_report_is_written_while_the_run_goes_on_that_will_write_its_own(tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"

    @dsl.container_component
    def reporting(script: str) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image="alpine:3", command=["sh", "-c"], args=[script])

    def pipeline() -> None:
        reporting(script=f'touch "{begun}"; while [ ! -e "{gate}" ]; do sleep 0.05; done')

    with started(engine(*run_of(pipeline, tmp_path)), stdout=subprocess.DEVNULL) as run:
        wait_until(begun.exists, "the step has begun")
        (folder,) = (tmp_path / "runs").glob("sample-*")
        refused = command("report", folder.name, "--workspace", str(tmp_path))
        gate.touch()
        assert run.wait(SECONDS) == 0
    assert (refused.returncode, f"{folder.name} is in progress" in refused.stderr) == (2, True)
    assert nightshift("report", folder.name, "--workspace", str(tmp_path)).returncode == 0


def test_the_lock_of_a_killed_run_is_no_obstacle(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    sleeping = one_step_a_day(f'[ -e "{begun}" ] || {{ touch "{begun}"; sleep 600; }}')
    words = run_of(sleeping, tmp_path, "--date", "2025-01-01")
    with started(engine(*words), stdout=subprocess.DEVNULL):
        wait_until(begun.exists, "the step has begun")
    assert nightshift(*words).returncode == 0


def test_a_backfill_runs_each_day_once_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    gate, count = tmp_path / "gate", tmp_path / "count"
    script = f'echo $0 >> "{count}"; [ $0 != 2025-01-02 ] || [ -e "{gate}" ]'

    def pipeline(date: str) -> None:
        dated(script=script, date=date)

    words = ["backfill", str(compiled_file(pipeline, tmp_path)), "--workspace", str(tmp_path)]
    words += ["--from", "2025-01-01", "--to", "2025-01-03"]
    assert nightshift(*words).returncode == 1
    gate.touch()
    done = nightshift(*words)
    assert done.returncode == 0
    assert [word for word in done.stdout.split() if word in ("complete", "resumed")] == ["complete", "resumed"]
    assert nightshift(*words).stdout.count("complete") == 3
    assert count.read_text().split() == ["2025-01-01", "2025-01-02", "2025-01-02", "2025-01-03"]
    assert nightshift(*words, "--force").returncode == 0
    assert len(count.read_text().split()) == 7


def test_a_backfill_goes_on_with_the_newest_run_of_a_day_whoever_named_it(tmp_path: Path) -> None:
    words = ["backfill", str(compiled_file(one_step_a_day("true"), tmp_path)), "--workspace", str(tmp_path)]
    words += ["--from", "2025-01-01", "--to", "2025-01-01"]
    assert nightshift(*words).returncode == 0
    (whole,) = (tmp_path / "runs").glob("sample-*")
    older = shutil.copytree(whole, whole.with_name("sample-2025-01-01-scheduled-2025-01-02T01-00-00-00-00"))
    record = json.loads((older / "run.json").read_text())
    (older / "run.json").write_text(json.dumps(record | {"complete": False}))
    os.utime(older / "run.json", (1, 1))

    assert "complete" in nightshift(*words).stdout.split()


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [("2025-01-02", "2025-01-01", "give the older day first"), ("2025-01-01", "2199-01-01", "last complete UTC day")],
)
def test_a_backfill_takes_past_days_in_order(first: str, last: str, message: str, tmp_path: Path) -> None:
    done = command("backfill", "--from", first, "--to", last, "--workspace", str(tmp_path))
    assert done.returncode == 2
    assert message in done.stderr
