"""The monitoring pipeline, through the command line, on a model that the training pipeline's steps have made."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines import configs, runs
from pipelines.environments import local

TRAINED, DRIFTED = "2025-06-30", ("2025-07-01", "2025-07-02")
STEPS = ("ingestion", "features", "training")


def config(**simulator: Any) -> dict[str, Any]:
    """The shipped fraud config with a small world, one quick model and a controller that may ask."""
    value: dict[str, Any] = yaml.safe_load((Path(configs.__file__).parent / "fraud.yaml").read_text())
    value["simulator"] = {"customers": 300, "terminals": 600} | simulator
    value["training"]["models"] = {"logistic_regression": {"kind": "logistic_regression"}}
    return value | {"controller": {"retrain": "on_drift"}}


def test_every_step_understands_the_command_line_it_is_given(tmp_path: Path) -> None:
    run = runs.new(runs.compiled("fraud-monitoring"), {"date": TRAINED, "model": "m"}, local(tmp_path))
    modules = []
    for task in run.pipeline.tasks:
        command = run.command(task)
        modules.append(command[2])
        assert importlib.import_module(f"{command[2]}.__main__").parser().parse_args(command[3:]).date == TRAINED
    assert modules == [f"components.{name}" for name in ("ingestion", "features", "drift", "monitoring")]


def test_only_features_are_cached_since_the_rest_depends_on_more_than_its_arguments() -> None:
    assert [task.name for task in runs.compiled("fraud-monitoring").tasks if task.cached] == ["features"]


@pytest.mark.slow
def test_a_world_that_changes_asks_for_a_retraining_on_the_second_day(tmp_path: Path) -> None:
    (tmp_path / "drifted.yaml").write_text(yaml.safe_dump(config(drift_from=DRIFTED[0], volume_factor=3.0)))
    model = trained(tmp_path)
    asked = []
    for day in DRIFTED:
        words = ["run", "fraud-monitoring", "--config", str(tmp_path / "drifted.yaml"), "--date", day]
        command = [sys.executable, "-m", "pipelines", *words, "--set", f"model={model}", "--workspace", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        (request,) = (tmp_path / "runs").glob(f"fraud-monitoring-{day}-*/monitoring/request")
        asked.append(json.loads(request.read_text()))

    assert [made["retrain"] for made in asked] == [False, True]
    entry = json.loads((tmp_path / "audit" / "fraud" / f"{DRIFTED[1]}.json").read_text())
    assert "volume" in entry["raised"]
    assert (entry["reason"], entry["key"]) == (asked[1]["reason"], asked[1]["key"])


def trained(folder: Path) -> str:
    """Run the first steps of the training pipeline and return the model's folder."""
    (folder / "stable.yaml").write_text(yaml.safe_dump(config()))
    options = {"config": str(folder / "stable.yaml"), "date": TRAINED}
    run = runs.new(runs.compiled("fraud-training"), options, local(folder))
    for task in run.pipeline.tasks:
        if task.name in STEPS:
            (run.folder / task.name).mkdir(parents=True)
            subprocess.run([sys.executable, *run.command(task)[1:]], check=True, capture_output=True, timeout=120)
    return str(run.folder / "training" / "model")
