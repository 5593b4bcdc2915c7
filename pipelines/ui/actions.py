"""What a person may do by the UI that was started with `--allow`: a route each, each with a reason.

A route builds the command of it and, when that is done, leads to the page of what was done.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from nightshift import storage
from nightshift.contracts.state import DeploymentTarget
from nightshift.http.cross_site import FORM, check_type
from nightshift.http.errors import ContentTypeError
from nightshift.http.messages import HttpRequest
from nightshift.runtime.errors import UserError
from pipelines import arguments, records
from pipelines.ui import commands, html
from pipelines.ui.access import AccessGate, set_cookie
from pipelines.ui.screen import REASON_LENGTH, ActionForm, FormField, Screen, make_href, shorten_all
from pipelines.workspace import Workspace

LARGEST = 20_000  # bytes of a form
LOGIN = "/login"
Fields = Mapping[str, str]


@dataclass(frozen=True)
class WebAction:
    """Something that a person may do.

    Attributes:
        path: of its URL, with parameters in braces.
        perform: does it with the fields of the form and of the path; returns the page to show then.
    """

    path: str
    perform: Callable[[Workspace, Fields], str]


def approve(workspace: Workspace, fields: Fields) -> str:
    """Approve a version that waits."""
    name, number = fields["name"], _require_number(fields["version"])
    commands.run(["approve", number, *_describe_release(workspace, fields)])
    return make_href("models", name, number)


def roll_back(workspace: Workspace, fields: Fields) -> str:
    """Restore the previous champion."""
    commands.run(["rollback", *_describe_release(workspace, fields)])
    return make_href("releases", fields["name"])


def hold(workspace: Workspace, fields: Fields) -> str:
    """Pause a release."""
    commands.run(["release", "pause", *_describe_release(workspace, fields)])
    return make_href("releases", fields["name"])


def resume(workspace: Workspace, fields: Fields) -> str:
    """Undo `hold`."""
    commands.run(["release", "resume", *_describe_release(workspace, fields)])
    return make_href("releases", fields["name"])


def retry(workspace: Workspace, fields: Fields) -> str:
    """Resume a run."""
    run = workspace.index.find(fields["run"]).name
    words = ["run", f"--resume={run}", f"--workspace={_require_folder(workspace)}", f"--reason={fields['reason']}"]
    return make_href("runs", commands.start_run(words, workspace))


def start(workspace: Workspace, fields: Fields) -> str:
    """Start a run of a pipeline with the config, data and device of the use case's newest run."""
    pipeline, folder = fields.get("pipeline", ""), _require_folder(workspace)
    if pipeline not in arguments.list_shipped():
        raise UserError(f"pipeline is {pipeline!r}; allowed: {', '.join(arguments.list_shipped())}")
    newest = workspace.require_runs(fields["name"])[0]
    known = records.read(Path(workspace.index.folder(newest))).parameters
    repeated = {name: known[name] for name in arguments.load_compiled(pipeline).parameters if name in known}
    words = ["run", pipeline, f"--workspace={folder}", f"--reason={fields['reason']}", *_repeat(repeated)]
    kept = ("registry", "audit") if "state" in repeated else ()
    words += [f"--set=state.{root}={getattr(workspace.state, root)}" for root in kept]
    words += [f"--date={fields['date']}"] if fields.get("date") else []
    return make_href("runs", commands.start_run(words, workspace))


ACTIONS = (
    WebAction("/models/{name}/{version}/approve", approve),
    WebAction("/releases/{name}/rollback", roll_back),
    WebAction("/releases/{name}/hold", hold),
    WebAction("/releases/{name}/resume", resume),
    WebAction("/runs/{run}/retry", retry),
    WebAction("/use-cases/{name}/run", start),
)


def list_routes(workspace: Workspace, gate: AccessGate) -> list[Route]:
    """Return the routes of all actions, and of the login."""
    acting = [Route(action.path, _handle(action, workspace, gate), methods=["POST"]) for action in ACTIONS]
    return [*acting, Route(LOGIN, _handle_login(gate), methods=["GET", "POST"])]


def _describe_release(workspace: Workspace, fields: Fields) -> list[str]:
    state = workspace.state
    folder = [f"--workspace={_require_folder(workspace)}"] if "://" not in state.runs else []
    kept = [f"--registry={state.registry}", f"--audit={state.audit}"]
    return [*folder, *kept, f"--config={fields['name']}", f"--reason={fields['reason']}"]


def _require_folder(workspace: Workspace) -> str:
    """Return the folder of a workspace on this machine."""
    if "://" in workspace.state.runs:
        raise UserError(f"the runs lie in {workspace.state.runs}; start and retry them where they run")
    return storage.join(workspace.state.runs).rpartition("/")[0]


def _require_number(text: str) -> str:
    if not text.isdecimal():
        raise UserError("a version is a number")
    return text


def _repeat(parameters: Mapping[str, Any]) -> list[str]:
    """Return the options of a run like an earlier one."""
    words = [f"--{name}={parameters[name]}" for name in ("data", "device") if name in parameters]
    target = parameters.get("state", {}).get("target", DeploymentTarget.RECORD_ONLY)
    words += [] if target == DeploymentTarget.RECORD_ONLY else [f"--target={target}"]
    return [*words, f"--set=config={json.dumps(parameters['config'])}"] if "config" in parameters else words


def _handle(action: WebAction, workspace: Workspace, gate: AccessGate) -> Callable[[Request], Any]:
    async def handle(request: Request) -> Response:
        session, fields = gate.find_session(request), await _read_form(request)
        if session is None:
            return _refuse("Log in first: this browser has no session.", HTTPStatus.FORBIDDEN)
        if not session.has_signed(request.url.path, fields.get("signature", "")):
            return _refuse("This form is not of your session; load its page again.", HTTPStatus.FORBIDDEN)
        reason = " ".join(fields.get("reason", "").replace("\0", "").split())
        if not 0 < len(reason) <= REASON_LENGTH:
            sentence = f"A reason has 1 to {REASON_LENGTH} characters; it goes to the audit log."
            return _refuse(sentence, HTTPStatus.UNPROCESSABLE_ENTITY)
        known = {**fields, "reason": reason, **request.path_params}
        return await run_in_threadpool(_perform, action, workspace, known)

    return handle


def _perform(action: WebAction, workspace: Workspace, fields: Fields) -> Response:
    try:
        return RedirectResponse(action.perform(workspace, fields), HTTPStatus.SEE_OTHER)
    except UserError as error:
        return _refuse(str(error), HTTPStatus.CONFLICT)


def _handle_login(gate: AccessGate) -> Callable[[Request], Any]:
    async def handle(request: Request) -> Response:
        fields = await _read_form(request) if request.method == "POST" else request.query_params
        if "token" not in fields:
            return Response(html.render(LOGIN_SCREEN), media_type="text/html")
        session = gate.open_session(fields["token"])
        if session is None:
            return _refuse("The token is wrong; `nightshift ui --allow` has printed it.", HTTPStatus.FORBIDDEN)
        return set_cookie(RedirectResponse("/", HTTPStatus.SEE_OTHER), session)

    return handle


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; none of a body that is none, or too large."""
    length = request.headers.get("content-length", "")
    try:
        check_type(HttpRequest(headers=dict(request.scope["headers"])), (FORM,))
    except ContentTypeError:
        return {}
    if not length.isdecimal() or int(length) > LARGEST:
        return {}
    return dict(parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True))


def _refuse(sentence: str, status: HTTPStatus) -> Response:
    screen = Screen(title="Nothing was done", tone="bad", reasons=shorten_all(sentence.split("\n")))
    return Response(html.render(screen, has_login=True), status, media_type="text/html")


LOGIN_SCREEN = Screen(
    title="Log in",
    reasons=["`nightshift ui --allow` has printed the token, or NIGHTSHIFT_UI_TOKEN has it."],
    forms=[ActionForm("Log in", LOGIN, [FormField("token", "Token", "password")], needs_session=False)],
)
