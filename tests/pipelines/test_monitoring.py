"""Scoring and monitoring, through the command line, of a champion that the training pipeline has made."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from pipelines import configs

# in one group, so that one worker makes the runs that all of it looks at
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("monitoring")]

TRAINED = "2025-06-30"
STABLE = ("2025-07-01", "2025-07-02")
DRIFTED = ("2025-07-03", "2025-07-04", "2025-07-05")


def config() -> dict[str, Any]:
    """The shipped fraud config with a small world that changes, one quick model and a controller that may ask."""
    value: dict[str, Any] = yaml.safe_load((Path(configs.__file__).parent / "fraud.yaml").read_text())
    value["simulator"] = {"customers": 300, "terminals": 600, "drift_from": DRIFTED[0], "volume_factor": 3.0}
    value["task"]["candidates"] = {"logistic_regression": {"kind": "logistic_regression"}}
    # among a few hundred rows a day chance alone moves an input by more than the default
    value["drift"] = {"wasserstein": 0.3}
    value["evaluation"] = {"min_positives": 5, "min_average_precision": 0.05}
    return value | {"controller": {"retrain": "on_drift"}}


def nightshift(workspace: Path, pipeline: str, day: str, *words: str) -> str:
    options = ["--date", day, "--config", str(workspace / "fraud.yaml"), "--workspace", str(workspace), *words]
    command = [sys.executable, "-m", "pipelines.cli", "run", pipeline, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def left(workspace: Path, pattern: str) -> dict[str, Any]:
    (path,) = (workspace / "runs").glob(pattern)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def asked(workspace: Path, day: str) -> dict[str, Any]:
    return left(workspace, f"fraud-monitoring-{day}-*/monitoring/request")


def audited(workspace: Path, day: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((workspace / "audit" / "fraud" / f"{day}.json").read_text())
    return found


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a champion."""
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "fraud.yaml").write_text(yaml.safe_dump(config()))
    nightshift(folder, "training", TRAINED, "--target", "register-only")
    return folder


@pytest.fixture(scope="module")
def scored(workspace: Path) -> dict[str, str]:
    """What the scoring of each stable day has printed."""
    return {day: nightshift(workspace, "scoring", day) for day in STABLE}


@pytest.fixture(scope="module")
def told(workspace: Path, scored: dict[str, str]) -> dict[str, str]:
    """What the monitoring of each day has printed, after the scoring."""
    return {day: nightshift(workspace, "monitoring", day) for day in (*STABLE, *DRIFTED)}


def test_the_champion_scores_a_day_whose_labels_nobody_knows(workspace: Path, scored: dict[str, str]) -> None:
    scores = left(workspace, f"fraud-scoring-{STABLE[0]}-*/scoring-of-champion/scores/scores.json")
    path = scores["partitions"][-1]["uri"]
    rows = pd.read_parquet(path)
    assert set(rows["event_time"].dt.strftime("%Y-%m-%d")) == {STABLE[0]}
    assert set(rows["model_version"]) == {"1"}
    said = f"{len(rows):,} events of {STABLE[0]} scored by version 1\n  {rows['flagged'].sum():,} of them flagged.\n"
    assert said in scored[STABLE[0]]
    assert f"\nscores   {path}\n" in scored[STABLE[0]]
    place = f"--config {workspace / 'fraud.yaml'} --workspace {workspace}"
    assert scored[STABLE[0]].endswith(f"next     nightshift run monitoring --date {STABLE[0]} {place}\n")


def test_the_day_after_the_new_day_is_scored_and_the_one_whose_labels_arrived(
    workspace: Path, scored: dict[str, str]
) -> None:
    (log,) = (workspace / "runs").glob(f"fraud-scoring-{STABLE[1]}-*/scoring-of-champion/log.txt")
    lines = [line for line in log.read_text().splitlines() if line.startswith("scoring")]
    assert [line.split()[-1] for line in lines] == ["2025-06-25", STABLE[1]]


def test_a_backfill_of_the_scoring_tells_what_was_scored_each_day(workspace: Path, scored: dict[str, str]) -> None:
    words = ["--from", STABLE[0], "--to", STABLE[-1], "--config", workspace / "fraud.yaml", "--workspace", workspace]
    command = [sys.executable, "-m", "pipelines.cli", "backfill", "scoring", *words]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()

    (heading,) = [line for line in told if "date" in line]
    assert {"date", "state", "scored", "flagged", "version"} <= set(heading.split())
    for day in STABLE:
        (line,) = [line for line in told if day in line]
        assert f"{line.split()[5]} events of {day} scored" in scored[day]


def test_stable_days_ask_for_nothing(workspace: Path, told: dict[str, str]) -> None:
    for day in STABLE:
        request = {"schema": 1, "retrain": False, "reason": "Nothing has drifted.", "key": f"fraud/{day}"}
        assert asked(workspace, day) == request
        assert "\nNo retraining needed\n  Nothing has drifted.\n" in told[day]


def test_a_world_that_changes_asks_once_and_cools_down(workspace: Path, told: dict[str, str]) -> None:
    assert [asked(workspace, day)["retrain"] for day in DRIFTED] == [False, True, False]
    assert asked(workspace, DRIFTED[1])["key"] == f"fraud/{DRIFTED[1]}"
    reasons = [audited(workspace, day)["reason"] for day in DRIFTED]
    assert reasons[0].startswith("Not yet: 1 drifted")
    assert reasons[1].startswith("Retrain: 2 of 3 days have drifted.")
    assert reasons[2].startswith(f"Cooling down: {DRIFTED[1]} asked")
    assert all("volume" in audited(workspace, day)["raised"] for day in DRIFTED)


def test_a_request_is_printed_with_the_command_that_carries_it_out(workspace: Path, told: dict[str, str]) -> None:
    (line,) = [line for line in told[DRIFTED[1]].splitlines() if line.startswith("next")]
    assert shlex.split(line)[1:6] == ["nightshift", "run", "training", "--date", DRIFTED[1]]
    launch = left(workspace, f"fraud-monitoring-{DRIFTED[1]}-*/retraining/launch")
    assert launch["said"] == f"no Kubeflow here; run: nightshift run training --config fraud --date {DRIFTED[1]}"
    assert not [line for day in (*STABLE, DRIFTED[0], DRIFTED[2]) for line in told[day].splitlines() if "next" in line]


def test_the_champion_is_held_to_what_it_reached_when_it_was_evaluated(workspace: Path, told: dict[str, str]) -> None:
    evaluation = left(workspace, "fraud-training-*/evaluation/evaluation/evaluation.json")
    evaluated = evaluation["models"][evaluation["selected"]]
    drift = left(workspace, f"fraud-monitoring-{DRIFTED[1]}-*/drift/drift/drift.json")

    promised = {"average_precision": evaluated["average_precision"], "measured": "when it was evaluated"}
    assert (drift["model_version"], drift["promised"]) == ("1", promised)
