"""The whole pipeline in a small simulated world, through the command line, with every step a real process.

A day later everything is a year old, and `nightshift gc` removes what nobody needs before the champion's date is run
again.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.reporting.summary import Summary
from nightshift.config import parse
from nightshift.contracts.registry import RegisteredVersion
from pipelines import configs
from tests.containers.test_runs import left
from tests.e2e.command import newest, nightshift

# in one group, so that one worker makes the run that all of it looks at
pytestmark = pytest.mark.xdist_group("daily-run")

LOST, DATE = "2025-06-20", "2025-06-30"
YEAR = 365 * 24 * 3600


def small_world() -> dict[str, Any]:
    """The shipped fraud config with a small world and quick models."""
    config: dict[str, Any] = yaml.safe_load((Path("pipelines/configs/fraud.yaml")).read_text())
    config["simulator"] = {"customers": 600, "terminals": 1200}
    config["evaluation"] = {"min_positives": 5, "min_average_precision": 0.05}
    config["task"]["candidates"]["mlp"]["parameters"].update(hidden=16, epochs=1)
    config["task"]["candidates"]["random_forest"]["parameters"]["n_estimators"] = 10
    return config


def run(workspace: Path, date: str = DATE, *words: str) -> dict[str, Any]:
    nightshift(workspace, "run", "--config", str(workspace / "fraud.yaml"), "--date", date, *words)
    return newest(workspace)


def age(workspace: Path) -> None:
    """Have all runs, the lake and the first version be years old."""
    uri = f"{workspace}/registry/models/fraud/1.json"
    record = RegisteredVersion.read(uri)
    record.model_copy(update={"tags": record.tags | {"registered_at": "2020-01-01T00:00:00+00:00"}}).write(uri)
    for path in (workspace / "runs").glob("*/run.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"started": "2020-01-01T00:00:00+00:00"}))
    then = time.time() - YEAR
    for path in (workspace / "lake").rglob("*.*"):
        os.utime(path, (then, then))


def oldest_partition(workspace: Path, name: str) -> Path:
    manifest = json.loads((workspace / "runs" / name / "ingestion" / "events").read_text())
    return Path(manifest["partitions"][0]["uri"])


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "fraud.yaml").write_text(yaml.safe_dump(small_world()))
    yield folder
    nightshift(folder, "stop")


@pytest.fixture(scope="module")
def lost(workspace: Path) -> dict[str, Any]:
    """A run of an earlier day whose version never becomes the champion."""
    return run(workspace, LOST, "--target", "record-only")


@pytest.fixture(scope="module")
def oldest(workspace: Path, lost: dict[str, Any]) -> Path:
    """A day that only that run has read."""
    path = oldest_partition(workspace, lost["run"])
    assert path.exists()
    return path


@pytest.fixture(scope="module")
def summary(workspace: Path, lost: dict[str, Any]) -> dict[str, Any]:
    return run(workspace)


@pytest.fixture(scope="module")
def collected(workspace: Path, summary: dict[str, Any], oldest: Path) -> list[str]:
    """What `nightshift gc` says that it would remove, and then that it has."""
    age(workspace)
    words = ("gc", "--config", str(workspace / "fraud.yaml"))
    return [nightshift(workspace, *words), nightshift(workspace, *words, "--delete")]


@pytest.fixture(scope="module")
def again(workspace: Path, collected: list[str]) -> dict[str, Any]:
    """The same date once more, after that."""
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
    answer = subprocess.run(shlex.split(summary["curl"]), capture_output=True, text=True, check=True, timeout=1200)
    assert json.loads(answer.stdout)["version"] == summary["model_version"]


def test_a_window_has_one_size_on_every_page(summary: dict[str, Any], workspace: Path) -> None:
    folder = workspace / "runs" / summary["run"]
    lineage = json.loads((folder / "training/model/model.json").read_text())["lineage"]
    sizes = {
        "selection of a candidate": lineage["validation"]["rows"],
        "final training": summary["rows"]["train"],
        "test": summary["rows"]["test"],
    }
    assert lineage["train"]["rows"] == summary["rows"]["train"]
    report, card = (folder / "report.html").read_text(), Path(summary["links"]["model_card"]).read_text()
    for window, rows in sizes.items():
        row = rf'<th scope="row">{window}</th>\s*<td>[^<]*</td>\s*<td class="n"><data value="(\d+)"'
        assert set(re.findall(row, report)) == {str(rows)}, window
        assert re.findall(rf"\| {window} \|[^|]*\| ([\d,]+)", card) == [f"{rows:,}"], window
    assert re.findall(r"compared on ([\d,]+) rows", report) == [f"{sizes['selection of a candidate']:,}"]


def test_every_form_of_the_runs_graph_is_compared_and_the_choice_goes_into_the_config(
    summary: dict[str, Any], workspace: Path, tmp_path: Path
) -> None:
    config = tmp_path / "fraud.yaml"
    config.write_text(configs.find_file("fraud").read_text() + "optimization: {form: graph}\n")
    words = [sys.executable, "-m", "pipelines.cli", "optimize", summary["run"], "--workspace", str(workspace)]
    done = subprocess.run([*words, "--config", str(config)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = [line[2:15].strip() for line in done.stdout.splitlines() if line.startswith("  ")]
    assert names[:6] == ["original", "graph", "int8 dynamic", "int8 static", "cuda", "tensorrt"]
    chosen = re.search(r"the form to serve \S+ in: (.+)", done.stdout)[1]
    assert parse(configs.load(str(config))).optimization.form == chosen

    other = subprocess.run([*words, "--config", "digits"], capture_output=True, text=True, check=False)
    assert other.returncode == 2
    assert f"{summary['run']} is no training of 'digits'" in other.stderr


def test_a_run_in_containers_makes_the_same_bytes_as_one_in_processes(
    engine: Any, summary: dict[str, Any], workspace: Path, tmp_path: Path
) -> None:
    where = ("--config", str(workspace / "fraud.yaml"), "--target", "register-only", "--date", DATE)
    nightshift(tmp_path, "run", "--runner", "docker", *where)
    inside = newest(tmp_path)
    assert inside["status"] == "succeeded"
    assert inside["hashes"] == summary["hashes"]
    assert left(engine, tmp_path) == []


def test_an_old_run_and_the_days_it_alone_has_read_go_and_the_champions_stay(
    lost: dict[str, Any], oldest: Path, summary: dict[str, Any], collected: list[str], workspace: Path
) -> None:
    for printed in collected:
        assert lost["run"] in printed.replace("\n", "")
        assert summary["run"] not in printed
    assert not (workspace / "runs" / lost["run"]).exists()
    assert not oldest.exists()
    assert oldest_partition(workspace, summary["run"]).exists()


def test_the_same_date_again_computes_no_day_gives_the_same_hashes_and_no_second_version(
    summary: dict[str, Any], again: dict[str, Any], workspace: Path
) -> None:
    assert again["run"] != summary["run"]
    assert again["hashes"] == summary["hashes"]
    assert (again["repeat"]["run"], again["repeat"]["differs"]) == (summary["run"], [])
    assert again["model_version"] == summary["model_version"]
    assert again["verdicts"]["deployment"]["decision"] == "kept"
    features = json.loads((workspace / "runs" / again["run"] / "features" / "executor_output.json").read_text())
    assert features["artifacts"]["features"]["artifacts"][0]["metadata"]["computed_days"] == 0


def test_a_failed_run_still_gets_a_report(workspace: Path) -> None:
    config = small_world()
    config["quarantine"] = {"max_share": 0.0}
    config["simulator"]["corrupt_share"] = 0.05
    (workspace / "broken.yaml").write_text(yaml.safe_dump(config))
    words = ["run", "--config", str(workspace / "broken.yaml"), "--date", DATE, "--workspace", str(workspace)]
    failed = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *words], capture_output=True, text=True, check=False, timeout=1200
    )
    assert failed.returncode == 2
    assert "ingestion failed" in failed.stdout
    name = failed.stdout.split()[1]
    nightshift(workspace, "report", name)
    assert json.loads((workspace / "runs" / name / "summary.json").read_text())["status"] == "failed"
