"""Raw events over HTTP: what is answered is what the batch kernel and the model say of them."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from nightshift.contracts import package as contract
from nightshift.serving.assignment import is_answered
from nightshift.serving.files import Challenger
from nightshift.tabular.online.state import EventRecord
from nightshift.tabular.windows import DAY
from nightshift.tasks.tabular.features import core
from nightshift_testkit.processes import wait_until
from tests.nightshift.serving.conftest import Running, point
from tests.nightshift.serving.events import CHOSEN, EVENTS, LATER, PAST, ROWS, events_of, expected, model, raw
from tests.nightshift.tabular.online.streams import START, Labeled, acknowledged, config, written


def sent(running: Running, *events: Labeled) -> list[float]:
    """The scores of one request."""
    answer = httpx.post(f"{running.url}/score", json={"events": [raw(event) for event in events]})
    assert answer.status_code == 200, answer.text
    return [prediction["score"] for prediction in answer.json()["predictions"]]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return model(tmp_path / "model")


@pytest.fixture
def running(serve, uri: str, tmp_path: Path) -> Running:
    """A server over a snapshot of the first days."""
    running: Running = serve(uri, snapshot=written(EVENTS, CHOSEN, PAST, str(tmp_path / "online" / "date=2024-03-04")))
    return running


def test_raw_events_are_scored_as_the_batch_does_one_by_one_and_many_at_once(running, uri) -> None:
    first, rest = LATER[:10], LATER[10:]

    scores = [*(score for event in first for score in sent(running, event)), *sent(running, *rest)]

    assert scores == expected(uri, EVENTS)[-len(LATER) :]


def test_an_event_that_is_sent_again_is_answered_alike_and_counted_once(running, uri) -> None:
    once = sent(running, *LATER[:20])
    assert sent(running, *LATER[:20]) == once
    assert sent(running, *LATER[20:]) == expected(uri, EVENTS)[-len(LATER) + 20 :]


def test_a_label_that_arrives_later_is_in_the_windows_of_what_follows(running, uri) -> None:
    positive = [event._replace(label=1) for event in EVENTS if START + 2 <= event.time // DAY < START + 5]
    sent(running, *LATER[:30])
    labels = [{name: raw(event)[name] for name in ("event_id", "event_time")} | {"label": 1} for event in positive]
    known = {event.event_id for event in [*EVENTS[: -len(LATER)], *LATER[:30]]}

    answer = httpx.post(f"{running.url}/labels", json={"labels": labels})

    assert answer.json() == {"known": [event.event_id in known for event in positive]}
    changed = {event.event_id: event for event in positive if event.event_id in known}
    relabeled = [changed.get(event.event_id, event) for event in EVENTS]
    assert sent(running, *LATER[30:]) == expected(uri, relabeled)[-len(LATER) + 30 :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"amount": "12"}, "events[1]: amount is '12'; give a finite number"),
        ({"amount": -1}, "events[1]: amount is -1.0; an amount is not negative"),
        ({"customer": None}, "events[1]: customer is None; give a whole number"),
        ({"amount": 9e16}, "events[1]: amount is 9e+16; give at most 100,000,000,000 (limits.largest_amount)"),
        ({"event_time": "9999-12-31T00:00:00Z"}, "events[1]: event_time is 9999-12-31T00:00:00+00:00; give at most 1 "),
        ({"event_time": "noon"}, "events[1]: event_time is 'noon'; give ISO 8601 text"),
        ({"event_time": "2024-02-01T00:00:00Z"}, "is of a day before 2024-03-04, the first whose windows the state"),
    ],
)
def test_a_wrong_event_is_told_the_column_and_what_is_allowed(running, change, message) -> None:
    body = {"events": [raw(LATER[0]), raw(LATER[1]) | change]}
    answer = httpx.post(f"{running.url}/score", json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert not [*acknowledged(running.pointer.parent / "state")], "the first one is not taken in either"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("score", {"events": []}, "events"),
        ("score", {"events": {}}, "events"),
        ("score", {"events": [1]}, "events[0]"),
        ("labels", {"labels": [{"event_id": 1, "event_time": "2024-03-05T00:00:00Z", "label": 2}]}, "labels[0]"),
        ("labels", {"labels": [{"event_time": "2024-03-05T00:00:00Z", "label": 1}]}, "labels[0]"),
        ("labels", {}, "body"),
    ],
)
def test_a_wrong_request_is_told_the_field(running, path, body, field) -> None:
    answer = httpx.post(f"{running.url}/{path}", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_a_server_without_a_snapshot_asks_for_features(serve, uri) -> None:
    answer = httpx.post(f"{serve(uri).url}/score", json={"events": [raw(LATER[0])]})
    assert (answer.status_code, "send features" in answer.json()["error"]) == (409, True)


def test_what_was_answered_is_on_disk_before(running) -> None:
    sent(running, *LATER[:5])
    kept = acknowledged(running.pointer.parent / "state")
    assert [record.event_id for record in kept] == [event.event_id for event in LATER[:5]]


def test_of_labels_with_a_wrong_one_among_them_none_is_taken(running) -> None:
    sent(running, LATER[0])
    right = {name: raw(LATER[0])[name] for name in ("event_id", "event_time")} | {"label": 1}
    answer = httpx.post(f"{running.url}/labels", json={"labels": [right, right | {"label": 2}]})
    sent(running, LATER[1])
    kept = [type(record) for record in acknowledged(running.pointer.parent / "state")]
    assert (answer.status_code, answer.json()["field"], kept) == (400, "labels[1]", [EventRecord, EventRecord])


def test_events_are_answered_throughout_by_the_version_whose_windows_they_were_computed_with(
    running, uri, tmp_path
) -> None:
    """A new version with other windows takes over while events come in; none is lost, none is answered by the other."""
    other = config(windows=(1, 3))
    second = model(tmp_path / "second", other)
    snapshot = written(events_of(ROWS, other), other, PAST, str(tmp_path / "snapshots"))
    answers: list[dict[str, Any]] = []

    def send() -> None:
        with httpx.Client() as client:
            # one by one: the list grows while it is looked at
            answers.extend(client.post(f"{running.url}/score", json={"events": [raw(event)]}).json() for event in LATER)

    sending = threading.Thread(target=send)
    sending.start()
    wait_until(lambda: len(answers) > 5, "events come in")
    point(running.pointer, 2, second, snapshot)
    running.current.refresh()
    sending.join()

    assert running.current.problem is None
    versions = [answer["version"] for answer in answers]
    assert versions == sorted(versions)
    rows = zip(
        answers, expected(uri, EVENTS)[-len(LATER) :], expected(second, EVENTS, other)[-len(LATER) :], strict=True
    )
    for answer, old, new in rows:
        assert answer["predictions"][0]["score"] == (old if answer["version"] == 1 else new)


@pytest.fixture
def challenger(tmp_path: Path) -> Callable[[float], Challenger]:
    """A version 2 that scores otherwise and answers a share of the customers."""
    uri = model(tmp_path / "challenger", slope=0.06)
    return lambda share: Challenger(2, uri, contract.load(uri).sha256, share)


def test_a_customer_is_answered_by_one_version_and_by_the_challenger_from_some_share_on(
    running, uri, challenger
) -> None:
    first, second = (dict(zip(LATER, expected(package_uri, EVENTS)[-len(LATER) :], strict=True)) for package_uri in
                     (uri, challenger(0.5).uri))  # fmt: skip
    before: set[object] = set()
    for version, share in enumerate((0.2, 0.5, 0.9), 3):
        beside = challenger(share)
        point(running.pointer, version, uri, str(running.current.wanted.snapshot), beside)
        running.current.refresh()
        answer = httpx.post(f"{running.url}/score", json={"events": [raw(event) for event in LATER]}).json()

        predictions = dict(zip(LATER, answer["predictions"], strict=True))
        assert answer["version"] == version
        for event, prediction in predictions.items():
            by_challenger = is_answered(beside.sha256, share, str(event.customer))
            assert prediction["version"] == (2 if by_challenger else version)
            assert prediction["score"] == (second if by_challenger else first)[event]
        answered = {event.customer for event, prediction in predictions.items() if prediction["version"] == 2}
        assert before <= answered
        before = answered
    assert before


def test_a_request_may_name_the_version_that_answers(running, uri, challenger) -> None:
    point(running.pointer, 1, uri, str(running.current.wanted.snapshot), challenger(0.01))
    running.current.refresh()
    event = {"events": [raw(LATER[0])]}
    versions = [
        httpx.post(f"{running.url}/score", json=event, headers={"X-Model-Version": named}).json()["version"]
        for named in "12"
    ]
    assert versions == [1, 2]
    refused = httpx.post(f"{running.url}/score", json=event, headers={"X-Model-Version": "3"})
    assert (refused.status_code, "unknown model: fraud, version 3" in refused.json()["error"]) == (404, True)
    assert httpx.get(f"{running.url}/model").json()["challenger"] == {"version": 2, "share": 0.01}


def test_a_challenger_with_other_windows_is_not_served_beside_the_champion(running, uri, tmp_path) -> None:
    other = model(tmp_path / "other", config(windows=(1, 3)))
    beside = Challenger(2, other, contract.load(other).sha256, 0.5)
    point(running.pointer, 1, uri, str(running.current.wanted.snapshot), beside)
    running.current.refresh()
    assert "version 2 has other inputs than version 1" in str(running.current.problem)
    assert len(sent(running, LATER[0])) == 1


def test_a_snapshot_with_other_inputs_than_the_models_is_not_served(running, uri, tmp_path) -> None:
    other = config(windows=(1, 3))
    snapshot = written(events_of(ROWS, other), other, PAST, str(tmp_path / "snapshots"))
    point(running.pointer, 2, uri, snapshot)

    running.current.refresh()

    assert "has other inputs than the model" in str(running.current.problem)
    assert len(sent(running, LATER[0])) == 1


def test_the_state_moves_on_to_the_snapshot_of_a_later_date_and_never_back(running, uri, tmp_path) -> None:
    """A run that deploys nothing writes a newer one; a run for an earlier date points at an older one."""
    sent(running, *LATER[:20])
    until = (START + PAST + 1) * DAY
    day = Path(str(running.current.wanted.snapshot)).parent.parent / "date=2024-03-05"
    newer = written(EVENTS, CHOSEN, PAST + 1, str(day))

    running.current._next_check = 0.0
    running.current.refresh()
    assert running.current.online is not None
    assert str(running.current.online.last) == "2024-03-05"
    point(running.pointer, 2, uri, str(running.current.wanted.snapshot))
    running.current.refresh()

    assert (running.current.problem, running.current.model.pointer.version) == (None, 2)
    assert str(running.current.online.last) == "2024-03-05"
    assert Path(newer).exists()
    rest = [event for event in LATER if event.time >= until]
    assert sent(running, *rest) == expected(uri, EVENTS)[-len(rest) :]

    # started again, it is where it was, though the pointer names the older one
    running.current.close()
    running.current._follow_snapshot(running.current.model)
    assert (str(running.current.online.last), sent(running, *rest)) == (
        "2024-03-05",
        expected(uri, EVENTS)[-len(rest) :],
    )


def test_the_openapi_page_accepts_what_is_answered_and_refuses_what_is_refused(running) -> None:
    page = httpx.get(f"{running.url}/openapi.json").json()
    features = dict.fromkeys(core.numeric_inputs(CHOSEN), 1.0)
    one, label = raw(LATER[0]), {name: raw(LATER[0])[name] for name in ("event_id", "event_time")} | {"label": 1}
    cases = {
        "/score": [
            {"instances": [features]},
            {"instances": [features] * 1024},
            {"instances": [features] * 1025},
            {"instances": []},
            {"instances": [features | {"amount": "1"}]},
            {"instances": [features | {"more": 1}]},
            {"events": [one]},
            {"events": [one | {"more": 1}]},
            {"events": [one | {"amount": -1}]},
            {"events": [one | {"customer": "1.0"}]},
            {"events": [one | {"customer": "01"}]},
            {"events": [{}]},
            {"events": [one], "instances": [features]},
            {},
        ],
        "/labels": [
            {"labels": [label]},
            {"labels": [label | {"label": True}]},
            {"labels": [label | {"label": 2}]},
            {"labels": [one]},
            {},
        ],
    }
    for path, bodies in cases.items():
        operation = page["paths"][path]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        answered = operation["responses"]["200"]["content"]["application/json"]["schema"]
        for body in bodies:
            answer = httpx.post(running.url + path, json=body)
            is_right = jsonschema.Draft202012Validator(schema).is_valid(body)
            assert answer.status_code == (200 if is_right else 400), str(body)[:80]
            if is_right:
                jsonschema.validate(answer.json(), answered)


@pytest.mark.slow
def test_whatever_the_openapi_page_allows_or_not_is_answered_as_it_says(running, tmp_path) -> None:
    """Schemathesis makes requests from the page: none may be a 5xx, an unknown status or another body than it says."""
    pytest.importorskip("schemathesis")
    command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run"]
    options = ["--url", running.url, "--phases", "coverage,fuzzing", "--max-examples", "40", "--seed", "0"]
    page = f"{running.url}/openapi.json"
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    done = subprocess.run(
        [*command, page, *options, "--checks", checks], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"(\d{2,}) generated, \1 passed", done.stdout), done.stdout
