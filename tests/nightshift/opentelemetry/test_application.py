"""A span of each request, as a collector receives it."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import get_current_span

from nightshift.http.messages import HttpRequest, HttpResponse
from nightshift.opentelemetry.application import read_caller
from nightshift.runtime.observers import observe_requests
from nightshift_testkit.collectors import Collector, collecting
from tests.nightshift.http.echo import answering

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"
INVALID = (
    "",
    "a",
    TRACEPARENT.upper(),
    TRACEPARENT[:-1],
    f"{TRACEPARENT}-more",
    f"ff-{TRACE}-{CALLER}-01",
    f"00-{'0' * 32}-{CALLER}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"{TRACEPARENT}, {TRACEPARENT}",
    "00" * 4000,
)


class Sample:
    """Answers with the traceparent that it sees; fails, streams or leaves by the path."""

    max_body = 1000

    def admit(self, request: HttpRequest) -> None:
        request.route = "/<name>"

    async def answer(self, request: HttpRequest) -> HttpResponse:
        seen = request.header(b"traceparent").encode()
        if request.path == "/stream":
            return HttpResponse(b"", stream=self._stream(seen))
        status = 503 if request.path == "/busy" else 200
        return HttpResponse(seen, status, {"x-request-id": "mine", "tracestate": request.header(b"tracestate")})

    async def _stream(self, seen: bytes) -> AsyncGenerator[bytes, None]:
        yield seen
        await asyncio.sleep(0.05)
        yield b" end"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


def call(path: str, method: str = "GET", **headers: str) -> httpx.Response:
    """Call a traced server, whose spans are sent when it ends."""
    with observe_requests(Sample(), "sample") as application, answering(application) as url:
        return httpx.request(method, url + path, headers=headers)


def test_a_request_is_a_span_with_the_conventions_names(collector: Collector) -> None:
    response = call("/score?secret=1")

    (span,) = collector.spans
    assert (span.name, span.service, span.kind, span.parent, span.status) == ("GET /<name>", "sample", 2, "", 0)
    assert span.attributes == {
        "http.request.method": "GET",
        "url.path": "/score",
        "url.scheme": "http",
        "http.route": "/<name>",
        "http.response.status_code": 200,
        "http.response.header.x-request-id": ["mine"],
    }
    assert response.text.startswith(f"00-{span.trace_id}-{span.span_id}-")


def test_a_callers_span_is_the_parent_and_the_requests_span_is_handed_on(collector: Collector) -> None:
    response = call("/score", traceparent=TRACEPARENT, tracestate="vendor=1")

    (span,) = collector.spans
    assert (span.trace_id, span.parent) == (TRACE, CALLER)
    assert response.text == f"00-{TRACE}-{span.span_id}-01"
    assert response.headers["tracestate"] == "vendor=1"


@pytest.mark.parametrize("traceparent", INVALID)
def test_a_traceparent_that_is_not_valid_is_ignored(traceparent: str) -> None:
    headers = {b"traceparent": traceparent.encode(), b"tracestate": b"vendor=1"}

    assert not get_current_span(read_caller(HttpRequest(headers=headers))).get_span_context().is_valid


@given(st.text(st.characters(max_codepoint=255), max_size=80))
def test_no_traceparent_is_an_error(text: str) -> None:
    context = get_current_span(read_caller(HttpRequest(headers={b"traceparent": text.encode("latin-1")})))

    valid = re.fullmatch("(?!ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.*", text.strip(" \t"))
    assert context.get_span_context().is_valid <= bool(valid)


def test_a_server_error_is_the_spans_too(collector: Collector) -> None:
    call("/busy")

    (span,) = collector.spans
    assert (span.name, span.status, span.attributes["error.type"]) == ("GET /<name>", 2, "503")


def test_a_method_that_http_does_not_know_has_the_conventions_name(collector: Collector) -> None:
    call("/score", "BREW")

    (span,) = collector.spans
    assert (span.name, span.status, span.attributes["http.request.method"]) == ("HTTP", 0, "_OTHER")


def test_a_streams_span_lasts_until_its_end(collector: Collector) -> None:
    assert call("/stream").text.endswith(" end")

    (span,) = collector.spans
    assert span.seconds >= 0.05


def test_callers_decide_what_is_sampled_and_the_sampler_of_the_environment_the_rest(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")

    passed_on = [call("/score").text, call("/score", traceparent=f"{TRACEPARENT[:-1]}0").text]
    assert [int(text[-2:], 16) & 1 for text in passed_on] == [0, 0]
    assert not collector.spans
    call("/score", traceparent=TRACEPARENT)
    assert len(collector.spans) == 1


def test_the_service_and_its_headers_are_the_environments(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "risk")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")

    call("/score")

    assert collector.spans[0].service == "risk"
    assert (collector.headers[0]["api-key"], collector.headers[0]["content-encoding"]) == ("abc", "gzip")


@pytest.mark.parametrize("variables", [{}, {"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}])
def test_without_a_receiver_an_application_is_itself(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        monkeypatch.setenv(name, value)
    application = Sample()

    with observe_requests(application, "sample") as observed:
        assert observed is application


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_an_exporter_that_is_not_there_is_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, value: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv(name, value)
    application = Sample()

    with observe_requests(application, "sample") as observed:
        assert observed is application
    assert value in caplog.text
    assert "allowed: otlp over http/protobuf" in caplog.text
