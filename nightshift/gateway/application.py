"""The gateway's routes and their authorization."""

from collections.abc import Callable, Mapping
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST

from nightshift.gateway.completions import CHAT, TEXT, parse_completion
from nightshift.gateway.errors import InvalidKeyError, name_refusal, render_failure, render_refusal
from nightshift.gateway.fleet import Fleet
from nightshift.gateway.forwarding import Accounts, Forwarder
from nightshift.gateway.keys import ANYONE, ApiKey, find_key
from nightshift.gateway.ledger import Ledger
from nightshift.gateway.metrics import GatewayMetrics
from nightshift.gateway.prices import Prices
from nightshift.gateway.request_log import RequestLog, RequestRecord, now
from nightshift.serving.errors import MethodError, NotFoundError, RefusedError
from nightshift.serving.messages import Handler, HttpRequest, HttpResponse
from nightshift.step import log

MODELS = "/v1/models"
MAX_BODY = 16 * 1024 * 1024  # bytes
ROUTES = {CHAT: "POST", TEXT: "POST", MODELS: "GET", "/healthz": "GET", "/metrics": "GET"}
BY_ENGINE = "engine"  # the code of any refusal by the engine
OPEN = frozenset({"/healthz", "/metrics"})  # health checks and scrapes carry no key


class GatewayApplication:
    """Answers requests with the replicas of a fleet.

    Attributes:
        max_body: most bytes of a request's body.
    """

    def __init__(
        self,
        fleet: Fleet,
        ledger: Ledger,
        read_keys: Callable[[], Mapping[str, ApiKey]] | None = None,
        prices: Prices | None = None,
        request_log: RequestLog | None = None,
    ) -> None:
        """Set up the routes.

        Args:
            fleet: the replicas.
            ledger: budgets of the keys.
            read_keys: returns keys by hash; None: no key is required.
            prices: prices of the versions; None: all are free.
            request_log: log of completions; None: no log.
        """
        self.max_body = MAX_BODY
        self._fleet, self._read_keys, self._log = fleet, read_keys, request_log
        self._metrics = GatewayMetrics(fleet)
        accounts = Accounts(ledger, self._metrics, prices or Prices(), request_log)
        self._forwarder = Forwarder(fleet, accounts, self._metrics)

    def admit(self, request: HttpRequest) -> None:
        """Find the handler of a request before its body is read, or refuse it."""
        try:
            request.handler = self._find_handler(request)
        except RefusedError as error:
            request.refuse(error)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer an admitted or refused request; raises nothing."""
        try:
            response = await self._handle(request)
        except RefusedError as error:
            response = self._refuse(error)
        except Exception:  # a bug: logged, not shown to the client
            log.exception("a request failed")
            response = render_failure()
        self._metrics.requests.labels(str(int(response.status))).inc()
        return response

    async def _handle(self, request: HttpRequest) -> HttpResponse:
        if request.refusal:
            return self._refuse(request.refusal)
        assert request.handler
        return await request.handler(request)

    def _find_handler(self, request: HttpRequest) -> Handler:
        """Return the handler of a request.

        Raises:
            NotFoundError: for what is not served.
            MethodError: for a method that the path does not have.
            InvalidKeyError: without a known key.
        """
        method = ROUTES.get(request.path)
        if method is None:
            raise NotFoundError(f"{request.path[:200]} is not served; allowed: {', '.join(ROUTES)}")
        if request.method != method:
            raise MethodError(request.path, request.method, method)
        if request.path in OPEN:
            return self._render_metrics if request.path == "/metrics" else self._describe_health
        key = self._authorize(request)
        return self._list_models if request.path == MODELS else lambda request: self._complete(key, request)

    def _authorize(self, request: HttpRequest) -> ApiKey:
        if self._read_keys is None:
            return ANYONE
        if key := find_key(self._read_keys(), request.headers.get(b"authorization", b"")):
            return key
        raise InvalidKeyError("the API key is missing or unknown; send Authorization: Bearer KEY")

    async def _complete(self, key: ApiKey, request: HttpRequest) -> HttpResponse:
        response = await self._forwarder.complete(key, parse_completion(request.path, request.body))
        if response.status >= HTTPStatus.BAD_REQUEST:
            self._log_refusal(response.status, BY_ENGINE)
        return response

    def _refuse(self, error: RefusedError) -> HttpResponse:
        response, code = render_refusal(error), name_refusal(error)
        self._metrics.refusals.labels(code).inc()
        self._log_refusal(response.status, code)
        return response

    def _log_refusal(self, status: int, code: str) -> None:
        if self._log:
            self._log.add(RequestRecord(now(), int(status), code))

    async def _list_models(self, _: HttpRequest) -> HttpResponse:
        models = [{"id": name, "object": "model", "owned_by": "nightshift"} for name in self._fleet.list_models()]
        return HttpResponse.json({"object": "list", "data": models})

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
