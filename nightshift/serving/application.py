"""The routes of the server: a request in, a response out."""

import re
import secrets
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import count

from prometheus_client import CONTENT_TYPE_LATEST

from nightshift.serving import encodings, openapi
from nightshift.serving.answers import Answer
from nightshift.serving.batching import Limits
from nightshift.serving.bearer import Bearer
from nightshift.serving.errors import MethodError, NotFoundError, RefusedError, RequestError, UnauthorizedError
from nightshift.serving.messages import Handler, Request, Response
from nightshift.serving.metrics import Metrics
from nightshift.serving.payloads import decode
from nightshift.serving.predictions import Predictions
from nightshift.serving.protocols import events, features, inference, items
from nightshift.serving.versions import Current, Model
from nightshift.serving.workers import Board
from nightshift.step import log

MODELS = "/v2/models/"
# asked by whoever keeps the server running, which has no token
OPEN = frozenset({"/healthz", "/ping", "/v2/health/live", "/v2/health/ready"})
VERSION = b"x-model-version"  # asks one version, whoever it answers otherwise
PATHS = 256  # of models, whose handlers are remembered
REQUEST_ID = re.compile(rb"[\w.:-]{1,128}")


class Application:
    """Answers requests with the version that serves at that moment."""

    def __init__(
        self,
        current: Current,
        limits: Limits,
        token: Bearer | None = None,
        aliases: Mapping[str, str] | None = None,
        board: Board | None = None,
        predictions: Predictions | None = None,
    ) -> None:
        """Set up the routes.

        Args:
            current: what answers.
            limits: of a request.
            token: what a request has to bear; None lets everybody in.
            aliases: path -> the route that answers it too.
            board: what the workers of a server share; None: this is the only one.
            predictions: logs what is answered.
        """
        self._current, self._limits, self.max_body = current, limits, limits.body
        self._token = token
        self._prefix, self._number = secrets.token_hex(8), count(1)
        self._board, self._predictions = board or Board(), predictions
        self._routes = self._table()
        self._find_model = lru_cache(PATHS)(self._of_model)
        self._answers: dict[str, Callable[[Model], object]] = {
            "": inference.described,
            "ready": lambda model: {"name": model.name, "ready": True},
            "config": partial(inference.configuration, limits=limits),
            "stats": inference.statistics,
        }
        for path, route in (aliases or {}).items():
            self._routes[path] = self._routes[route]
        routes = ["none", *self._routes, *map(_model_route, [*self._answers, "infer"])]
        self._metrics = Metrics(current.model, current.labels, routes, self._board)

    @property
    def model(self) -> Model:
        """The version that answers."""
        return self._current.model

    def admit(self, request: Request) -> None:
        """Find the handler of a request before its body is read, or refuse it."""
        try:
            request.route, request.handler = self._find(request)
            self._authorize(request)
            if b"content-encoding" in request.headers:
                encodings.check(request.header(b"content-encoding"))
        except RefusedError as error:
            request.refuse(error)

    async def answer(self, request: Request) -> Response:
        """Answer a request that was admitted or refused, whatever happens."""
        started, request.id = time.perf_counter(), self._request_id(request)
        self._metrics.began()
        try:
            response = await self._handle(request)
        except RefusedError as error:
            response = Response.refusal(error)
        except RecursionError:  # JSON that could be read, and that is too deep for what a message or a column shows
            deep = RequestError("body", "nested too deeply", "the form that /openapi.json describes")
            response = Response.refusal(deep)
        except Exception:  # ours to fix: told to us, not to the client
            where = {"request_id": request.id, "traceparent": request.header(b"traceparent"), "route": request.route}
            log.exception("a request failed", extra={"fields": where})
            response = Response.json({"error": "internal error"}, HTTPStatus.INTERNAL_SERVER_ERROR)
        response.headers["x-request-id"] = request.id
        self._metrics.answered(request.route, response.status, time.perf_counter() - started)
        return response

    async def _handle(self, request: Request) -> Response:
        if request.refusal:
            return Response.refusal(request.refusal)
        if b"content-encoding" in request.headers:
            request.body = encodings.decode(request.body, request.header(b"content-encoding"), self.max_body)
        assert request.handler
        return await request.handler(request)

    def _table(self) -> dict[str, dict[str, Handler]]:
        """Return path -> method -> what answers."""

        def get(answer: Callable[[], object]) -> dict[str, Handler]:
            async def handler(_: Request) -> Response:
                return Response.json(answer())

            return {"GET": handler, "HEAD": handler}

        def state(name: str) -> dict[str, Handler]:
            return get(lambda: {name: True})  # KServe's clients look for it

        return {
            "/score": {"POST": self._score},
            "/invocations": {"POST": self._score},
            "/labels": {"POST": self._label},
            "/model": get(lambda: features.describe(self._current)),
            "/openapi.json": get(lambda: openapi.page(self._current, self._limits.rows)),
            "/healthz": get(lambda: self._current.health() | {"behind": self._board.behind()}),
            "/ping": get(dict),
            "/metrics": {"GET": self._page, "HEAD": self._page},
            "/v2": get(inference.server),
            "/v2/health/live": state("live"),
            "/v2/health/ready": state("ready"),
            "/v2/models/stats": get(lambda: inference.statistics(self._current.model)),
            "/v2/repository/index": {"POST": self._index},
        }

    def _find(self, request: Request) -> tuple[str, Handler]:
        """Return the route, as metrics call it, and what answers a request.

        Raises:
            NotFoundError: for an unknown path.
            MethodError: for a method that the path does not have.
        """
        path = request.path
        if (methods := self._routes.get(path)) is None:
            path, methods = self._find_model(path)
        if request.method == "OPTIONS":
            return path, partial(_options, ", ".join(methods))
        if request.method not in methods:
            raise MethodError(path, request.method, ", ".join(methods))
        return path, methods[request.method]

    def _of_model(self, path: str) -> tuple[str, dict[str, Handler]]:
        """Find `/v2/models/<name>[/versions/<version>][/<operation>]`."""
        if not path.startswith(MODELS):
            raise NotFoundError(f"unknown path: {path[:200]}; see /openapi.json and /v2")
        name, *rest = path.removeprefix(MODELS).split("/")
        version = rest[1] if len(rest) > 1 and rest[0] == "versions" else None
        operation = "/".join(rest[2:] if version else rest)
        route = _model_route(operation)
        if operation == "infer":
            return route, {"POST": partial(self._infer, name, version)}
        if operation not in self._answers:
            allowed = ", ".join([*self._answers, "infer"])
            raise NotFoundError(f"unknown operation: {operation[:200]}; allowed: {allowed}")

        async def handler(_: Request) -> Response:
            return Response.json(self._answers[operation](inference.find(self._current, name, version)))

        return route, {"GET": handler, "HEAD": handler}

    def _authorize(self, request: Request) -> None:
        if self._token is None or request.path in OPEN:
            return
        if not self._token.admits(request.headers.get(b"authorization", b"")):
            raise UnauthorizedError("the bearer token is missing or wrong; send Authorization: Bearer ...")

    def _request_id(self, request: Request) -> str:
        """Return the id that came with a request, or a new one."""
        given = request.headers.get(b"x-request-id")
        return given.decode() if given and REQUEST_ID.fullmatch(given) else f"{self._prefix}-{next(self._number):x}"

    async def _score(self, request: Request) -> Response:
        only = self._asked_version(request)
        model = only or self._current.model
        if model.reader:
            split = None if only else self._current.beside(model)
            return self._counted(request, await items.score(items.Answering(model, split), request, self._limits))
        asked = decode(request.body)
        if isinstance(asked, dict) and len(asked) == 1 and "events" in asked:
            return self._counted(request, await events.score(self._current, asked["events"], self._limits.rows, only))
        return self._counted(request, await features.score(model, asked))

    def _asked_version(self, request: Request) -> Model | None:
        """Return the version that a request names, None when it leaves that to us."""
        if not (version := request.header(VERSION)):
            return None
        return inference.find(self._current, self._current.model.name, version)

    async def _label(self, request: Request) -> Response:
        return await events.label(self._current, decode(request.body), self._limits.rows)

    async def _infer(self, name: str, version: str | None, request: Request) -> Response:
        model = inference.find(self._current, name, version)
        return self._counted(request, await inference.infer(model, self._limits, request))

    def _counted(self, request: Request, answer: Answer) -> Response:
        for scored in answer.parts:
            self._metrics.scored(scored.scores, scored.model.threshold)
            if self._predictions:
                self._predictions.add(request.id, scored)
        return answer.response

    async def _index(self, _: Request) -> Response:
        return Response.json(inference.index(self._current.model))

    async def _page(self, _: Request) -> Response:
        return Response(self._metrics.page(), headers={"content-type": CONTENT_TYPE_LATEST})


async def _options(methods: str, _: Request) -> Response:
    return Response(b"", headers={"allow": methods})


def _model_route(operation: str) -> str:
    return "/".join([f"{MODELS}{{name}}", *([operation] if operation else [])])
