"""The gateway's routes and their authorization."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST

from nightshift.http import encodings
from nightshift.http.cross_site import JSON, check_site, check_type
from nightshift.http.errors import MethodError, NotFoundError, RefusedError
from nightshift.http.messages import Handler, HttpRequest, HttpResponse
from nightshift.runtime.step import log
from nightshift_llm.gateway.completions import CHAT, EMBEDDINGS, ENGINE_FIELDS, TEXT, parse_completion
from nightshift_llm.gateway.errors import (
    InvalidKeyError,
    UnknownModelError,
    name_refusal,
    render_failure,
    render_refusal,
)
from nightshift_llm.gateway.fleet import Fleet
from nightshift_llm.gateway.forwarding import Accounts, Forwarder
from nightshift_llm.gateway.keys import ANYONE, ApiKey, find_key
from nightshift_llm.gateway.ledger import Ledger
from nightshift_llm.gateway.metrics import GatewayMetrics
from nightshift_llm.gateway.prices import Prices
from nightshift_llm.gateway.request_log import RequestLog, RequestRecord, now
from nightshift_llm.gateway.tracing import RequestTrace, read_trace

MODELS = "/v1/models"
MAX_BODY = 16 * 1024 * 1024  # bytes
MODEL = f"{MODELS}/<id>"
ROUTES = {CHAT: "POST", TEXT: "POST", EMBEDDINGS: "POST", MODELS: "GET", MODEL: "GET"} | {
    "/health": "GET",  # engines' own, by which load generators check a server
    "/healthz": "GET",
    "/metrics": "GET",
}
BY_ENGINE = "engine"  # the code of any refusal by the engine
OPEN = frozenset({"/health", "/healthz", "/metrics"})  # health checks and scrapes carry no key


@dataclass(frozen=True)
class GatewayPolicy:
    """What clients may send, and what it costs.

    Attributes:
        read_keys: returns keys by hash; None: no key is required.
        prices: prices of the versions; None: all are free.
        engine_fields: fields of requests to pass beside those of OpenAI's API.
    """

    read_keys: Callable[[], Mapping[str, ApiKey]] | None = None
    prices: Prices | None = None
    engine_fields: Collection[str] = ENGINE_FIELDS


class GatewayApplication:
    """Answers requests with the replicas of a fleet.

    Attributes:
        max_body: most bytes of a request's body.
    """

    def __init__(
        self, fleet: Fleet, ledger: Ledger, policy: GatewayPolicy, request_log: RequestLog | None = None
    ) -> None:
        """Set up the routes.

        Args:
            fleet: the replicas.
            ledger: budgets of the keys.
            policy: keys, prices and fields.
            request_log: log of completions; None: no log.
        """
        self.max_body = MAX_BODY
        self._fleet, self._ledger, self._policy, self._log = fleet, ledger, policy, request_log
        self._metrics = GatewayMetrics(fleet, ledger)
        accounts = Accounts(ledger, self._metrics, policy.prices or Prices(), request_log)
        self._forwarder = Forwarder(fleet, accounts, self._metrics)

    def admit(self, request: HttpRequest) -> None:
        """Find the handler of a request before its body is read, or refuse it."""
        try:
            request.handler = self._find_handler(request)
            encodings.check(request.header(b"content-encoding"))
        except RefusedError as error:
            request.refuse(error)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer an admitted or refused request; raises nothing."""
        trace = read_trace(request)
        request.id = trace.request_id
        try:
            response = self._refuse(request.refusal, trace) if request.refusal else await self._handle(request)
        except RefusedError as error:
            response = self._refuse(error, trace)
        except Exception:  # a bug: logged, not shown to the client
            log.exception("a request failed", extra={"fields": trace.answer_headers})
            response = render_failure()
        response.headers |= trace.answer_headers
        self._metrics.requests.labels(str(int(response.status))).inc()
        return response

    async def _handle(self, request: HttpRequest) -> HttpResponse:
        assert request.handler
        request.body = encodings.decode(request.body, request.header(b"content-encoding"), MAX_BODY)
        return await request.handler(request)

    def _find_handler(self, request: HttpRequest) -> Handler:
        """Return the handler of a request.

        Raises:
            NotFoundError: for what is not served.
            MethodError: for a method that the path does not have.
            InvalidKeyError: without a known key.
            CrossSiteError: from a page of another site, where no key is required.
            ContentTypeError: for a body that is not JSON.
        """
        if self._policy.read_keys is None:
            check_site(request)
        route = MODEL if request.path.startswith(f"{MODELS}/") else request.path
        method = ROUTES.get(route)
        if method is None:
            raise NotFoundError(f"{request.path[:200]} is not served; allowed: {', '.join(ROUTES)}")
        if request.method != method:
            raise MethodError(request.path, request.method, method)
        request.route = route
        if method == "POST":
            check_type(request, (JSON,))
        if route in OPEN:
            return self._render_metrics if route == "/metrics" else self._describe_health
        key = self._authorize(request)
        describe = {MODELS: self._list_models, MODEL: self._describe_model}.get(route)
        return describe or (lambda request: self._complete(key, request))

    def _authorize(self, request: HttpRequest) -> ApiKey:
        if self._policy.read_keys is None:
            return ANYONE
        if key := find_key(self._policy.read_keys(), request.headers.get(b"authorization", b"")):
            return key
        raise InvalidKeyError("the API key is missing or unknown; send Authorization: Bearer KEY")

    async def _complete(self, key: ApiKey, request: HttpRequest) -> HttpResponse:
        trace = read_trace(request)
        try:
            completion = parse_completion(request.path, request.body, trace, self._policy.engine_fields)
            response = await self._forwarder.complete(key, completion)
        except RefusedError as error:
            response = self._refuse(error, trace)
        else:
            if response.status >= HTTPStatus.BAD_REQUEST:
                self._log_refusal(response.status, BY_ENGINE, trace)
        response.headers |= self._ledger.describe_limits(key)
        return response

    def _refuse(self, error: RefusedError, trace: RequestTrace) -> HttpResponse:
        response, code = render_refusal(error), name_refusal(error)
        self._metrics.refusals.labels(code).inc()
        self._log_refusal(response.status, code, trace)
        return response

    def _log_refusal(self, status: int, code: str, trace: RequestTrace) -> None:
        if self._log:
            request_id, traceparent, _ = trace
            record = RequestRecord(now(), int(status), code, request_id=request_id, traceparent=traceparent)
            self._log.add(record)

    async def _list_models(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse.json({"object": "list", "data": self._fleet.describe_models()})

    async def _describe_model(self, request: HttpRequest) -> HttpResponse:
        name = request.path.removeprefix(f"{MODELS}/")
        for model in self._fleet.describe_models():
            if model["id"] == name:
                return HttpResponse.json(model)
        raise UnknownModelError(f"model is {name[:100]!r}; served: {', '.join(self._fleet.list_models())}", "model")

    async def _describe_health(self, _: HttpRequest) -> HttpResponse:
        replicas = {
            replica.address.url: {
                "healthy": replica.is_healthy,
                "draining": replica.is_draining,
                "requests": replica.running,
            }
            for replica in self._fleet.replicas.values()
        }
        is_ready = any(replica.is_healthy for replica in self._fleet.replicas.values())
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return HttpResponse.json({"ready": is_ready, "replicas": replicas}, int(status))

    async def _render_metrics(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse(self._metrics.render(), headers={"content-type": CONTENT_TYPE_LATEST})
