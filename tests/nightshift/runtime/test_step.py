"""The shell around a component, run as its own process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

pytestmark = pytest.mark.slow

SCRIPT = """
from nightshift.runtime import flags, step
from nightshift.runtime.errors import UserError

def body(context):
    step.log.info("working on %s", context.args.date)
    {body}

fields = (flags.DATE, flags.StepParameter("run-date", str, "another"), flags.DEVICE)
step.run(flags.StepContract("sample", "Does nothing.", fields).parser(), body)
"""
FLAGS = ["--date", "2024-03-18", "--run-date", "2024-03-19", "--device", "cpu"]


def run(tmp_path: Path, body: str, flags: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "sample.py"
    script.write_text(SCRIPT.format(body=body))
    command = [sys.executable, "-W", "error", str(script), *flags]
    inside = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=inside)


def executor_input(tmp_path: Path) -> dict[str, Any]:
    artifact = {"name": "model", "type": {"schemaTitle": "system.Model", "schemaVersion": "0.0.1"}, "uri": "s3://a/b"}
    return {
        "inputs": {"parameterValues": {"date": "2024-03-18"}},
        "outputs": {
            "artifacts": {"model": {"artifacts": [artifact]}},
            "outputFile": str(tmp_path / "not" / "there" / "yet" / "executor_output.json"),
        },
    }


def reported(tmp_path: Path, body: str, **variables: str) -> dict[str, Any]:
    """Run a step as Kubeflow does and return the executor output it wrote."""
    kfp_input = executor_input(tmp_path)
    done = run(tmp_path, body, [*FLAGS, "--executor-input", json.dumps(kfp_input)], **variables)
    assert done.returncode == 0, done.stderr
    written: dict[str, Any] = json.loads(Path(kfp_input["outputs"]["outputFile"]).read_text())
    return written


def test_a_step_that_is_done_exits_with_0_and_logs_to_stderr(tmp_path: Path) -> None:
    done = run(tmp_path, "return None", FLAGS)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "working on 2024-03-18\n")


def test_what_all_artifacts_share_is_a_short_message_for_an_engine_that_sees_no_files(tmp_path: Path) -> None:
    body = "return {'rows': 3, 'shares': {'a': 0.5}, 'model': {'curve': [1] * 10**4}, 'reason': 'x' * 10**4}"
    message = tmp_path / "message"

    reported(tmp_path, body, NIGHTSHIFT_TERMINATION_MESSAGE=str(message))

    metadata = json.loads(message.read_text())
    assert {"step", "seconds", "peak_memory_bytes", "device", "rows", "reason"} <= metadata.keys()
    assert not {"shares", "model"} & metadata.keys()
    assert len(message.read_bytes()) < 4096


def test_a_mistake_of_the_user_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = run(tmp_path, "raise UserError('date is wrong; fix it')", FLAGS)

    assert done.returncode == 2
    assert done.stderr.splitlines() == ["working on 2024-03-18", "sample: date is wrong; fix it"]


def test_a_mistake_of_ours_is_a_traceback_and_exit_code_1(tmp_path: Path) -> None:
    done = run(tmp_path, "assert context.args.date == 'never', 'ours'", FLAGS)

    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1] == "AssertionError: ours"


@pytest.mark.parametrize("gone", ["--date", "--run-date", "--device"])
def test_a_flag_that_is_missing_is_named_and_exit_code_2(tmp_path: Path, gone: str) -> None:
    at = FLAGS.index(gone)

    done = run(tmp_path, "return None", FLAGS[:at] + FLAGS[at + 2 :])

    assert done.returncode == 2
    assert f"the following arguments are required: {gone}" in done.stderr


def test_a_device_nobody_knows_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "return None", [*FLAGS, "--device", "tpu"])

    assert done.returncode == 2
    assert "invalid choice: 'tpu'" in done.stderr


def test_the_executor_output_is_what_kubeflow_defines(tmp_path: Path) -> None:
    written = reported(tmp_path, "return {'auc_roc': 0.9}")

    # refuses fields that its definition lacks
    parsed = json_format.ParseDict(written, pipeline_spec_pb2.ExecutorOutput())
    (artifact,) = parsed.artifacts["model"].artifacts
    assert (artifact.name, artifact.uri, artifact.type.schema_title) == ("model", "s3://a/b", "system.Model")
    assert artifact.metadata["auc_roc"] == 0.9


def test_metadata_under_an_artifacts_name_is_that_artifacts_alone(tmp_path: Path) -> None:
    kfp_input = executor_input(tmp_path)
    kfp_input["outputs"]["artifacts"]["curve"] = {"artifacts": [{"name": "curve", "uri": "s3://a/c"}]}
    body = "return {'auc_roc': 0.9, 'curve': {'points': [0.1, 0.2]}}"

    assert run(tmp_path, body, [*FLAGS, "--executor-input", json.dumps(kfp_input)]).returncode == 0

    artifacts = json.loads(Path(kfp_input["outputs"]["outputFile"]).read_text())["artifacts"]
    model, curve = (artifacts[name]["artifacts"][0]["metadata"] for name in ("model", "curve"))
    assert (model["auc_roc"], curve["auc_roc"]) == (0.9, 0.9)
    assert (model.get("points"), curve["points"], model.get("curve")) == (None, [0.1, 0.2], None)


def test_a_step_reports_what_it_took_and_where_it_ran(tmp_path: Path) -> None:
    written = reported(tmp_path, "import time; block = bytearray(200_000_000); time.sleep(0.3)")

    metadata = written["artifacts"]["model"]["artifacts"][0]["metadata"]
    assert (metadata["step"], metadata["device"]) == ("sample", "cpu")
    assert 0.3 <= metadata["seconds"] < 300
    assert metadata["peak_memory_bytes"] > 200_000_000
    assert 0 < metadata["cpu_seconds"] < 60
    assert "numpy " in metadata["libraries"]


def test_a_metric_that_is_no_number_fails_the_step_before_kubeflow_does(tmp_path: Path) -> None:
    kfp_input = executor_input(tmp_path)

    done = run(tmp_path, "return {'auc_roc': float('nan')}", [*FLAGS, "--executor-input", json.dumps(kfp_input)])

    assert done.returncode == 1
    assert not Path(kfp_input["outputs"]["outputFile"]).exists()


def test_of_the_processes_that_torchrun_has_started_the_first_one_reports(tmp_path: Path) -> None:
    kfp_input, message = executor_input(tmp_path), tmp_path / "message"
    output, flags = Path(kfp_input["outputs"]["outputFile"]), [*FLAGS, "--executor-input", json.dumps(kfp_input)]

    for rank in ("1", "0"):
        assert not output.exists() and not message.exists()
        variables = {"RANK": rank, "NIGHTSHIFT_TERMINATION_MESSAGE": str(message)}
        assert run(tmp_path, "return {'rows': 3}", flags, **variables).returncode == 0

    assert output.exists() and message.exists()


def test_a_step_that_fails_reports_nothing(tmp_path: Path) -> None:
    kfp_input = executor_input(tmp_path)

    done = run(tmp_path, "raise UserError('no')", [*FLAGS, "--executor-input", json.dumps(kfp_input)])

    assert done.returncode == 2
    assert not Path(kfp_input["outputs"]["outputFile"]).exists()
