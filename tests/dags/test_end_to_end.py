"""The real Airflow, all parts of it on SQLite: a small simulated world that drifts, texts and a language model."""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from nightshift.runtime.errors import UserError
from pipelines import arguments, configs
from pipelines.engines.airflow import standalone
from tests.dags.person import (
    CONFIG,
    DATE,
    DRIFTED,
    NEXT,
    PYTHON,
    ROOT,
    SECONDS,
    Airflow,
    ByHand,
    nightshift,
    until,
)

TOPICS = configs.load("topics")
TEXTS: dict[str, Any] = TOPICS | {
    "name": "texts",
    "protocol": CONFIG["protocol"],
    "task": TOPICS["task"] | {"candidates": {"words": {"kind": "tfidf"}}},
}
NETWORK = {"kind": "llama", "parameters": {"depth": 1, "width": 32, "heads": 1, "threads": 1}}
TALES: dict[str, Any] = configs.load("tales") | {
    "protocol": CONFIG["protocol"],
    "task": {"kind": "language-modeling", "length": 64, "candidates": {"llama": NETWORK}},
    "evaluation": {"min_rows": 20},
    "optimization": {"weight_types": ["Q8_0"]},
}
TOWERS = {"kind": "clip", "parameters": {"width": 16, "layers": 1, "heads": 2, "epochs": 1, "threads": 1}}
SCANS: dict[str, Any] = configs.load("scans") | {
    "simulator": {"items": 30},
    "protocol": CONFIG["protocol"],
    "evaluation": {"min_rows": 20, "max_gap": 1.0, "max_shortcut": 1.0},
}
SCANS["task"] = SCANS["task"] | {"candidates": {"pairs": TOWERS, "frozen_text": {"kind": "linear"}}}
USE_CASES = ("small", "texts", "tales", "scans")
RECEIVER = "NIGHTSHIFT_NOTIFY_SLACK"
NOTIFYING = CONFIG | {"notify": {"receivers": [{"variable": RECEIVER, "digest_minutes": 0}]}}
# in the environment of the steps, since kfp is not here
SHARDED = """
import sys
from dataclasses import replace
from pathlib import Path
from pipelines.compiling import compile_pipeline
from pipelines.environments import LOCAL
compile_pipeline("training", replace(LOCAL, feature_shards=2), Path(sys.argv[1]))
"""
MOST_DAYS = 2  # of a backfill, of which Airflow makes tasks


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
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook"

    @property
    def connection(self) -> str:
        return json.dumps({"conn_type": "slackwebhook", "password": self.url})


@dataclass
class Installed(Airflow):
    """An Airflow of one machine, and the webhook it notifies."""

    running: standalone.Standalone
    folder: Path
    slack: Slack


def example() -> str:
    """Return the DAG that docs/guides/integrations/airflow.md shows to those who follow a model."""
    examples = re.findall("```python\n(.*?)```", (ROOT / "docs/guides/integrations/airflow.md").read_text(), re.DOTALL)
    (code,) = [text for text in examples if "after_promotion" in text]
    return str(code).replace("fraud/model", "small/model")


def shard_features(folder: Path) -> str:
    """Compile the training with features in two shards, and return the lines by which a file of DAGs takes it."""
    compiled = shutil.copytree(arguments.COMPILED, folder / "compiled")
    subprocess.run([PYTHON, "-c", SHARDED, compiled], check=True, cwd=ROOT)
    return (
        f"from pathlib import Path\n\nfrom pipelines import arguments\n\narguments.COMPILED = Path({str(compiled)!r})\n"
    )


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, by_hand: ByHand) -> Iterator[Installed]:
    """An Airflow in which three trainings, a run that fails, and one on missing data are under way."""
    folder = tmp_path_factory.mktemp("airflow")
    workspace, slack = folder / "workspace", Slack()
    dags = shutil.copytree(Path(__file__).parent / "fixing", folder / "dags")
    (dags / "follower.py").write_text(example())
    for config in (NOTIFYING, TEXTS, TALES, SCANS):
        path = folder / f"{config['name']}.yaml"
        path.write_text(yaml.safe_dump(config))
        standalone.add_use_case(str(path), dags)
    small = dags / "small.py"
    small.write_text(shard_features(folder) + small.read_text())
    folders = {"NIGHTSHIFT_WORKSPACE": str(workspace), "NIGHTSHIFT_PYTHON": str(PYTHON)}
    others = {"PYTHONPATH": str(ROOT), "AIRFLOW_CONN_NIGHTSHIFT_SLACK": slack.connection, "FIXING": str(folder)}
    others[RECEIVER] = f"slack+{slack.url}"
    others["AIRFLOW__CORE__MAX_MAP_LENGTH"] = str(MOST_DAYS)
    others["AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"] = str(SECONDS)  # no file changes here
    running = standalone.start(folder / "home", dags, folders | others)
    try:
        installed = Installed(running.client(), workspace, running, folder, slack)
        trainings = [f"{name}_training" for name in USE_CASES]
        for dag in ("fixing", "past_backfill", "after_promotion", "small_ingestion", "small_monitoring", *trainings):
            installed.unpause(dag)
        installed.trigger("fixing", "first", date=DATE)
        installed.trigger("small_ingestion", "missing", date=DATE, data=str(folder / "nothing"))
        installed.trigger("small_ingestion", "misspelled", dat=DATE)
        installed.trigger("past_backfill", "past", first=DATE, last=NEXT)
        for dag in trainings:
            installed.trigger(dag, "first", date=DATE, target="register-only")
        yield installed
    finally:
        running.stop()
        nightshift("stop", "--workspace", str(workspace)).communicate()
        slack.server.shutdown()
        slack.server.server_close()


def test_a_step_that_fails_is_tried_again_and_then_holds_back_what_follows(airflow: Installed) -> None:
    assert airflow.end("fixing", "first") == "failed"
    assert airflow.states("fixing", "first") == {"needing": "failed", "following": "upstream_failed"}
    assert (airflow.folder / "tries").read_text() == f"{DATE}\n" * 2
    assert not (airflow.folder / "done").exists()


def test_a_failed_step_is_told_to_the_webhook_once(airflow: Installed) -> None:
    text = "*fixing: needing failed in first*\nexit code 1"
    messages = until(
        lambda: [message for message in airflow.slack.texts if message.startswith(text)], "the failure is told"
    )
    assert len(messages) == 1
    assert f"{airflow.running.url}/dags/fixing/runs/first/tasks/needing" in messages[0]


def test_a_run_past_its_deadline_is_told_to_the_webhook(airflow: Installed) -> None:
    text = "*fixing: first is late*\ndue by 20"
    assert until(lambda: [message for message in airflow.slack.texts if message.startswith(text)], "the delay is told")


def test_clearing_a_fixed_step_completes_the_run(airflow: Installed) -> None:
    (airflow.folder / "fixed").touch()
    airflow.clear("fixing", "first", only_failed=True)

    until(lambda: (airflow.folder / "done").exists(), "the next step runs")
    assert airflow.end("fixing", "first") == "success"
    assert airflow.states("fixing", "first") == {"needing": "success", "following": "success"}


def test_a_mistake_of_the_user_is_not_tried_again(airflow: Installed) -> None:
    assert airflow.end("small_ingestion", "missing") == "failed"
    tasks = airflow.tasks("small_ingestion", "missing")
    assert (tasks["ingestion"]["try_number"], tasks["ingestion"]["max_tries"]) == (1, 2)
    assert tasks["announce_day"]["state"] == "upstream_failed"


def test_a_run_that_fails_is_reported_and_its_receivers_are_notified_once_for_all_its_tries(airflow: Installed) -> None:
    assert airflow.end("small_ingestion", "missing") == "failed"
    summary = airflow.artifact(f"runs/small-ingestion-{DATE}-missing/summary.json")
    assert (summary["status"], summary["steps"]["ingestion"]["state"]) == ("failed", "failed")

    airflow.clear("small_ingestion", "missing", only_failed=True)

    until(lambda: airflow.tasks("small_ingestion", "missing")["reporting"]["try_number"] == 2, "it is reported again")
    assert airflow.end("small_ingestion", "missing") == "failed"
    notified = [text for text in airflow.slack.texts if text.startswith(f"small, {DATE}: ")]
    assert len(notified) == 1 and "Data has not arrived. ingestion: " in notified[0]
    assert not [
        text for text in airflow.slack.texts if text.startswith("*small_ingestion: reporting failed in missing")
    ]


def test_a_field_that_the_form_does_not_have_is_refused_by_the_first_task_and_not_tried_again(
    airflow: Installed,
) -> None:
    assert airflow.end("small_ingestion", "misspelled") == "failed"
    assert airflow.tasks("small_ingestion", "misspelled")["ingestion"]["try_number"] == 1
    text = "conf.dat: unknown; allowed here: config, data, date, target; did you mean 'date'?"
    assert until(lambda: [message for message in airflow.slack.texts if text in message], "the refusal is told")


def test_a_backfill_of_a_paused_dag_fails_and_of_more_days_than_airflow_makes_tasks_goes_on_in_a_second_run(
    airflow: Installed,
) -> None:
    assert airflow.end("past_backfill", "past") == "failed"
    text = "past_training is paused, and its runs would wait; turn it on, then clear this task"
    assert until(lambda: [message for message in airflow.slack.texts if text in message], "the pause is told")

    airflow.unpause("past_training")
    airflow.clear("past_backfill", "past", only_failed=True)

    assert airflow.end("past_backfill", "past") == "success"
    (second,) = airflow.runs("past_backfill", "operator_triggered")
    assert airflow.end("past_backfill", second["dag_run_id"]) == "success"
    days = sorted(run["dag_run_id"] for run in airflow.runs("past_training", "operator_triggered"))
    assert days == [f"backfill-{day}" for day in (DATE, DRIFTED, NEXT)]


def test_airflows_own_backfill_stores_days_and_starts_no_other_dag(airflow: Installed) -> None:
    span = {"from_date": "2025-06-20T00:00:00Z", "to_date": "2025-06-21T00:00:00Z"}
    backfill = {"dag_id": "small_ingestion", **span}
    # 503 while another process writes to SQLite, 409 once it is there
    until(lambda: airflow.client.post("/backfills", json=backfill).status_code in (200, 409), "the backfill is there")

    runs = until(lambda: airflow.runs("small_ingestion", "backfill"), "its runs are made")
    for run in runs:
        assert airflow.end("small_ingestion", run["dag_run_id"]) == "success"
        assert airflow.states("small_ingestion", run["dag_run_id"])["announce_day"] == "skipped"
    assert len(list(airflow.state.glob("lake/**/date=2025-06-19*"))) > 0


def test_a_failed_run_that_is_not_late_yet_can_be_cleared(airflow: Installed) -> None:
    assert airflow.end("small_ingestion", "missing") == "failed"

    airflow.clear("small_ingestion", "missing", only_failed=True)

    until(lambda: airflow.tasks("small_ingestion", "missing")["ingestion"]["try_number"] == 2, "it is tried again")
    assert airflow.end("small_ingestion", "missing") == "failed"


def test_a_run_makes_what_the_command_line_makes_with_the_shards_of_its_features_as_mapped_tasks(
    airflow: Installed, by_hand: ByHand
) -> None:
    assert airflow.end("small_training", "first") == "success", airflow.states("small_training", "first")
    path = "/dags/small_training/dagRuns/first/taskInstances"
    shards = [task for task in airflow.call("GET", path)["task_instances"] if task["task_id"] == "features-shard"]
    assert sorted((task["map_index"], task["state"]) for task in shards) == [(0, "success"), (1, "success")]

    summary = airflow.artifact(f"runs/small-training-{DATE}-first/summary.json")

    assert summary["hashes"] == by_hand.hashes()
    assert set(summary["hashes"]) >= {"events", "features", "model"}
    assert summary["verdicts"]["deployment"]["decision"] == "promoted"


def test_tasks_of_every_kind_that_were_started_at_once_succeed_and_share_no_lock_asset_or_model(
    airflow: Installed,
) -> None:
    runs = {}
    for name in USE_CASES:
        assert airflow.end(f"{name}_training", "first") == "success", airflow.states(f"{name}_training", "first")
        runs[name] = airflow.call("GET", f"/dags/{name}_training/dagRuns/first")
    assert max(run["start_date"] for run in runs.values()) < min(run["end_date"] for run in runs.values())

    releases = {
        name: airflow.artifact(f"runs/{name}-training-{DATE}-first/deployment/deployment") for name in USE_CASES
    }
    assert {name: (release["model"], release["version"]) for name, release in releases.items()} == {
        name: (name, 1) for name in USE_CASES
    }
    assert len({release["sha256"] for release in releases.values()}) == len(USE_CASES)
    for name in USE_CASES:
        (event,) = airflow.events(f"{name}/model")
        assert event["source_dag_id"] == f"{name}_training"
    locks = {path.name for path in (airflow.folder / "workspace/runs/.locks").iterdir()}
    assert {f"{name}.gate" for name in USE_CASES} <= locks
    assert all(lock.startswith(USE_CASES) for lock in locks - {".gate"})  # .gate: of the pipeline without a use case


def test_a_language_model_is_released_with_its_quantized_weights(airflow: Installed) -> None:
    assert airflow.end("tales_training", "first") == "success", airflow.states("tales_training", "first")
    release = airflow.artifact(f"runs/tales-training-{DATE}-first/deployment/deployment")
    model = airflow.artifact(f"runs/tales-training-{DATE}-first/optimization/optimized/model.json")
    assert release["decision"] == "promoted"
    assert release["sha256"] == model["sha256"]
    assert model["engine_file"] == "llama.Q8_0.gguf"


def test_a_promoted_model_starts_the_dag_that_the_docs_show_and_no_other_use_cases_does(airflow: Installed) -> None:
    assert airflow.end("after_promotion", airflow.follows("after_promotion", DATE)) == "success"
    assert len(airflow.runs("after_promotion", "asset_triggered")) == 1


def test_a_drifted_day_has_one_model_trained_and_the_next_one_has_none(airflow: Installed) -> None:
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


def test_what_was_trained_is_promoted_or_refused_with_reasons_and_announced_when_promoted(airflow: Installed) -> None:
    deployment = airflow.artifact(f"runs/small-training-{DRIFTED}-*/deployment/deployment")
    assert deployment["decision"] in ("promoted", "kept")
    assert deployment["reasons"]
    versions = [event["extra"]["version"] for event in airflow.events("small/model")]
    assert (deployment["version"] in versions) == (deployment["decision"] == "promoted")


def test_tasks_and_people_ask_different_processes(airflow: Installed) -> None:
    addresses = (airflow.running.url, airflow.running.tasks)
    answers = [httpx.get(f"{url}/execution/health", timeout=SECONDS).headers["content-type"] for url in addresses]
    # what is not its own, the UI answers with its page
    assert ["json" in answer for answer in answers] == [False, True]


def test_it_cannot_be_started_twice(airflow: Installed) -> None:
    with pytest.raises(UserError, match=f"Airflow is already running at {airflow.running.url}; .* make airflow-stop"):
        standalone.start(Path(airflow.running.home), airflow.folder / "dags", {})


def test_stopping_it_leaves_no_process(airflow: Installed) -> None:
    airflow.running.stop()

    processes = subprocess.check_output(["ps", "-A", "-o", "sess=,stat=,args="], text=True).splitlines()
    left = [line for line in processes if line.split()[0] == str(airflow.running.session) and line.split()[1][0] != "Z"]
    assert left == []
    assert standalone.running(Path(airflow.running.home)) is None
