"""Who is notified of a run that failed on a server that speaks Kubeflow's API."""

from pathlib import Path
from typing import Any

import kfp_server_api as api
import pytest

from nightshift.contracts.notification import Outbox
from nightshift_testkit.kubeflow import Kubeflow
from nightshift_testkit.receivers import WebhookReceiver, receiving
from pipelines import configs
from pipelines.cli.__main__ import parse_command_line
from pipelines.engines.kubeflow.failures import add_failures
from tests.pipelines.engines.kubeflow.test_exporter import ended, nightshift, server_of

VARIABLE = "NIGHTSHIFT_NOTIFY_WEBHOOK"
CONFIG = configs.load("fraud") | {"notify": {"receivers": [{"variable": VARIABLE, "digest_minutes": 0}]}}


@pytest.fixture
def scheduled(kubeflow: Kubeflow) -> Kubeflow:
    """Every pipeline by the clock, and nothing has run yet."""
    nightshift(kubeflow, "schedule")
    return kubeflow


def start(kubeflow: Kubeflow, folder: Path, end: str, failed: tuple[str, ...] = (), **changes: Any) -> None:
    """Have a training end in a state, with some nodes of its workflow failed."""
    server = server_of(kubeflow)
    definition = server.find_newest("training")
    where = {name: str(folder / name) for name in ("lake", "runs", "registry", "audit", "checkpoints")}
    values = {"config": CONFIG, "date": "2025-07-01", "state": where | {"target": "register-only"}} | changes
    server.submit(f"run-{len(kubeflow.runs)}", definition, dict.fromkeys(definition.parameters, "x") | values)
    run = kubeflow.runs[-1]
    ended(run, end, len(kubeflow.runs), hours=1)
    nodes = {"root-driver": "SUCCEEDED", "features": "SUCCEEDED"} | dict.fromkeys(failed, "FAILED")
    run.run_details = api.V2beta1RunDetails(
        task_details=[api.V2beta1PipelineTaskDetail(display_name=name, state=state) for name, state in nodes.items()]
    )


def notify(kubeflow: Kubeflow) -> int:
    args = parse_command_line(["notify", "--kubeflow", "--endpoint", kubeflow.url])
    code: int = args.command(args)
    return code


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Any:
    with receiving() as receiver:
        monkeypatch.setenv(VARIABLE, receiver.url)
        yield receiver


def test_a_failed_run_is_reported_once_with_its_steps_and_again_when_it_fails_after_a_good_one(
    scheduled: Kubeflow, tmp_path: Path, receiver: WebhookReceiver
) -> None:
    failed = ("root", "training", "executor", "training-driver")
    for state, nodes in (("FAILED", failed), ("FAILED", failed), ("SUCCEEDED", ()), ("FAILED", ("drift-driver",))):
        start(scheduled, tmp_path, state, nodes)
        assert [notify(scheduled) for _ in range(2)] == [0, 0]

    first, second = [body["notifications"][0] for body in receiver.bodies]
    assert (first["event"], first["use_case"], first["pipeline"]) == ("failed", "fraud", "training")
    assert first["sentence"] == "The run failed in training. The step's log on Kubeflow says why."
    assert first["link"] == f"{scheduled.url}/#/runs/details/{scheduled.runs[0].run_id}"
    assert (second["subject"], second["run"]) == ("drift", "run-3")


def test_of_past_days_of_runs_under_way_and_of_use_cases_without_receivers_nobody_is_notified(
    scheduled: Kubeflow, tmp_path: Path, receiver: WebhookReceiver
) -> None:
    start(scheduled, tmp_path, "SUCCEEDED")
    start(scheduled, tmp_path, "FAILED", state={"target": "record-only"})
    start(scheduled, tmp_path, "RUNNING")
    start(scheduled, tmp_path, "FAILED", config=configs.load("fraud") | {"name": "another"})
    start(scheduled, tmp_path, "FAILED", config=CONFIG | {"name": "old", "taks": {}})

    said: list[str] = []
    (notifier,) = add_failures(server_of(scheduled), said.append)

    assert notifier.audit == str(tmp_path / "audit")
    assert not (tmp_path / "audit").exists()
    assert len(said) == 1 and said[0].startswith("run-4: ") and "taks" in said[0]


def test_a_receiver_that_is_down_is_delivered_to_later(
    scheduled: Kubeflow, tmp_path: Path, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:1/")
    start(scheduled, tmp_path, "FAILED", ("training",))
    assert notify(scheduled) == 1
    assert len(Outbox.model_validate_json((tmp_path / "audit" / "notifications.json").read_text()).pending) == 1
    monkeypatch.setenv(VARIABLE, receiver.url)
    assert notify(scheduled) == 0
    assert len(receiver.bodies) == 1
