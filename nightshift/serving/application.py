"""The routes of the server: a request in, a response out."""

import re
import secrets
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import count

from prometheus_client import CONTENT_TYPE_LATEST

from nightshift.http import encodings
from nightshift.http.bearer import Bearer
from nightshift.http.cross_site import JSON, check_site, check_type
from nightshift.http.errors import MethodError, NotFoundError, RefusedError, RequestError, UnauthorizedError
from nightshift.http.messages import Handler, HttpRequest, HttpResponse
from nightshift.runtime.step import log
from nightshift.serving import openapi, reasons
from nightshift.serving.answers import Answer
from nightshift.serving.batching import ServerLimits
from nightshift.serving.metrics import EndpointMetrics
from nightshift.serving.payloads import decode
from nightshift.serving.prediction_log import PredictionLog
from nightshift.serving.protocols import events, features, inference, items
from nightshift.serving.versions import Model, ModelManager
from nightshift.serving.workers import SharedCounters

MODELS, INDEX = "/v2/models/", "/v2/repository/index"
INFER = f"{MODELS}{{name}}/infer"
# health checks carry no token
OPEN = frozenset({"/healthz", "/ping", "/v2/health/live", "/v2/health/ready"})
VERSION = b"x-model-version"  # header: the version that answers, in place of the server's choice
CACHED_PATHS = 256  # paths of models with a cached handler
REQUEST_ID = re.compile(rb"[\w.:-]{1,128}")


class Application:
    """Answers requests with the version that serves at the moment."""

    def __init__(
        self,
        manager: ModelManager,
        limits: ServerLimits,
        token: Bearer | None = None,
        aliases: Mapping[str, str] | None = None,
        counters: SharedCounters | None = None,
        predictions: PredictionLog | None = None,
        is_local: bool = True,
    ) -> None:
        """Set up the routes.

        Args:
            manager: holds the version that answers.
            limits: bounds of a request.
            token: bearer token that requests must send; None admits everybody.
            aliases: further path -> route.
            counters: shared by the workers of a server; None: this is the only worker.
            predictions: log of the predictions; None: none is written.
            is_local: whether only this machine reaches the server, so that pages of other sites are refused.
        """
        self._manager, self._limits, self.max_body = manager, limits, limits.body
        self._token, self._checks_site = token, is_local and token is None
        self._prefix, self._number = secrets.token_hex(8), count(1)
        self._counters, self._predictions = counters or SharedCounters(), predictions
        self._routes = self._build_routes()
        self._cached_model_route = lru_cache(CACHED_PATHS)(self._find_model_route)
        self._operations: dict[str, Callable[[Model], object]] = {
            "": inference.describe_model,
            "ready": lambda model: {"name": model.name, "ready": True},
            "config": partial(inference.configuration, limits=limits),
            "stats": inference.statistics,
        }
        for path, route in (aliases or {}).items():
            self._routes[path] = self._routes[route]
        routes = ["none", *self._routes, *map(_format_model_route, [*self._operations, "infer"])]
        self._metrics = EndpointMetrics(manager.model, manager.labels, routes, self._counters)

    @property
    def model(self) -> Model:
        """The version that answers."""
        return self._manager.model

    def admit(self, request: HttpRequest) -> None:
        """Find the handler of a request before its body is read, or refuse it."""
        try:
            if self._checks_site:
                check_site(request)
            request.route, request.handler = self._find(request)
            self._authorize(request)
            if request.method == "POST" and request.path != INDEX:
                check_type(request, self._list_types(request.route))
            if b"content-encoding" in request.headers:
                encodings.check(request.header(b"content-encoding"))
        except RefusedError as error:
            request.refuse(error)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer an admitted or refused request; raises nothing."""
        started, request.id = time.perf_counter(), self._request_id(request)
        self._metrics.count_start()
        try:
            response = await self._handle(request)
        except RefusedError as error:
            response = HttpResponse.refusal(error)
        except RecursionError:  # valid JSON, but too deep for an error message or a column
            refusal = RequestError("body", "nested too deeply", "the form that /openapi.json describes")
            response = HttpResponse.refusal(refusal)
        except Exception:  # a bug: logged, not shown to the client
            where = {"request_id": request.id, "traceparent": request.header(b"traceparent"), "route": request.route}
            log.exception("a request failed", extra={"fields": where})
            response = HttpResponse.json({"error": "internal error"}, HTTPStatus.INTERNAL_SERVER_ERROR)
        response.headers["x-request-id"] = request.id
        self._metrics.count_answer(request.route, response.status, time.perf_counter() - started)
        return response

    async def _handle(self, request: HttpRequest) -> HttpResponse:
        if request.refusal:
            return HttpResponse.refusal(request.refusal)
        if b"content-encoding" in request.headers:
            request.body = encodings.decode(request.body, request.header(b"content-encoding"), self.max_body)
        assert request.handler
        return await request.handler(request)

    def _build_routes(self) -> dict[str, dict[str, Handler]]:
        """Return path -> method -> handler."""

        def get(answer: Callable[[], object]) -> dict[str, Handler]:
            async def handler(_: HttpRequest) -> HttpResponse:
                return HttpResponse.json(answer())

            return {"GET": handler, "HEAD": handler}

        def flag(name: str) -> dict[str, Handler]:
            return get(lambda: {name: True})  # KServe's clients look for it

        return {
            "/score": {"POST": self._score},
            "/invocations": {"POST": self._score},
            "/labels": {"POST": self._label},
            "/model": get(lambda: features.describe(self._manager)),
            "/openapi.json": get(lambda: openapi.describe_api(self._manager, self._limits.rows)),
            "/healthz": get(lambda: self._manager.health() | {"behind": self._counters.count_lagging()}),
            "/ping": get(dict),
            "/metrics": {"GET": self._render_metrics, "HEAD": self._render_metrics},
            "/v2": get(inference.describe_server),
            "/v2/health/live": flag("live"),
            "/v2/health/ready": flag("ready"),
            "/v2/models/stats": get(lambda: inference.statistics(self._manager.model)),
            INDEX: {"POST": self._index},
        }

    def _find(self, request: HttpRequest) -> tuple[str, Handler]:
        """Return the route, as metrics call it, and the handler of a request.

        Raises:
            NotFoundError: for an unknown path.
            MethodError: for a method that the path does not have.
        """
        path = request.path
        if (methods := self._routes.get(path)) is None:
            path, methods = self._cached_model_route(path)
        if request.method == "OPTIONS":
            return path, partial(_answer_options, ", ".join(methods))
        if request.method not in methods:
            raise MethodError(path, request.method, ", ".join(methods))
        return path, methods[request.method]

    def _find_model_route(self, path: str) -> tuple[str, dict[str, Handler]]:
        """Find `/v2/models/<name>[/versions/<version>][/<operation>]`."""
        if not path.startswith(MODELS):
            raise NotFoundError(f"unknown path: {path[:200]}; see /openapi.json and /v2")
        name, *rest = path.removeprefix(MODELS).split("/")
        version = rest[1] if len(rest) > 1 and rest[0] == "versions" else None
        operation = "/".join(rest[2:] if version else rest)
        route = _format_model_route(operation)
        if operation == "infer":
            return route, {"POST": partial(self._infer, name, version)}
        if operation not in self._operations:
            allowed = ", ".join([*self._operations, "infer"])
            raise NotFoundError(f"unknown operation: {operation[:200]}; allowed: {allowed}")

        async def handler(_: HttpRequest) -> HttpResponse:
            return HttpResponse.json(self._operations[operation](inference.find(self._manager, name, version)))

        return route, {"GET": handler, "HEAD": handler}

    def _authorize(self, request: HttpRequest) -> None:
        if self._token is None or request.path in OPEN:
            return
        if not self._token.admits(request.headers.get(b"authorization", b"")):
            raise UnauthorizedError("the bearer token is missing or wrong; send Authorization: Bearer ...")

    def _list_types(self, route: str) -> tuple[str, ...]:
        """Return the types of a route's body; see `check_type`."""
        if route == INFER:
            return inference.CONTENT_TYPES
        decoder = self._manager.model.decoder
        return (JSON, *decoder.items.content_types) if decoder and route != "/labels" else (JSON,)

    def _request_id(self, request: HttpRequest) -> str:
        """Return the id that came with a request, or a new one."""
        request_id = request.headers.get(b"x-request-id")
        if request_id and REQUEST_ID.fullmatch(request_id):
            return request_id.decode()
        return f"{self._prefix}-{next(self._number):x}"

    async def _score(self, request: HttpRequest) -> HttpResponse:
        pinned = self._find_pinned(request)
        model = pinned or self._manager.model
        count = reasons.read_count(request.query, model) if request.query else 0
        if model.decoder:
            split = items.TrafficSplit(model, None if pinned else self._manager.find_split(model))
            return self._count(request, await items.score(split, request, self._limits))
        payload = decode(request.body)
        if isinstance(payload, dict) and len(payload) == 1 and "events" in payload:
            answer = await events.score(self._manager, payload["events"], self._limits.rows, pinned, count)
            return self._count(request, answer)
        return self._count(request, await features.score(model, payload, count))

    def _find_pinned(self, request: HttpRequest) -> Model | None:
        """Return the version that a request names; None: it leaves the choice to the server."""
        if not (version := request.header(VERSION)):
            return None
        return inference.find(self._manager, self._manager.model.name, version)

    async def _label(self, request: HttpRequest) -> HttpResponse:
        return await events.label(self._manager, decode(request.body), self._limits.rows)

    async def _infer(self, name: str, version: str | None, request: HttpRequest) -> HttpResponse:
        model = inference.find(self._manager, name, version)
        if request.query:
            reasons.refuse_tensors(request.query)
        return self._count(request, await inference.infer(model, self._limits, request))

    def _count(self, request: HttpRequest, answer: Answer) -> HttpResponse:
        for scored in answer.parts:
            self._metrics.count_scores(scored.scores, scored.model.threshold)
            if self._predictions:
                self._predictions.add(request.id, scored)
        return answer.response

    async def _index(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse.json(inference.index(self._manager.model))

    async def _render_metrics(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse(self._metrics.render(), headers={"content-type": CONTENT_TYPE_LATEST})


async def _answer_options(methods: str, _: HttpRequest) -> HttpResponse:
    return HttpResponse(b"", headers={"allow": methods})


def _format_model_route(operation: str) -> str:
    return "/".join([f"{MODELS}{{name}}", *([operation] if operation else [])])
