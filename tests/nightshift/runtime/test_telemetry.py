"""What a step pushes, taken by a real Pushgateway."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightshift.runtime.telemetry import GATEWAY, PIPELINE
from nightshift_testkit.prometheus import pushgateway, samples
from nightshift_testkit.servers import free_port
from pipelines import configs

pytestmark = pytest.mark.slow

SCRIPT = """
from nightshift.runtime import flags, step

step.run(flags.StepParser("sample", "Does nothing.").takes(config="the config"), lambda context: {measured})
"""
LABELS = {"job": "nightshift", "instance": "", "pipeline": "training", "use_case": "fraud", "step": "sample"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with pushgateway() as url:
        yield url


def run(tmp_path: Path, measured: dict[str, Any], gateway: str | None) -> subprocess.CompletedProcess[str]:
    """Run a step that finds something, as an engine does."""
    (tmp_path / "sample.py").write_text(SCRIPT.format(measured=measured))
    outputs = {"outputFile": str(tmp_path / "output.json"), "artifacts": {"page": {"artifacts": [{"name": "page"}]}}}
    flags = ["--config", json.dumps(configs.load("fraud")), "--executor-input", json.dumps({"outputs": outputs})]
    named = {GATEWAY: gateway} if gateway else {}
    environment = {key: value for key, value in os.environ.items() if key != GATEWAY} | named
    return subprocess.run(
        [sys.executable, "-W", "error", str(tmp_path / "sample.py"), *flags],
        env=environment | {PIPELINE: "training"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def pushed(gateway: str) -> dict[str, float]:
    """What the gateway has of the step: name, with the value of the label `name` behind it, to value."""
    metrics = {}
    for (name, labels), value in samples(f"{gateway}/metrics").items():
        if LABELS.items() <= dict(labels).items():
            metrics[f"{name} {dict(labels).get('name', '')}".strip()] = value
    return metrics


def test_a_step_pushes_what_it_took_and_what_it_found(tmp_path: Path, gateway: str) -> None:
    done = run(tmp_path, {"rows": 7, "psi": {"amount": 0.25}, "said": "text", "page": {"curve": [1, 2]}}, gateway)

    assert (done.returncode, done.stderr) == (0, "")
    metrics = pushed(gateway)
    assert metrics["nightshift_sample_rows"] == 7
    assert metrics["nightshift_sample_psi amount"] == 0.25
    assert metrics["nightshift_step_peak_memory_bytes"] > 1e6
    assert {"nightshift_step_seconds", "nightshift_step_cpu_seconds"} <= set(metrics)
    assert time.time() - metrics["nightshift_step_last_success_timestamp_seconds"] < 60
    assert not {name for name in metrics if "said" in name or "page" in name}


def test_the_next_push_leaves_nothing_of_the_last_one(tmp_path: Path, gateway: str) -> None:
    run(tmp_path, {"gone": 1, "psi": {"amount": 0.25, "gone": 1.0}}, gateway)
    run(tmp_path, {"psi": {"amount": 0.5}}, gateway)

    metrics = pushed(gateway)
    assert metrics["nightshift_sample_psi amount"] == 0.5
    assert not {"nightshift_sample_gone", "nightshift_sample_psi gone"} & set(metrics)


def test_without_a_gateway_nothing_is_pushed(tmp_path: Path, gateway: str) -> None:
    run(tmp_path, {"rows": 1}, gateway)

    done = run(tmp_path, {"rows": 2}, None)

    assert (done.returncode, done.stderr) == (0, "")
    assert pushed(gateway)["nightshift_sample_rows"] == 1


@pytest.mark.parametrize("wrong", ["http://127.0.0.1:{port}", "http://127.0.0.1:{port}/\n", "http://[", "silent"])
def test_a_gateway_that_fails_is_a_line_in_the_log_of_a_step_that_is_done(tmp_path: Path, wrong: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1] if wrong == "silent" else free_port()
        url = f"http://127.0.0.1:{port}" if wrong == "silent" else wrong.format(port=port)
        done = run(tmp_path, {"rows": 2}, url)

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "does not take this step's metrics" in done.stderr
    assert (tmp_path / "output.json").exists()


def test_a_gateway_that_refuses_is_a_line_in_the_log_of_a_step_that_is_done(tmp_path: Path, gateway: str) -> None:
    done = run(tmp_path, {"rows": 2}, f"{gateway}/nowhere")

    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "404" in done.stderr
