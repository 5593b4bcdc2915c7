"""`nightshift ui --allow`: what a person may do in a browser, and that without it nobody may do anything."""

import re
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from nightshift import registry
from nightshift.registry import audit_log, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift_testkit.processes import wait_until
from pipelines import configs
from pipelines.environments import local
from pipelines.ui.access import COOKIE, AccessGate
from pipelines.ui.actions import ACTIONS, LOGIN
from pipelines.ui.app import build_app
from pipelines.workspace import Workspace
from tests.pipelines.ui.conftest import HERE, VALUES, list_urls, wait_for_approval, write_run
from tests.pipelines.ui.test_ui import Tags

TOKEN = "a token of a test"
HOSTILE = "<script>alert(1)</script> \u202egnp.exe --version $(id) ' \""
ACTION_URLS = [action.path.format(**VALUES) for action in ACTIONS]


def open_ui(folder: Path, has_gate: bool = True, token: str = "") -> TestClient:
    app = build_app(Workspace(local(folder)), AccessGate(TOKEN) if has_gate else None)
    client = TestClient(app, base_url=HERE, follow_redirects=False)
    if token:
        client.get(LOGIN, params={"token": token})
    return client


def read_content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_forms(client: TestClient, url: str) -> dict[str, dict[str, str]]:
    """Return the forms of a page by which a person acts: path -> its hidden field."""
    html = client.get(url).text
    paths = re.findall(r'<form action="([^"]+)" method="post".*?</form>', html, re.DOTALL)
    signatures = re.findall(r'name="signature" value="([^"]+)"', html)
    return {path: {"signature": signature} for path, signature in zip(paths, signatures, strict=True)}


def submit(client: TestClient, page: str, action: str, **fields: str) -> httpx.Response:
    """Fill in a form of a page and send it, as a browser does."""
    form = read_forms(client, page)[action]
    return client.post(action, data=form | fields, headers={"origin": HERE})


def read_champion(ref: ReleaseRef) -> int:
    record = release_record.read(ref)
    assert record
    return record.live.version


def test_without_leave_no_route_of_any_method_changes_a_byte(full: Path) -> None:
    wait_for_approval(full)
    client, before = open_ui(full, has_gate=False), read_content(full)
    assert isinstance(client.app.routes[0], Route)
    paths = {route.path.format(**VALUES) for route in client.app.routes}

    answers = {
        client.request(method, url, data={"reason": "no", "token": TOKEN}).status_code
        for url in [*paths, *list_urls().values(), *ACTION_URLS, LOGIN]
        for method in ("POST", "PUT", "PATCH", "DELETE")
    }

    assert answers == {404, 405}
    assert not any("<form" in client.get(url).text and "post" in client.get(url).text for url in list_urls().values())
    assert read_content(full) == before


@pytest.mark.parametrize("token", ["", "wrong"])
@pytest.mark.parametrize("url", ACTION_URLS)
def test_who_has_not_logged_in_sees_no_form_and_changes_nothing(url: str, token: str, full: Path) -> None:
    wait_for_approval(full)
    client, before = open_ui(full, token=token), read_content(full)

    assert COOKIE not in client.cookies
    assert read_forms(client, "/models/fraud/3") == {}
    assert client.post(url, data={"reason": "no", "signature": "0"}).status_code == 403
    assert client.get(url).status_code == 405
    assert read_content(full) == before


def test_a_form_of_another_page_or_site_or_without_a_reason_is_refused(full: Path) -> None:
    ref = wait_for_approval(full)
    client, before = open_ui(full, token=TOKEN), read_content(full)
    ((url, form),) = read_forms(client, "/models/fraud/3").items()
    other = AccessGate(TOKEN).open_session(TOKEN)
    assert other

    assert [
        client.post(url, data=form).status_code,
        client.post(url, data=form | {"reason": " \0 "}).status_code,
        client.post(url, data=form | {"reason": "x" * 501}).status_code,
        client.post(url, data={"reason": "no", "signature": other.sign(url)}).status_code,
        client.post("/releases/fraud/rollback", data=form | {"reason": "no"}).status_code,
        client.post(url, data=form | {"reason": "no"}, headers={"origin": "https://evil.example"}).status_code,
        client.post(url, data=form | {"reason": "no"}, headers={"origin": "null"}).status_code,
        client.post(url, json=form | {"reason": "no"}).status_code,
        client.post(url, data=form | {"reason": "x" * 30_000}).status_code,
    ] == [422, 422, 422, 403, 403, 403, 403, 403, 403]  # fmt: skip
    assert (read_champion(ref), read_content(full)) == (2, before)


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_the_token_leaves_the_address(full: Path) -> None:
    answer = open_ui(full).get(LOGIN, params={"token": TOKEN})

    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert {"httponly", "samesite=strict"} <= set(answer.headers["set-cookie"].lower().split("; "))
    assert TOKEN not in answer.headers["set-cookie"]


def test_home_and_models_name_a_version_that_waits_and_lead_to_its_form(full: Path) -> None:
    wait_for_approval(full)
    client = open_ui(full, token=TOKEN)

    home = Tags(client.get("/").text)

    assert "fraud · version 3 waits for an approval" in home.text
    assert "/models/fraud/3" in home.links
    assert "waits for an approval" in Tags(client.get("/models/fraud").text).text
    assert list(read_forms(client, "/models/fraud/3")) == ["/models/fraud/3/approve"]
    assert read_forms(client, "/models/fraud/2") == {}
    assert list(read_forms(client, "/runs/fraud-scoring-2018-07-31")) == ["/runs/fraud-scoring-2018-07-31/retry"]


@pytest.mark.slow
def test_a_version_is_approved_and_rolled_back_with_reasons_that_are_kept(full: Path) -> None:
    ref, client = wait_for_approval(full), open_ui(full, token=TOKEN)

    answer = submit(client, "/models/fraud/3", "/models/fraud/3/approve", reason=HOSTILE)
    assert answer.status_code == 303, Tags(answer.text).text
    assert answer.headers["location"] == "/models/fraud/3"
    assert (read_champion(ref), read_forms(client, "/models/fraud/3")) == (3, {})
    page = client.get("/releases/fraud").text
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    answer = submit(client, "/releases/fraud", "/releases/fraud/rollback", reason="it is wrong")
    assert (answer.status_code, answer.headers["location"]) == (303, "/releases/fraud")
    assert read_champion(ref) == 2
    assert read_forms(client, "/releases/fraud") == {}  # nothing was live before it
    log = client.get("/actions/fraud").text
    assert ("it is wrong" in log, "<script>alert" in log, "\u202e" in log) == (True, False, False)
    entries = audit_log.read_actions(local(full), "fraud")
    assert [(entry.action, entry.subject, entry.reason, entry.outcome) for entry in entries] == [
        ("approve", "version 3", HOSTILE, "done"),
        ("rollback", "champion", "it is wrong", "done"),
    ]
    assert {entry.by for entry in entries} == {registry.user()}


@pytest.mark.slow
def test_what_the_command_refuses_is_said_and_logged(full: Path) -> None:
    ref, client = wait_for_approval(full), open_ui(full, token=TOKEN)
    form = read_forms(client, "/models/fraud/3")["/models/fraud/3/approve"]
    release_record.promote(ref, 1)

    answer = client.post("/models/fraud/3/approve", data=form | {"reason": "late"})

    assert (answer.status_code, read_champion(ref)) == (409, 1)
    assert "does not wait for an approval" in answer.text
    (entry,) = audit_log.read_actions(local(full), "fraud")
    assert "does not wait for an approval" in entry.outcome


@pytest.mark.slow
def test_a_run_is_started_and_one_that_failed_is_retried_and_each_outlives_the_request(full: Path) -> None:
    parameters = {"config": configs.load("fraud"), "data": str(full / "nothing"), "device": "cpu"}
    write_run(full, "fraud-new", started="2119-08-01T02:00:00+00:00", parameters=parameters)
    workspace, client = Workspace(local(full)), open_ui(full, token=TOKEN)
    fields = {"pipeline": "ingestion", "date": "2018-04-03", "reason": "late rows"}

    answer = submit(client, "/use-cases/fraud", "/use-cases/fraud/run", **fields)

    assert answer.status_code == 303, Tags(answer.text).text
    page = answer.headers["location"]
    run = page.removeprefix("/runs/")
    assert run.startswith("fraud-ingestion-2018-04-03-")
    wait_until(lambda: workspace.index.find(run).failed == ("ingestion",), "the run has no data")
    assert submit(client, page, f"{page}/retry", reason="it may be there").headers["location"] == page
    wait_until(lambda: len(audit_log.read_actions(local(full), "fraud")) == 2, "the run has begun again")
    assert [(entry.action, entry.subject, entry.reason) for entry in audit_log.read_actions(local(full), "fraud")] == [
        ("run", run, "late rows"),
        ("resume", run, "it may be there"),
    ]


@pytest.mark.slow
def test_a_run_that_cannot_start_says_why(full: Path) -> None:
    write_run(full, "fraud-new", started="2119-08-01T02:00:00+00:00")
    client = open_ui(full, token=TOKEN)

    wrong = submit(client, "/use-cases/fraud", "/use-cases/fraud/run", pipeline="nothing", reason="why not")
    date = submit(client, "/use-cases/fraud", "/use-cases/fraud/run", pipeline="ingestion", date="soon", reason="so")

    assert (wrong.status_code, date.status_code) == (409, 409)
    assert "pipeline is" in wrong.text
    assert "soon" in date.text
