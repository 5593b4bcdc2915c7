"""A span of each request, around an application that knows nothing of it."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager

from opentelemetry.context import Context
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.http_attributes import (
    HTTP_REQUEST_METHOD,
    HTTP_RESPONSE_STATUS_CODE,
    HTTP_ROUTE,
)
from opentelemetry.semconv.attributes.url_attributes import URL_PATH, URL_SCHEME
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from nightshift.http.messages import HttpRequest, HttpResponse
from nightshift.http.transport import HttpApplication
from nightshift.opentelemetry.provider import SCOPE, open_provider

HEADERS = (b"traceparent", b"tracestate")
METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
OTHER_METHOD = "_OTHER"  # of the conventions, so that clients do not invent values
NO_ROUTE = HttpRequest().route
REQUEST_ID = "http.response.header.x-request-id"
SERVER_ERROR = 500

propagator = TraceContextTextMapPropagator()


@contextmanager
def trace_requests(application: HttpApplication, service: str) -> Iterator[HttpApplication]:
    """Yield an application that answers as another one does, with a span of each request."""
    with open_provider(service) as provider:
        yield TracedApplication(application, provider.get_tracer(SCOPE))


class TracedApplication:
    """Answers requests within spans.

    The application inside sees the span as the request's `traceparent`, and so passes it on where it passes one on.

    Attributes:
        max_body: most bytes of a request's body.
    """

    def __init__(self, application: HttpApplication, tracer: Tracer) -> None:
        self._application, self._tracer = application, tracer
        self.max_body = application.max_body

    def admit(self, request: HttpRequest) -> None:
        """Find the handler of a request before its body is read, or refuse it."""
        self._application.admit(request)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer an admitted or refused request; the span of a stream lasts until its end."""
        span = self._start(request)
        try:
            response = await self._application.answer(request)
        except BaseException as error:  # a client that has left: whatever else happens is a response
            _end_early(span, error)
            raise
        _describe(span, response)
        if response.stream is None:
            span.end()
        else:
            response.stream = _follow(response.stream, span)
        return response

    def _start(self, request: HttpRequest) -> Span:
        method = request.method if request.method in METHODS else OTHER_METHOD
        route = "" if request.route == NO_ROUTE else request.route
        attributes = {HTTP_REQUEST_METHOD: method, URL_PATH: request.path, URL_SCHEME: "http"}
        attributes |= {HTTP_ROUTE: route} if route else {}
        name = f"{'HTTP' if method == OTHER_METHOD else method} {route}".rstrip()
        span = self._tracer.start_span(name, read_caller(request), SpanKind.SERVER, attributes=attributes)
        _replace_headers(request, span)
        return span


def read_caller(request: HttpRequest) -> Context:
    """Return the span that a request names by W3C's rules; none where its headers are not valid."""
    carrier = {name.decode(): request.header(name) for name in HEADERS if name in request.headers}
    return propagator.extract(carrier, Context())


def _replace_headers(request: HttpRequest, span: Span) -> None:
    carrier: dict[str, str] = {}
    propagator.inject(carrier, set_span_in_context(span, Context()))
    for name in HEADERS:
        request.headers.pop(name, None)
    request.headers |= {name.encode(): text.encode() for name, text in carrier.items()}


def _describe(span: Span, response: HttpResponse) -> None:
    span.set_attribute(HTTP_RESPONSE_STATUS_CODE, int(response.status))
    if request_id := response.headers.get("x-request-id"):  # by which it stands in the logs
        span.set_attribute(REQUEST_ID, [request_id])
    if response.status >= SERVER_ERROR:
        span.set_attribute(ERROR_TYPE, str(int(response.status)))
        span.set_status(StatusCode.ERROR)


def _end_early(span: Span, error: BaseException) -> None:
    span.set_attribute(ERROR_TYPE, type(error).__qualname__)
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        span.set_status(StatusCode.ERROR)
    span.end()


async def _follow(stream: AsyncGenerator[bytes, None], span: Span) -> AsyncGenerator[bytes, None]:
    """Yield a response's pieces, and end its span with them."""
    try:
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                yield piece
    except BaseException as error:
        _end_early(span, error)
        raise
    span.end()
