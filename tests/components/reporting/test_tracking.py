"""Nights in a real MLflow server."""

import itertools
import json
import socket
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from components.reporting import component, tracking
from components.reporting.summary import Summary
from nightshift import registry, storage
from nightshift.contracts.release_record import Action, Entry, ReleasedVersion
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.context import StepContext
from nightshift.tracking import nights
from nightshift.tracking.nights import TrackedNight
from nightshift.tracking.runs import CLAIM, ID, RunValues
from nightshift_testkit.servers import serving
from tests.components.reporting.conftest import SCORES, Sample
from tests.components.states import state

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tracking")]

PARENT = "mlflow.parentRunId"
DOWN = "http://127.0.0.1:9"


@pytest.fixture
def client(tracking_server: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_server)


@pytest.fixture
def night(sample: Sample, tracking_server: str, request: pytest.FixtureRequest) -> Sample:
    """A night whose use case, and so its experiment, is this test's own; the registry is the server."""
    name = storage.fingerprint(request.node.name)[:20]
    sample.flags["config"] = json.dumps(json.loads(sample.flags["config"]) | {"name": f"night-{name}"})
    set_state(sample, registry=tracking_server)
    return sample


@pytest.fixture
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


def set_state(night: Sample, **changed: Any) -> None:
    night.flags["state"] = state(night.runs.parent, runs=str(night.runs), **changed)


def use_case(night: Sample) -> str:
    return str(json.loads(night.flags["config"])["name"])


def list_runs(client: Any, night: Sample) -> list[Any]:
    experiment = client.get_experiment_by_name(use_case(night))
    return list(client.search_runs([experiment.experiment_id])) if experiment else []


def find_night(client: Any, night: Sample) -> Any:
    [run] = [run for run in list_runs(client, night) if run.info.run_name == night.run]
    return run


def show(client: Any, night: Sample) -> dict[str, Any]:
    """What a person sees of all runs: name -> values, with every point of every metric, and files."""
    return {run.info.run_name: describe(client, run) for run in list_runs(client, night)}


def describe(client: Any, run: Any) -> dict[str, Any]:
    histories = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
    files = [file.path for file in client.list_artifacts(run.info.run_id)]
    return {
        "status": run.info.status,
        "parameters": run.data.params,
        "metrics": {name: [(point.step, point.value) for point in history] for name, history in histories.items()},
        "tags": {name: value for name, value in run.data.tags.items() if name != PARENT},
        "files": sorted(files),
    }


def make_small(night: Sample) -> TrackedNight:
    """What a night shows that has one candidate and one metric."""
    set_state(night)
    night.report()
    summary = Summary.model_validate(storage.read_json(str(night.folder / "summary.json")))
    whole = tracking.derive(summary, str(night.folder), is_backfill=False)
    values = replace(whole.values, metrics={"drifted_share": whole.values.metrics["drifted_share"]})
    return replace(whole, values=values, candidates={"mlp": RunValues({"hidden": "4"}, losses=[(5, 0.5), (10, 0.25)])})


def list_pending(night: Sample) -> list[str]:
    return storage.names(f"{night.runs.parent}/audit/{tracking.FOLDER}")


def test_a_night_is_one_run_with_its_candidates_nested_however_often_it_is_reported(night, client):
    night.report()
    once = show(client, night)
    night.report()
    assert show(client, night) == once
    assert set(once) == {night.run, *SCORES}
    parent = find_night(client, night)
    assert {run.data.tags.get(PARENT) for run in list_runs(client, night)} == {None, parent.info.run_id}
    shown = once[night.run]
    assert shown["metrics"]["average_precision"] == [(0, 0.6579)]
    assert shown["parameters"]["test_days"] == "2018-08-08 .. 2018-08-14"
    assert (shown["status"], shown["tags"]["evaluation"], shown["tags"]["backfill"]) == ("FINISHED", "pass", "false")
    assert shown["files"] == ["evaluation", "profile", "report.html", "summary.json"]
    assert list_pending(night) == []


def test_a_version_is_a_part_of_the_run_of_its_night(night, client, tracking_server, save_model):
    tags = {registry.PARENT_RUN: night.run}
    version = registry.register(tracking_server, use_case(night), save_model(0.5), tags, card="# Card")
    assert registry.read_card(tracking_server, version) == "# Card"
    assert find_night(client, night).info.status == "RUNNING"
    night.report()
    run = find_night(client, night)
    assert client.get_model_version(version.name, "1").run_id == run.info.run_id
    assert "model" in show(client, night)[night.run]["files"]
    assert run.info.status == "FINISHED"


def test_a_night_that_failed_and_was_refused_when_it_was_resumed_says_both(night, client, tracking_server):
    verdict = night.file("evaluation/verdict.json")
    content = verdict.read_bytes()
    verdict.unlink()
    set_state(night, registry=tracking_server, target="record-only")
    night.report()
    before = find_night(client, night)
    assert (before.info.status, before.data.tags["backfill"]) == ("FAILED", "true")
    verdict.write_bytes(content)
    night.change("evaluation/verdict.json", decision="fail", reasons=["Average precision 0.1 is below <0.3>."])
    night.change("events", sha256="0" * 64)
    night.report()
    run = find_night(client, night)
    assert (run.info.status, run.data.tags["status"]) == ("FINISHED", "succeeded")
    assert run.data.tags["evaluation"] == "fail"
    assert run.data.tags["evaluation_reasons"] == "Average precision 0.1 is below <0.3>."
    assert "- Average precision 0.1 is below &lt;0.3&gt;." in run.data.tags["mlflow.note.content"]
    # MLflow changes no parameter
    kept = before.data.params["events_sha256"]
    assert (run.data.params["events_sha256"], run.data.tags["events_sha256"]) == (kept, "0" * 64)


def test_a_server_that_is_down_fails_no_night_and_the_next_one_catches_up(
    night, new_run, client, tracking_server, one_try, caplog
):
    set_state(night, registry=DOWN)
    assert night.report()[0]["status"] == "succeeded"
    assert "MLflow does not show all runs yet, the next run tries again" in caplog.text
    assert len(list_pending(night)) == 1
    later = new_run(night.runs, "later")
    later.flags["config"] = night.flags["config"]
    set_state(later, registry=tracking_server)
    later.report()
    assert list_pending(night) == []
    assert {night.run, "later"} <= set(show(client, night))


class Failing(BaseHTTPRequestHandler):
    """Fails every request."""

    def do_GET(self) -> None:
        self.send_error(500)

    def log_message(self, *_: object) -> None:
        pass


def test_a_server_that_fails_leaves_the_night_pending(night, one_try, caplog):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Failing)
    with serving(server):
        set_state(night, registry=f"http://127.0.0.1:{server.server_port}")
        assert night.report()[0]["status"] == "succeeded"
    assert "MLflow does not show all runs yet" in caplog.text
    assert len(list_pending(night)) == 1


def test_a_server_that_never_answers_costs_a_night_no_more_than_the_time_it_has(night, one_try, caplog):
    summary = Summary.model_validate(night.report()[0])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        set_state(night, registry=f"http://127.0.0.1:{silent.getsockname()[1]}")
        tracking.track(StepContext(component.reporting.parser().parse_args(night.argv)), summary, seconds=0.2)
    assert "has not answered in 0.2 s; the next run shows this one too" in caplog.text
    assert len(list_pending(night)) == 1


def test_a_night_that_is_shown_by_several_at_once_is_one_run(night, tracking_server, client):
    few, start, errors = make_small(night), threading.Barrier(4), []

    def show_it() -> None:
        start.wait()
        try:
            nights.track(type(client)(tracking_server), few)  # a client each, as processes have
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=show_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    both = show(client, night)
    nights.track(client, few)
    assert show(client, night) == both
    assert len(list_runs(client, night)) == 2


class KilledError(BaseException):
    """The end of a process."""


@dataclass
class Mortal:
    """A client whose process is killed at a request."""

    client: Any
    requests: int

    def __getattr__(self, name: str) -> Any:
        self.requests -= 1
        if self.requests < 0:
            raise KilledError
        return getattr(self.client, name)


def test_a_night_that_is_killed_at_any_request_is_one_run_after_the_next_try(night, client):
    few, shown = make_small(night), []
    for requests in itertools.count(step=2):
        killed = replace(few, run=f"killed-{requests}")
        try:
            nights.track(Mortal(client, requests), killed)
            break
        except KilledError:
            nights.track(client, killed)
            shown.append(killed.run)
    assert len(shown) > 5
    runs = [run for run in list_runs(client, night) if PARENT not in run.data.tags]
    assert sorted(run.info.run_name for run in runs) == sorted([*shown, killed.run])
    expected = describe(client, next(run for run in runs if run.info.run_name == killed.run))
    for run in runs:
        described = describe(client, run)
        described["tags"] |= {name: expected["tags"][name] for name in ("mlflow.runName", ID, CLAIM)}
        assert described == expected


def test_when_a_version_was_live_is_a_tag_of_it_and_of_its_night(night, client, tracking_server, save_model):
    name = use_case(night)
    for number, weight in ((1, 0.5), (2, 0.6)):
        tags = {registry.PARENT_RUN: f"night-{number}"}
        registry.register(tracking_server, name, save_model(weight), tags)
    ref = ReleaseRef(tracking_server, name, f"{night.runs.parent}/audit")
    release_record.promote(ref, 1)
    assert read_live(client, name, "1")["live_to"] == ""
    release_record.promote(ref, 2)
    release_record.rollback(ref)
    first, second, third = (entry.since.isoformat(timespec="seconds") for entry in release_record.read(ref).entries)
    assert read_live(client, name, "1") == {
        "live_from": third,
        "live_to": "",
        "live_periods": f"{first}/{second} {third}/..",
    }
    assert read_live(client, name, "2") == {
        "live_from": second,
        "live_to": third,
        "live_periods": f"{second}/{third}",
    }
    tags = {run.data.tags["version"]: run.data.tags for run in list_runs(client, night)}
    assert {number: tags[number]["live_from"] for number in ("1", "2")} == {"1": third, "2": second}


def read_live(client: Any, name: str, version: str) -> dict[str, str]:
    tags = client.get_model_version(name, version).tags
    return {key: value for key, value in tags.items() if key.startswith("live_")}


def test_beside_a_registry_in_a_folder_nights_and_what_was_live_go_to_the_server_of_the_variable(
    night, client, tracking_server, monkeypatch
):
    set_state(night)
    night.report()
    assert list_runs(client, night) == []
    ref = ReleaseRef(f"{night.runs.parent}/registry", use_case(night))
    live = ReleasedVersion(version=3, sha256="0" * 64)
    since = datetime(2018, 8, 15, 2, tzinfo=UTC)
    entry = Entry(versions=[live], action=Action.PROMOTED, since=since, by="test")
    release_record.settle(ref.uri, ref.name, lambda _: entry)
    monkeypatch.setenv(registry.TRACKING, tracking_server)
    night.report()
    run = find_night(client, night)
    assert (run.info.status, run.data.tags["live_from"]) == ("FINISHED", "2018-08-15T02:00:00+00:00")
