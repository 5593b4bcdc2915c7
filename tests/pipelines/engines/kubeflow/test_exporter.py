"""What Prometheus is shown of the runs on a server that speaks Kubeflow's API."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from nightshift.cluster.kubeflow import KubeflowApi, KubeflowTarget
from nightshift.runtime.errors import UserError
from nightshift_testkit.kubeflow import CREATED, Failure, Kubeflow
from nightshift_testkit.processes import engine
from nightshift_testkit.prometheus import program
from nightshift_testkit.servers import free_port
from pipelines.engines.kubeflow.exporter import Runs, serve
from tests.pipelines.samples import command

HOUR = 3600.0
NOW = CREATED.timestamp() + 24 * HOUR


def server_of(kubeflow: Kubeflow) -> KubeflowApi:
    return KubeflowApi(KubeflowTarget(kubeflow.url, "nightshift"), pause=0)


def shown(kubeflow: Kubeflow, log: list[str] | None = None) -> dict[str, dict[str, float]]:
    """What is exposed: metric -> its labels with spaces between -> value."""
    metrics: dict[str, dict[str, float]] = {}
    for family in Runs(server_of(kubeflow), (log if log is not None else []).append, lambda: NOW).collect():
        metrics[family.name] = {" ".join(s.labels.values()): s.value for s in family.samples}
    return metrics


def nightshift(kubeflow: Kubeflow, *words: str) -> None:
    done = command(*words, "--environment", "aws", KFP_ENDPOINT=kubeflow.url)
    assert done.returncode == 0, done.stderr


def ended(run: Any, state: str, begun: float, hours: float) -> None:
    """Let a run have begun so many hours after midnight and taken so many."""
    run.state, run.created_at = state, CREATED + timedelta(hours=begun)
    run.finished_at = run.created_at + timedelta(hours=hours)


@pytest.fixture
def scheduled(kubeflow: Kubeflow) -> Kubeflow:
    """Every pipeline by the clock, and nothing has run yet."""
    nightshift(kubeflow, "schedule")
    return kubeflow


def start(kubeflow: Kubeflow, pipeline: str, day: str) -> Any:
    """Start a run of an uploaded pipeline, as `nightly` does."""
    server, config = server_of(kubeflow), {"name": "fraud"}
    definition = server.find_newest(pipeline)
    values = dict.fromkeys(definition.parameters, "x") | {"config": config, "state": {}}
    server.submit(f"{pipeline}-fraud-{day}", definition, values)
    return kubeflow.runs[-1]


def test_what_runs_by_the_clock_is_shown_before_it_ever_ran(scheduled: Kubeflow) -> None:
    metrics = shown(scheduled)

    since = metrics["nightshift_schedule_timestamp_seconds"]
    assert set(since) == {"ingestion fraud", "training fraud", "monitoring fraud"}
    assert min(since.values()) > CREATED.timestamp()
    assert metrics["nightshift_run_last_success_timestamp_seconds"] == {}
    assert metrics["nightshift_kubeflow_up"] == {"": 1}


def test_a_schedule_that_is_paused_is_not_shown(scheduled: Kubeflow) -> None:
    scheduled.recurring[0].status = "DISABLED"

    shown_since = shown(scheduled)["nightshift_schedule_timestamp_seconds"]
    assert set(shown_since) == {"training fraud", "monitoring fraud"}


def test_the_last_success_and_the_last_failure_are_those_of_each_pipeline(scheduled: Kubeflow) -> None:
    for day, state, begun in (("1", "SUCCEEDED", 1), ("2", "SUCCEEDED", 4), ("3", "FAILED", 8)):
        ended(start(scheduled, "training", day), state, begun, hours=2)
    ended(start(scheduled, "monitoring", "1"), "CANCELED", 9, hours=1)

    metrics = shown(scheduled)

    midnight = CREATED.timestamp()
    assert metrics["nightshift_run_last_success_timestamp_seconds"] == {"training fraud": midnight + 6 * HOUR}
    assert metrics["nightshift_run_last_failure_timestamp_seconds"] == {"training fraud": midnight + 10 * HOUR}
    assert metrics["nightshift_run_seconds"] == {"training fraud": 2 * HOUR}
    assert metrics["nightshift_runs"] == {
        "training fraud SUCCEEDED": 2, "training fraud FAILED": 1, "monitoring fraud CANCELED": 1,
    }  # fmt: skip


def test_the_oldest_unfinished_run_says_how_long_it_has_been_there(scheduled: Kubeflow) -> None:
    for day, begun in (("1", 2), ("2", 20)):
        ended(start(scheduled, "training", day), "RUNNING", begun, hours=0)

    assert shown(scheduled)["nightshift_run_under_way_seconds"] == {"training fraud": 22 * HOUR}


def test_runs_that_were_submitted_by_hand_count_with_the_others(scheduled: Kubeflow) -> None:
    nightshift(scheduled, "submit", "--date", "2025-07-01")
    ended(scheduled.runs[-1], "SUCCEEDED", 1, hours=1)

    assert shown(scheduled)["nightshift_runs"] == {"training fraud SUCCEEDED": 1}


def test_more_runs_than_one_page_of_the_api_by_default_are_looked_at(scheduled: Kubeflow) -> None:
    for day in range(15):
        ended(start(scheduled, "training", str(day)), "FAILED" if day else "SUCCEEDED", day, hours=0.5)

    assert shown(scheduled)["nightshift_run_last_success_timestamp_seconds"]


def test_it_makes_nothing_not_even_the_experiment(kubeflow: Kubeflow) -> None:
    assert shown(kubeflow)["nightshift_kubeflow_up"] == {"": 1}

    assert {request.method for request in kubeflow.requests} == {"GET"}
    assert not kubeflow.experiments


def test_a_server_that_fails_is_shown_and_told_and_no_run_is(scheduled: Kubeflow) -> None:
    scheduled.failures = [Failure("GET", "/runs")] * 4
    log: list[str] = []

    assert shown(scheduled, log) == {"nightshift_kubeflow_up": {"": 0}}
    assert "503" in log[0]


def test_a_token_that_is_refused_is_shown_too(scheduled: Kubeflow) -> None:
    scheduled.token = "another"

    assert shown(scheduled) == {"nightshift_kubeflow_up": {"": 0}}


@pytest.mark.slow
def test_prometheus_own_linter_has_nothing_to_say(scheduled: Kubeflow) -> None:
    ended(start(scheduled, "training", "1"), "SUCCEEDED", 1, hours=1)
    registry = CollectorRegistry()
    registry.register(Runs(server_of(scheduled), print))

    done = subprocess.run(
        [program("promtool"), "check", "metrics"], input=generate_latest(registry), capture_output=True
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@contextmanager
def exporting(kubeflow: Kubeflow) -> Iterator[str]:
    """The command itself, as a process that is ended afterwards; gives its URL."""
    words = ("exporter", "--endpoint", kubeflow.url, "--port", str(free_port()))
    with subprocess.Popen(engine(*words), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split()[0]
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_command_answers_scrapes_until_it_is_ended(scheduled: Kubeflow) -> None:
    with exporting(scheduled) as url:
        page = httpx.get(url)

    assert 'nightshift_schedule_timestamp_seconds{pipeline="training",use_case="fraud"}' in page.text


def test_a_port_that_is_taken_is_one_clear_line(scheduled: Kubeflow) -> None:
    port = int(scheduled.url.rsplit(":", 1)[1])

    with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port} .*--port"):
        serve(server_of(scheduled), "127.0.0.1", port, print)
