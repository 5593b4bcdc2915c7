"""The whole pipeline in a small simulated world, through the command line, with every step a real process."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.reporting.summary import Summary
from tests.e2e.command import newest, nightshift

# in one group, so that one worker makes the run that all of it looks at
pytestmark = pytest.mark.xdist_group("daily-run")

DATE = "2025-06-30"


def small_world() -> dict[str, Any]:
    """The shipped fraud config with a small world and quick models."""
    config: dict[str, Any] = yaml.safe_load((Path("pipelines/configs/fraud.yaml")).read_text())
    config["simulator"] = {"customers": 600, "terminals": 1200}
    config["evaluation"] = {"min_positives": 5, "min_average_precision": 0.05}
    config["task"]["candidates"]["mlp"]["parameters"].update(hidden=16, epochs=1)
    config["task"]["candidates"]["random_forest"]["parameters"]["n_estimators"] = 10
    return config


def run(workspace: Path, date: str = DATE) -> dict[str, Any]:
    nightshift(workspace, "run", "--config", str(workspace / "fraud.yaml"), "--date", date)
    return newest(workspace)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "fraud.yaml").write_text(yaml.safe_dump(small_world()))
    yield folder
    nightshift(folder, "stop")


@pytest.fixture(scope="module")
def summary(workspace: Path) -> dict[str, Any]:
    return run(workspace)


def test_one_command_takes_data_through_every_step(summary: dict[str, Any]) -> None:
    Summary.model_validate(summary)
    assert summary["status"] == "succeeded"
    assert summary["logical_date"] == DATE
    assert set(summary["steps"]) >= {
        "ingestion",
        "features",
        "training",
        "profiling",
        "optimization",
        "evaluation",
        "drift",
        "deployment",
    }
    assert set(summary["models"]) == {"xgboost", "mlp", "logistic_regression", "random_forest"}
    assert summary["rows"]["train"] > summary["rows"]["train_positives"] > 0


def test_the_first_model_is_promoted_and_answers_on_the_printed_line(summary: dict[str, Any]) -> None:
    assert summary["verdicts"]["deployment"]["decision"] == "promoted"
    answer = subprocess.run(shlex.split(summary["curl"]), capture_output=True, text=True, check=True, timeout=300)
    assert json.loads(answer.stdout)["version"] == summary["model_version"]


def test_the_report_lies_beside_the_summary_and_needs_nothing_else(summary: dict[str, Any], workspace: Path) -> None:
    report = (workspace / "runs/latest/report.html").read_text()
    assert summary["run"] in report
    assert "<link" not in report


def test_the_same_date_again_gives_the_same_hashes_and_no_second_version(
    summary: dict[str, Any], workspace: Path
) -> None:
    again = run(workspace)
    assert again["run"] != summary["run"]
    assert again["hashes"] == summary["hashes"]
    assert again["model_version"] == summary["model_version"]
    assert again["verdicts"]["deployment"]["decision"] == "kept"


def test_models_lists_the_version(summary: dict[str, Any], workspace: Path) -> None:
    assert str(summary["model_version"]) in nightshift(workspace, "models")


def test_a_failed_run_still_gets_a_report(workspace: Path) -> None:
    config = small_world()
    config["quarantine"] = {"max_share": 0.0}
    config["simulator"]["corrupt_share"] = 0.05
    (workspace / "broken.yaml").write_text(yaml.safe_dump(config))
    words = ["run", "--config", str(workspace / "broken.yaml"), "--date", DATE, "--workspace", str(workspace)]
    failed = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert failed.returncode == 2
    assert "ingestion failed" in failed.stdout
    name = failed.stdout.split()[1]
    nightshift(workspace, "report", name)
    assert json.loads((workspace / "runs" / name / "summary.json").read_text())["status"] == "failed"
