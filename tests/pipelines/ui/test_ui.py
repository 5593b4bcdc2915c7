"""`nightshift ui`: every page of a workspace in a client of this process, whatever the workspace holds."""

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from nightshift import storage
from nightshift.contracts.__main__ import list_artifacts
from nightshift.contracts.state import ROOTS, State
from pipelines.environments import local
from pipelines.run_index import RunIndex
from pipelines.ui.app import LARGEST, build_app
from pipelines.ui.screen import make_axis
from pipelines.workspace import Workspace
from tests.pipelines.ui.conftest import (
    HERE,
    NEWEST,
    list_urls,
    open_ui,
    write_data,
    write_report,
    write_run,
    write_summary,
    write_verdict,
)

HOSTILE = ["<script>alert(1)</script>", "\u202egnp.exe\u2066", "'\" onmouseover=x ", "x" * 10_000, "../../../etc"]
FREE_TEXTS = {"reasons", "headline", "label", "title", "by", "error", "caveat", "value", "candidate"}
BEHIND_FORMS = ("/versions/", "/events/fraud?", "/events/fraud/")  # no link leads there before one is sent
# page -> the schema of its document
SCHEMAS = {
    "/home": "overview",
    "/runs": "run_list",
    "/unfinished": "run_list",
    "/use-cases/{name}": "run_list",
    "/runs/{run}": "run_steps",
    "/runs/{run}/report": "page",
    "/models": "model_list",
    "/models/{name}": "version_history",
    "/models/{name}/{version}": "version",
    "/releases/{name}": "release",
    "/actions/{name}": "action_list",
    "/drift/{name}": "drift_history",
    "/costs": "spending",
    "/data/{name}": "data_days",
    "/data/{name}/{day}": "quarantined_day",
    "/events/{name}": "event_list",
    "/events/{name}/{day}/{event}": "event_list",
    "/compare/runs": "side_by_side",
    "/compare/versions/{name}": "side_by_side",
}


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def links(self) -> set[str]:
        return {attributes["href"] or "" for tag, attributes in self.tags if tag == "a"}


def list_files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def inject(value: Any, text: str, key: str = "") -> Any:
    """Return a document with another text in each field that anybody may write."""
    if isinstance(value, dict):
        return {name: inject(part, text, name) for name, part in value.items()}
    if isinstance(value, list):
        return [inject(part, text, key) for part in value]
    return text if isinstance(value, str) and key in FREE_TEXTS else value


def check_harmless(content: bytes) -> None:
    """Fail where a page is large, turns its text, or has a script, a handler or a link of its content's."""
    tags = Tags(content.decode())
    assert len(content) < LARGEST
    assert "\u202e" not in content.decode()
    assert [attributes for tag, attributes in tags.tags if tag == "script" and attributes.get("src") is None] == []
    assert not any(key.startswith("on") for _, attributes in tags.tags for key in attributes)
    assert all(link.startswith(("/", "#")) for link in tags.links)


def read_text(client: TestClient, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    return Tags(answer.text).text


def test_every_page_has_its_document_beside_it_and_nothing_is_written(full: Path) -> None:
    client, before = open_ui(full), list_files(full)

    for path, url in list_urls(".json").items():
        answer = client.get(url)
        assert answer.status_code == 200, (url, answer.text)
        artifact = list_artifacts()[SCHEMAS[path]]
        assert json.loads(artifact.model_validate_json(answer.content).model_dump_json()) == answer.json()

    assert {url: client.get(url).status_code for url in list_urls().values()} == dict.fromkeys(
        list_urls().values(), 200
    )
    assert list_files(full) == before


def test_every_link_leads_to_a_page_and_no_page_loads_anything_from_elsewhere(full: Path) -> None:
    client, seen, waiting = open_ui(full), set[str](), {"/"}
    while waiting:
        url = waiting.pop()
        seen.add(url)
        answer = client.get(url)
        assert answer.status_code == 200, (url, answer.text)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        tags = Tags(answer.text)
        resources = [attributes.get("src") or attributes.get("href") or "" for tag, attributes in tags.tags
                     if tag in ("script", "link", "img")]  # fmt: skip
        assert all(resource.startswith(("/static/", "data:")) for resource in resources)
        assert all(client.get(resource).status_code == 200 for resource in resources if resource.startswith("/"))
        waiting |= {link for link in tags.links if link.startswith("/")} - seen

    assert seen >= {url for url in list_urls().values() if not any(form in url for form in BEHIND_FORMS)}


def test_home_names_what_failed_what_warns_and_what_is_being_released(full: Path) -> None:
    text = read_text(open_ui(full), "/")

    assert "fraud · 2018-07-31 · scoring failed in ingestion" in text
    assert "23 % of the rows are rejected" in text
    assert "fraud · 2018-07-31 · Something has drifted.: drifted" in text
    assert "2018-07-30" not in text  # a newer night has made up for it


def test_a_later_success_of_the_same_night_makes_up_for_a_failure(full: Path) -> None:
    write_run(full, "fraud-scoring-again", pipeline="scoring", started="2118-08-02T04:00:00+00:00")

    assert "scoring failed" not in read_text(open_ui(full), "/")


def test_a_run_in_progress_shows_the_end_of_its_logs_and_is_read_again(full: Path) -> None:
    ended = {"ingestion": {"state": "done", "seconds": 2.0}}
    run = write_run(full, "fraud-now", complete=False, steps=ended, started="2118-08-09T02:00:00")
    (run / "features").mkdir()
    (run / "features" / "log.txt").write_text("one\n" * 10_000 + "the last line\n")

    answer = open_ui(full).get("/runs/fraud-now")

    assert "training: running" in answer.text
    assert "the last line" in answer.text
    assert answer.text.count("one\n") < 30
    assert ("script", {"src": "/static/live.js", "defer": None}) in Tags(answer.text).tags


def test_a_version_shows_its_interval_its_run_and_when_it_was_live(full: Path) -> None:
    client = open_ui(full)

    assert "0.700[0.60, 0.80]" in re.sub(r"\s", "", read_text(client, "/models/fraud")).replace(",", ", ")
    assert NEWEST in read_text(client, "/models/fraud/3")
    (period,) = client.get("/models/fraud.json").json()["periods"]
    assert (period["version"], period["until"]) == (2, None)


def test_rejected_rows_are_shown_with_their_identifiers_masked(full: Path) -> None:
    (reason,) = open_ui(full).get("/data/fraud/2018-07-30.json").json()["reasons"]

    assert (reason["reason"], reason["rows"]) == ("bad_amount", 2)
    assert reason["examples"][0] == {"transaction_id": "100***", "amount": "-1"}
    assert "No rows on 2018-07-31" in read_text(open_ui(full), "/data/fraud")


def test_events_of_a_customer_lead_to_one_with_its_features_and_scores(full: Path) -> None:
    client = open_ui(full)
    listed = client.get("/events/fraud?column=customer&id=ann")

    assert "Searched 2 days, 2018-07-30 to 2018-07-31, 3 rows." in listed.text
    assert "The files of 1 of them are gone." in listed.text
    (flagged,) = [link for link in Tags(listed.text).links if link.endswith("/3")]
    text = "".join(read_text(client, flagged).split())
    assert ["customerann" in text, "30.9True" in text, "customer_count_7d6" in text] == [True, True, True]


@pytest.mark.parametrize("name", HOSTILE, ids=["markup", "right-to-left", "quotes", "long", "path"])
def test_hostile_names_are_shown_and_do_nothing(name: str, workspace: Path) -> None:
    parameters = {"date": "2018-07-31", "config": {"name": name}}
    steps = {name: {"state": "failed", "seconds": 1.0, "error": name}}
    for number in range(3):
        started = f"2118-08-0{number + 2}T02:00:00"
        run = write_run(workspace, f"run-{number}", pipeline=name, parameters=parameters, steps=steps, started=started,
                        complete=number > 0)  # fmt: skip
        write_summary(run, name, steps={name: {"state": "failed", "seconds": 1.0, "usd": None}}, note={name: name})
        write_report(run, name, name)
        write_verdict(run, "drift", number / 10, name)
    write_data(workspace, run, name)
    client = open_ui(workspace)

    paths = ["/", "/runs", "/runs/run-0", "/runs/run-2/report", "/costs", "/compare/runs?left=run-1&right=run-2"]
    for path in [*paths, *Tags(client.get("/").text).links, *Tags(client.get("/runs/run-2").text).links]:
        answer = client.get(path)
        if answer.status_code != 200:
            continue
        check_harmless(answer.content)
        if not path.endswith("/report"):  # which says what its steps say
            assert "x" * 1001 not in Tags(answer.text).text


@pytest.mark.parametrize("text", HOSTILE, ids=["markup", "right-to-left", "quotes", "long", "path"])
def test_hostile_texts_do_nothing_on_any_page(text: str, full: Path) -> None:
    for file in [*full.glob("runs/**/*.json"), *full.glob("registry/**/*.json")]:
        file.write_text(json.dumps(inject(json.loads(file.read_text()), text)))
    for table, columns in (("quarantine", "amount"), ("events", "customer"), ("scores", "model_version")):
        (file,) = full.glob(f"lake/fraud/{table}/date=2018-07-30/*.parquet")
        rows = pq.read_table(file)
        position = rows.schema.get_field_index(columns)
        pq.write_table(rows.set_column(position, columns, pa.array([text] * len(rows))), file)
    client = open_ui(full)

    for url in list_urls().values():
        answer = client.get(url.replace("id=ann", f"id={quote(text)}"))
        assert answer.status_code == 200, (url, answer.text)
        check_harmless(answer.content)


@pytest.mark.parametrize(
    "file",
    [
        "run.json",
        "page.json",
        "summary.json",
        "drift/drift/verdict.json",
        "evaluation/evaluation/verdict.json",
        "ingestion/events",
    ],
)
@pytest.mark.parametrize("content", [b"", b"{}", b"[\xff"])
def test_a_damaged_file_hides_no_other_run(file: str, content: bytes, full: Path) -> None:
    (full / "runs" / NEWEST / file).write_bytes(content)
    client = open_ui(full)

    answers = {
        path: client.get(path) for path in ("/", "/runs", "/costs", "/drift/fraud", "/data/fraud", "/models/fraud")
    }

    assert {path: answer.status_code for path, answer in answers.items() if answer.status_code != 200} == {}
    assert "fraud-training-2018-07-30" in answers["/runs"].text


@pytest.mark.parametrize(("header", "value"), [("host", "evil.example:8765"), ("origin", "https://evil.example")])
def test_a_page_of_another_site_is_refused(header: str, value: str, full: Path) -> None:
    answer = open_ui(full).get("/runs", headers={header: value})

    assert (answer.status_code, "fraud" in answer.text) == (403, False)


@pytest.mark.parametrize("path", ["/runs/..%2f..%2fregistry", "/data/fraud/yesterday", "/costs?days=0",
                                  "/runs/fraud-2", "/releases/..%2f..%2fruns", "/nothing"])  # fmt: skip
def test_what_is_not_there_is_answered_with_a_sentence(path: str, full: Path) -> None:
    answer = open_ui(full).get(path)

    assert answer.status_code == 404
    assert "This page is not there" in answer.text


def test_nothing_can_be_changed(full: Path) -> None:
    client = open_ui(full)

    assert {client.request(method, "/runs").status_code for method in ("POST", "PUT", "DELETE")} == {405}


@pytest.mark.slow
def test_a_registry_that_is_down_is_named_by_the_pages_that_need_it(full: Path) -> None:
    state = local(full)
    roots = {root: getattr(state, root) for root in ROOTS} | {"registry": "http://127.0.0.1:9"}
    client = TestClient(build_app(Workspace(State.from_mapping({**roots, "target": "record-only"}))), base_url=HERE)

    others = ("/", "/runs", "/use-cases/fraud", "/drift/fraud", "/data/fraud", "/costs", "/events/fraud")
    down = client.get("/models/fraud")

    assert {path: client.get(path).status_code for path in others} == dict.fromkeys(others, 200)
    assert (down.status_code, "127.0.0.1:9" in down.text) == (503, True)


def test_runs_of_an_engine_without_records_are_read_from_any_store() -> None:
    root = "memory://ui/runs"
    summary = {"pipeline": None, "config": {"name": "fraud"}, "logical_date": "2018-07-31", "status": "succeeded",
               "started": None, "finished": "2118-08-01T02:00:00+00:00", "steps": {}}  # fmt: skip
    storage.write_json(f"{root}/fraud-1/summary.json", summary)
    storage.write_json(f"{root}/fraud-2/summary.json", {"status": "succeeded"})
    index = RunIndex(root)

    (run,) = index.runs("fraud")

    assert (run.name, str(run.logical_date), run.complete) == ("fraud-1", "2018-07-31", True)
    assert "fraud-2/summary.json is no summary of a run" in index.problems[0]


def test_runs_that_change_or_go_are_seen_at_the_next_look(tmp_path: Path) -> None:
    now = iter(range(0, 1000, 100))
    index = RunIndex(str(tmp_path / "runs"), clock=lambda: float(next(now)))
    folders = [write_run(tmp_path, f"fraud-{number}") for number in range(3)]
    before = {run.name: run for run in index.runs()}
    record = json.loads((folders[1] / "run.json").read_text())
    storage.write_json(str(folders[1] / "run.json"), record | {"complete": False})
    (folders[2] / "run.json").unlink()

    after = {run.name: run for run in index.runs()}

    assert after["fraud-0"] == before["fraud-0"]
    assert (before["fraud-1"].complete, after["fraud-1"].complete) == (True, False)
    assert "fraud-2" not in after


@pytest.mark.slow
def test_pages_are_read_while_runs_come_and_go(full: Path) -> None:
    client, is_over = open_ui(full), Event()

    def change() -> None:
        for number in count(10):
            run = write_run(full, f"fraud-{number}", complete=bool(number % 2))
            write_summary(run)
            write_verdict(run, "drift", 0.5)
            if number > 12:
                shutil.rmtree(full / "runs" / f"fraud-{number - 2}")
            if is_over.is_set():
                return

    paths = ("/", "/runs", "/costs", "/drift/fraud", "/data/fraud", "/models/fraud", "/unfinished", "/runs/fraud-10")
    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(change)
        statuses = {client.get(path).status_code for _ in range(20) for path in paths}
        is_over.set()
        changes.result()

    assert statuses <= {200, 404}


@pytest.mark.slow
def test_home_stays_small_with_ten_thousand_runs(tmp_path: Path) -> None:
    record = (
        write_run(tmp_path, "fraud", complete=False, steps={"training": {"state": "failed"}}) / "run.json"
    ).read_text()
    for number in range(9_999):
        run = tmp_path / "runs" / f"fraud-{number}"
        run.mkdir()
        (run / "run.json").write_text(record.replace("2018-07-31", f"2018-07-{number % 31 + 1:02}"))
    client = open_ui(tmp_path)

    assert {path: len(client.get(path).content) < LARGEST for path in ("/", "/runs", "/use-cases/fraud")} == {
        "/": True, "/runs": True, "/use-cases/fraud": True
    }  # fmt: skip
    assert client.get("/home.json").json()["runs"] == 10_000
    (older,) = [link for link in Tags(client.get("/unfinished").text).links if link.startswith("/unfinished?")]
    pages = [client.get(url).json()["runs"] for url in ("/unfinished.json", older.replace("?", ".json?"))]
    assert len({run["run"] for runs in pages for run in runs}) == 200


@pytest.mark.parametrize("values", [[0.61, 0.64], [0.0, 0.0], [-29.0, 0.0], [5.0], [1e-9, 3e5]])
def test_an_axis_reaches_around_its_values_with_few_ticks(values: list[float]) -> None:
    ticks = make_axis("value", values).ticks

    assert ticks[0] <= min(values) <= max(values) <= ticks[-1]
    assert 2 <= len(ticks) <= 7
    assert all(tick == int(tick) for tick in make_axis("day", [-2, -1, 0], is_whole=True).ticks)


@pytest.mark.slow
def test_the_command_serves_a_workspace_until_it_is_interrupted(full: Path) -> None:
    command = [sys.executable, "-m", "pipelines.cli", "ui", "--workspace", str(full), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().split()[1]
        with urllib.request.urlopen(url) as answer:
            assert b"What needs a person" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
