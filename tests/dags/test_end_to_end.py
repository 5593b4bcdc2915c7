"""The real Airflow, all parts of it on SQLite, with two use cases in a small simulated world that drifts."""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from components.common.errors import UserError
from pipelines.engines.airflow import standalone
from tests.processes import wait_until

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("NIGHTSHIFT_PYTHON", ROOT / ".venv/bin/python"))
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
    "task": {
        "kind": "tabular",
        "windows_days": [1],
        "candidates": {"logistic_regression": {"kind": "logistic_regression"}},
    },
    "evaluation": {"min_positives": 1, "min_average_precision": 0.0},
    "drift": {"window_days": 1},
    "controller": {"retrain": "on_drift", "days": 1, "of": 1, "cooldown_days": 3},
}
OTHER = CONFIG | {"name": "other", "simulator": CONFIG["simulator"] | {"seed": 1}}
USE_CASES = ("small", "other")
SECONDS = 900  # of all that Airflow is asked to do here, on a loaded machine

until = partial(wait_until, seconds=SECONDS)


class Slack:
    """A server that takes what is posted to a webhook of Slack's."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        texts = self.texts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                texts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *words: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def connection(self) -> str:
        return json.dumps({"conn_type": "slackwebhook", "password": f"http://127.0.0.1:{self.server.server_port}/hook"})


@dataclass
class Airflow:
    """What a person does with Airflow, through its REST API."""

    running: standalone.Standalone
    folder: Path
    slack: Slack
    by_hand: "subprocess.Popen[str]"
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.running.client()

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
        found = self.call("GET", f"/dags/{dag}/dagRuns")["dag_runs"]
        return [run for run in found if run["run_type"] == kind]

    def follows(self, dag: str, day: str) -> str:
        """Wait for the run that the event of a day starts, and return its id."""

        def found() -> list[str]:
            return [run["dag_run_id"] for run in self.runs(dag, "asset_triggered") if run["partition_key"] == day]

        return until(found, f"{dag} runs for {day}")[0]

    def end(self, dag: str, run: str) -> str:
        """Wait for a run's end and return its state."""
        path = f"/dags/{dag}/dagRuns/{run}"
        until(lambda: self.call("GET", path)["state"] in ("success", "failed"), f"{run} of {dag} ends")
        return str(self.call("GET", path)["state"])

    def tasks(self, dag: str, run: str) -> dict[str, Any]:
        found = self.call("GET", f"/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {task["task_id"]: task for task in found}

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
        """Read the only file of the workspace that fits."""
        (path,) = (self.folder / "workspace").glob(pattern)
        return json.loads(path.read_text())


def example() -> str:
    """Return the DAG that docs/airflow.md shows to those who follow a model."""
    found = re.findall("```python\n(.*?)```", (ROOT / "docs/airflow.md").read_text(), re.DOTALL)
    (code,) = [text for text in found if "after_promotion" in text]
    return str(code).replace("fraud/model", "small/model")


def nightshift(*words: str) -> "subprocess.Popen[str]":
    command = [str(PYTHON), "-m", "pipelines.cli", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """An Airflow in which a training, a run that fails, and one on missing data are under way; and one by hand."""
    if not PYTHON.exists():
        assert "CI" not in os.environ, f"{PYTHON} is missing; make {ROOT}/.venv/.run"
        pytest.skip(f"the steps' environment is missing: {PYTHON}; make .venv/.run")
    folder = tmp_path_factory.mktemp("airflow")
    workspace, slack = folder / "workspace", Slack()
    dags = shutil.copytree(Path(__file__).parent / "fixing", folder / "dags")
    (dags / "follower.py").write_text(example())
    for config in (CONFIG, OTHER):
        path = folder / f"{config['name']}.yaml"
        path.write_text(yaml.safe_dump(config))
        standalone.add_use_case(str(path), dags)
    places = {"NIGHTSHIFT_WORKSPACE": str(workspace), "NIGHTSHIFT_PYTHON": str(PYTHON)}
    others = {"PYTHONPATH": str(ROOT), "AIRFLOW_CONN_NIGHTSHIFT_SLACK": slack.connection, "FIXING": str(folder)}
    running = standalone.start(folder / "home", dags, places | others)
    by_hand = nightshift(
        *("run", "--date", DATE, "--target", "register-only"),
        *("--config", str(folder / "small.yaml"), "--workspace", str(folder / "by hand")),
    )
    try:
        made = Airflow(running, folder, slack, by_hand)
        trainings = [f"{name}_training" for name in USE_CASES]
        for dag in ("fixing", "after_promotion", "small_ingestion", "small_monitoring", *trainings):
            made.unpause(dag)
        made.trigger("fixing", "first", date=DATE)
        made.trigger("small_ingestion", "missing", date=DATE, data=str(folder / "nothing"))
        for dag in trainings:
            made.trigger(dag, "first", date=DATE, target="register-only")
        yield made
    finally:
        by_hand.kill()
        by_hand.communicate()
        running.stop()
        nightshift("stop", "--workspace", str(workspace)).communicate()
        slack.server.shutdown()
        slack.server.server_close()


def test_a_step_that_fails_is_tried_again_and_then_holds_back_what_follows(airflow: Airflow) -> None:
    assert airflow.end("fixing", "first") == "failed"
    assert airflow.states("fixing", "first") == {"needing": "failed", "following": "upstream_failed"}
    assert (airflow.folder / "tries").read_text() == f"{DATE}\n" * 2
    assert not (airflow.folder / "done").exists()


def test_a_failed_step_is_told_to_the_webhook_once(airflow: Airflow) -> None:
    text = "*fixing: needing failed in first*\nexit code 1"
    told = until(lambda: [said for said in airflow.slack.texts if said.startswith(text)], "the failure is told")
    assert len(told) == 1
    assert f"{airflow.running.url}/dags/fixing/runs/first/tasks/needing" in told[0]


def test_a_run_past_its_deadline_is_told_to_the_webhook(airflow: Airflow) -> None:
    text = "*fixing: first is late*\ndue by 20"
    assert until(lambda: [said for said in airflow.slack.texts if said.startswith(text)], "the delay is told")


def test_clearing_a_fixed_step_completes_the_run(airflow: Airflow) -> None:
    (airflow.folder / "fixed").touch()
    airflow.clear("fixing", "first", only_failed=True)

    until(lambda: (airflow.folder / "done").exists(), "the next step runs")
    assert airflow.end("fixing", "first") == "success"
    assert airflow.states("fixing", "first") == {"needing": "success", "following": "success"}


def test_a_mistake_of_the_user_is_not_tried_again(airflow: Airflow) -> None:
    assert airflow.end("small_ingestion", "missing") == "failed"
    tasks = airflow.tasks("small_ingestion", "missing")
    assert (tasks["ingestion"]["try_number"], tasks["ingestion"]["max_tries"]) == (1, 2)
    assert tasks["announce_day"]["state"] == "upstream_failed"


def test_a_failed_run_that_is_not_late_yet_can_be_cleared(airflow: Airflow) -> None:
    assert airflow.end("small_ingestion", "missing") == "failed"

    airflow.clear("small_ingestion", "missing", only_failed=True)

    until(lambda: airflow.tasks("small_ingestion", "missing")["ingestion"]["try_number"] == 2, "it is tried again")
    assert airflow.end("small_ingestion", "missing") == "failed"


def test_a_run_makes_what_the_command_line_makes(airflow: Airflow) -> None:
    said = airflow.by_hand.communicate(timeout=SECONDS)[0]
    assert airflow.by_hand.returncode == 0, said
    assert airflow.end("small_training", "first") == "success", airflow.states("small_training", "first")
    (by_hand,) = (airflow.folder / "by hand/runs").glob("small-training-*/summary.json")

    made = airflow.artifact(f"runs/small-training-{DATE}-first/summary.json")

    assert made["hashes"] == json.loads(by_hand.read_text())["hashes"]
    assert set(made["hashes"]) >= {"events", "features", "model"}
    assert made["verdicts"]["deployment"]["decision"] == "promoted"


def test_two_use_cases_that_were_started_at_once_both_succeed_and_share_no_lock_asset_or_model(
    airflow: Airflow,
) -> None:
    runs = {}
    for name in USE_CASES:
        assert airflow.end(f"{name}_training", "first") == "success", airflow.states(f"{name}_training", "first")
        runs[name] = airflow.call("GET", f"/dags/{name}_training/dagRuns/first")
    assert max(run["start_date"] for run in runs.values()) < min(run["end_date"] for run in runs.values())

    made = {name: airflow.artifact(f"runs/{name}-training-{DATE}-first/deployment/deployment") for name in USE_CASES}
    assert {name: (said["model"], said["version"]) for name, said in made.items()} == {
        name: (name, 1) for name in USE_CASES
    }
    assert made["small"]["sha256"] != made["other"]["sha256"]
    for name in USE_CASES:
        (event,) = airflow.events(f"{name}/model")
        assert event["source_dag_id"] == f"{name}_training"
    locks = {path.name for path in (airflow.folder / "workspace/runs/.locks").iterdir()}
    assert {f"{name}.gate" for name in USE_CASES} <= locks
    assert all(lock.startswith(USE_CASES) for lock in locks - {".gate"})  # .gate: of the pipeline without a use case


def test_a_promoted_model_starts_the_dag_that_the_docs_show_and_no_other_use_cases_does(airflow: Airflow) -> None:
    assert airflow.end("after_promotion", airflow.follows("after_promotion", DATE)) == "success"
    assert len(airflow.runs("after_promotion", "asset_triggered")) == 1


def test_a_drifted_day_has_one_model_trained_and_the_next_one_has_none(airflow: Airflow) -> None:
    airflow.trigger("small_ingestion", "drifted", date=DRIFTED)
    watched = airflow.follows("small_monitoring", DRIFTED)
    assert airflow.end("small_monitoring", watched) == "success"
    airflow.trigger("small_ingestion", "next", date=NEXT)
    airflow.clear("small_monitoring", watched, task_ids=["monitoring", "announce_retrain"], only_failed=False)
    trained = airflow.follows("small_training", DRIFTED)
    cooled = airflow.follows("small_monitoring", NEXT)
    ends = [("small_monitoring", watched), ("small_monitoring", cooled), ("small_training", trained)]
    assert [airflow.end(*run) for run in ends] == ["success"] * 3

    # asked for by the first day, looked at again by the same day, and refused to the second
    assert airflow.artifact(f"audit/small/{DRIFTED}.json")["retrain"]
    assert airflow.artifact(f"audit/small/{NEXT}.json")["reason"].startswith(f"Cooling down: {DRIFTED} asked")
    for run in (watched, cooled):
        assert airflow.states("small_monitoring", run)["announce_retrain"] == "skipped"
    assert [event["extra"]["date"] for event in airflow.events("small/retrain")] == [DRIFTED]
    assert [run["dag_run_id"] for run in airflow.runs("small_training", "asset_triggered")] == [trained]


def test_what_was_trained_is_promoted_or_refused_with_reasons_and_announced_when_promoted(airflow: Airflow) -> None:
    deployment = airflow.artifact(f"runs/small-training-{DRIFTED}-*/deployment/deployment")
    assert deployment["decision"] in ("promoted", "kept")
    assert deployment["reasons"]
    versions = [
        event["extra"]["version"]
        for event in airflow.call("GET", "/assets/events?name_pattern=small/model")["asset_events"]
    ]
    assert (deployment["version"] in versions) == (deployment["decision"] == "promoted")


def test_a_backfill_trains_a_past_day_of_its_use_case_and_promotes_no_model(airflow: Airflow) -> None:
    day = str(date.fromisoformat(DATE) - timedelta(days=1))
    airflow.unpause("other_backfill")
    airflow.trigger("other_backfill", "past", first=day, last=day)

    assert airflow.end("other_backfill", "past") == "success"
    assert airflow.end("other_training", f"backfill-{day}") == "success"
    deployment = airflow.artifact(f"runs/other-training-{day}-backfill-*/deployment/deployment")
    assert deployment["target"] == "record-only"
    assert deployment["decision"] != "promoted"


def test_tasks_and_people_ask_different_processes(airflow: Airflow) -> None:
    addresses = (airflow.running.url, airflow.running.tasks)
    answers = [httpx.get(f"{url}/execution/health", timeout=SECONDS).headers["content-type"] for url in addresses]
    # what is not its own, the UI answers with its page
    assert ["json" in answer for answer in answers] == [False, True]


def test_it_cannot_be_started_twice(airflow: Airflow) -> None:
    with pytest.raises(UserError, match=f"Airflow is already running at {airflow.running.url}; .* make airflow-stop"):
        standalone.start(Path(airflow.running.home), airflow.folder / "dags", {})


def test_stopping_it_leaves_no_process(airflow: Airflow) -> None:
    airflow.running.stop()

    said = subprocess.check_output(["ps", "-A", "-o", "sess=,stat=,args="], text=True).splitlines()
    left = [line for line in said if line.split()[0] == str(airflow.running.session) and line.split()[1][0] != "Z"]
    assert left == []
    assert standalone.running(Path(airflow.running.home)) is None
