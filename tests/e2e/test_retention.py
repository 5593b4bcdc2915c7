"""`nightshift gc` after real runs: what is left still reproduces the champion."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.command import newest, nightshift

DATES = ("2025-06-29", "2025-06-30")
YEAR = 365 * 24 * 3600


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    config: dict[str, Any] = yaml.safe_load(Path("pipelines/configs/fraud.yaml").read_text())
    config["simulator"] = {"customers": 300, "terminals": 600}
    config["evaluation"] = {"min_positives": 5, "min_average_precision": 0.01, "tolerance": 1.0}
    config["task"]["candidates"] = {"logistic_regression": {"kind": "logistic_regression"}}
    (tmp_path / "fraud.yaml").write_text(yaml.safe_dump(config))
    yield tmp_path
    nightshift(tmp_path, "stop")


def run(workspace: Path, date: str) -> dict[str, Any]:
    nightshift(workspace, "run", "--config", str(workspace / "fraud.yaml"), "--date", date, "--target", "register-only")
    return newest(workspace)


def age(workspace: Path, *names: str) -> None:
    """Have runs, and all of the lake, be a year older."""
    then = time.time() - YEAR
    for name in names:
        path = workspace / "runs" / name / "run.json"
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"started": "2020-01-01T00:00:00+00:00"}))
    for path in (workspace / "lake").rglob("*.*"):
        os.utime(path, (then, then))


@pytest.mark.slow
def test_after_old_runs_are_removed_the_champions_date_gives_the_same_hashes(workspace: Path) -> None:
    lost = run(workspace, "2025-06-20")
    manifest = json.loads((workspace / "runs" / lost["run"] / "ingestion" / "events").read_text())
    oldest = Path(manifest["partitions"][0]["uri"])
    first, champion = (run(workspace, date) for date in DATES)
    assert champion["model_version"] == champion["champion_version"]
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{workspace}/registry/mlflow.db")
    client.set_model_version_tag("fraud", str(lost["model_version"]), "registered_at", "2020-01-01T00:00:00+00:00")
    age(workspace, lost["run"], first["run"], champion["run"])

    assert oldest.exists()
    config = str(workspace / "fraud.yaml")
    listed = nightshift(workspace, "gc", "--config", config)
    removed = nightshift(workspace, "gc", "--config", config, "--delete")

    for said in (listed, removed):
        assert lost["run"] in said.replace("\n", "")
        assert first["run"] not in said
    assert not (workspace / "runs" / lost["run"]).exists()
    assert not oldest.exists()
    again = run(workspace, DATES[1])
    assert again["hashes"] == champion["hashes"]
    assert (again["repeat"]["run"], again["repeat"]["differs"]) == (champion["run"], [])
    record = json.loads((workspace / "runs" / again["run"] / "features" / "executor_output.json").read_text())
    assert record["artifacts"]["features"]["artifacts"][0]["metadata"]["computed_days"] == 0
