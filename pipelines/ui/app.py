"""The UI's server: each page and its document at a stable URL; what can be changed through it is in `actions.py`."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nightshift.contracts.artifact import Artifact
from nightshift.http.cross_site import check_site
from nightshift.http.errors import CrossSiteError
from nightshift.http.messages import HttpRequest
from nightshift.runtime.errors import UnavailableError, UserError
from pipelines.ui import actions, html
from pipelines.ui.access import AccessGate
from pipelines.ui.pages import PAGES, list_pages
from pipelines.ui.screen import Screen, WebPage, shorten, shorten_all
from pipelines.workspace import Workspace

Handler = Callable[[Request], Awaitable[Response]]
LARGEST = 500_000  # bytes of a page
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    # with no-referrer, a browser hides the origin of a form that is sent here
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
STATIC = {
    "report.css": ("nightshift.drawing", "templates/report.css", "text/css"),
    "ui.css": ("pipelines.ui", "static/ui.css", "text/css"),
    "live.js": ("pipelines.ui", "static/live.js", "text/javascript"),
}


def build_app(workspace: Workspace, gate: AccessGate | None = None) -> Starlette:
    """Return the UI of a workspace.

    Args:
        workspace: what it shows.
        gate: lets in who may act; without one there is no route that changes anything.
    """
    html.render(Screen(title=""))  # templates are compiled before somebody waits for them
    routes = [Route(f"/static/{name}", _read_static(*file), methods=["GET"]) for name, file in STATIC.items()]
    for page in list_pages():
        routes.append(Route(f"{page.path}.json", _handle(page, workspace, _write_json)))
        routes.append(Route(page.path, _handle(page, workspace, partial(_write_html, page.show, gate))))
    routes.append(Route("/", _handle(PAGES[0], workspace, partial(_write_html, PAGES[0].show, gate))))
    routes += actions.list_routes(workspace, gate) if gate else []
    missing: Mapping[Any, Any] = {HTTPStatus.NOT_FOUND.value: _refuse_path}
    return Starlette(routes=routes, middleware=[Middleware(SiteGuard)], exception_handlers=missing)


class SiteGuard:
    """Refuses requests that a web page makes a visitor's browser send here, and says what pages may do."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            check_site(HttpRequest(headers=dict(scope["headers"])))
        except CrossSiteError as error:
            await PlainTextResponse(f"{error}\n", int(error.status))(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        await self.app(scope, receive, send_with_headers)


def _read_static(package: str, path: str, media_type: str) -> Response:
    return Response(resources.files(package).joinpath(path).read_bytes(), media_type=media_type)


def _handle(page: WebPage, workspace: Workspace, write: Callable[[Request, Any], Response]) -> Handler:
    async def handle(request: Request) -> Response:
        params = {**request.query_params, **request.path_params}
        return await run_in_threadpool(_answer, lambda: write(request, page.read(workspace, params)))

    return handle


def _answer(make: Callable[[], Response]) -> Response:
    """Return a page or its document; what cannot be read is answered with its sentence."""
    try:
        return make()
    except UserError as error:
        return _explain(str(error), HTTPStatus.NOT_FOUND)
    except UnavailableError as error:
        return _explain(str(error), HTTPStatus.SERVICE_UNAVAILABLE)


def _write_json(_: Request, document: Artifact) -> Response:
    return Response(document.model_dump_json(indent=2), media_type="application/json")


def _write_html(
    show: Callable[[Any], Screen], gate: AccessGate | None, request: Request, document: Artifact
) -> Response:
    session = gate.find_session(request) if gate else None
    body = html.render(show(document), session, has_login=gate is not None).encode()
    if len(body) > LARGEST:
        sentence = f"This page has {len(body):,} bytes, more than a browser should load; its JSON has all of it."
        return _explain(sentence, HTTPStatus.OK)
    return Response(body, media_type="text/html")


def _explain(sentence: str, status: HTTPStatus) -> Response:
    title = "This page is not there" if status is HTTPStatus.NOT_FOUND else "This page cannot be shown"
    screen = Screen(title=title, tone="bad", reasons=shorten_all(sentence.split("\n")))
    return Response(html.render(screen), status, media_type="text/html")


async def _refuse_path(request: Request, _: Exception) -> Response:
    sentence = f"There is no page {shorten(request.url.path)}; the links above lead to those that there are."
    return _explain(sentence, HTTPStatus.NOT_FOUND)
