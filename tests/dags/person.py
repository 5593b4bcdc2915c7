"""A use case in a small simulated world that drifts, and what a person does with a running Airflow."""

import json
import os
import subprocess
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightshift_testkit.processes import wait_until

DATE, DRIFTED, NEXT = (str(date(2025, 6, 30) + timedelta(days=day)) for day in range(3))
CONFIG: dict[str, Any] = {
    "name": "small",
    "label_delay_days": 1,
    "source": {"files": "{date}.parquet"},
    "columns": {
        "event_id": "transaction_id",
        "event_time": "time",
        "customer": "customer_id",
        "terminal": "terminal_id",
        "amount": "amount",
        "label": "fraud",
    },
    "simulator": {"customers": 300, "terminals": 60, "drift_from": DRIFTED, "amount_factor": 3.0},
    "protocol": {"train_days": 2, "test_days": 2},
    "features": [{"preset": "payments", "windows": ["1d"]}],
    "task": {
        "kind": "tabular",
        "candidates": {"logistic_regression": {"kind": "logistic_regression"}},
    },
    "evaluation": {"min_positives": 1, "min_average_precision": 0.0},
    "drift": {"window_days": 1},
    "controller": {"retrain": "on_drift", "drifted_days": 1, "window_days": 1, "cooldown_days": 3},
}
ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("NIGHTSHIFT_PYTHON", ROOT / ".venv/bin/python"))
SECONDS = 900  # limit of all that Airflow does here, on a loaded machine

# who asked Airflow without a pause would take half of what there is of its processor
until = partial(wait_until, seconds=SECONDS, pause=0.5)


def require_steps() -> None:
    """Skip a test where the environment of the steps has not been made; it has in CI."""
    if not PYTHON.exists():
        assert "CI" not in os.environ, f"{PYTHON} is missing; make {ROOT}/.venv/.run"
        pytest.skip(f"the steps' environment is missing: {PYTHON}; make .venv/.run")


def nightshift(*words: str) -> "subprocess.Popen[str]":
    command = [str(PYTHON), "-m", "pipelines.cli", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)


@dataclass(frozen=True)
class ByHand:
    """A run of the command line, in a workspace of its own."""

    process: "subprocess.Popen[str]"
    workspace: Path

    def hashes(self) -> Any:
        """Wait for its end, and return the hashes of what it has made."""
        output = self.process.communicate(timeout=SECONDS)[0]
        assert self.process.returncode == 0, output
        (summary,) = self.workspace.glob("runs/small-training-*/summary.json")
        return json.loads(summary.read_text())["hashes"]


@dataclass
class Airflow:
    """What a person does with Airflow, through its REST API.

    Attributes:
        client: of its API.
        state: folder of lake, runs, registry and audit log.
    """

    client: httpx.Client
    state: Path

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.client.request(method, path, json=body)
        assert answer.is_success, (path, answer.text)
        return answer.json()

    def unpause(self, dag: str) -> None:
        def there() -> bool:
            errors = self.call("GET", "/importErrors")["import_errors"]
            assert not errors, errors
            return bool(self.client.get(f"/dags/{dag}").is_success)

        until(there, f"{dag} is there")
        self.call("PATCH", f"/dags/{dag}", {"is_paused": False})

    def trigger(self, dag: str, name: str, **values: str) -> None:
        self.call("POST", f"/dags/{dag}/dagRuns", {"dag_run_id": name, "logical_date": None, "conf": values})

    def runs(self, dag: str, kind: str) -> list[Any]:
        runs = self.call("GET", f"/dags/{dag}/dagRuns")["dag_runs"]
        return [run for run in runs if run["run_type"] == kind]

    def follows(self, dag: str, day: str) -> str:
        """Wait for the run that the event of a day starts, and return its id."""

        def followers() -> list[str]:
            return [run["dag_run_id"] for run in self.runs(dag, "asset_triggered") if run["partition_key"] == day]

        return until(followers, f"{dag} runs for {day}")[0]

    def end(self, dag: str, run: str) -> str:
        """Wait for a run's end and return its state."""
        path = f"/dags/{dag}/dagRuns/{run}"
        until(lambda: self.call("GET", path)["state"] in ("success", "failed"), f"{run} of {dag} ends")
        return str(self.call("GET", path)["state"])

    def tasks(self, dag: str, run: str) -> dict[str, Any]:
        instances = self.call("GET", f"/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {task["task_id"]: task for task in instances}

    def states(self, dag: str, run: str) -> dict[str, str]:
        return {name: task["state"] for name, task in self.tasks(dag, run).items()}

    def clear(self, dag: str, run: str, **what: Any) -> None:
        body = {"dag_run_id": run, "dry_run": False, **what}
        self.call("POST", f"/dags/{dag}/clearTaskInstances", body)

    def events(self, asset: str) -> list[Any]:
        """Return the events of an asset once Airflow can: it answers 500 while a run that one of them has made waits
        to start (apache/airflow#71360).
        """
        path = f"/assets/events?name_pattern={asset}"
        answer = until(lambda: (got := self.client.get(path)).is_success and got, f"{path} is answered")
        return list(answer.json()["asset_events"])

    def artifact(self, pattern: str) -> Any:
        """Read the only file of the state that fits."""
        (path,) = self.state.glob(pattern)
        return json.loads(path.read_text())
