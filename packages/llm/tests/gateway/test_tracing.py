"""A request's way from a client over the gateway to an engine, as one trace."""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from nightshift.http.messages import HttpRequest
from nightshift.runtime.observers import observe_requests
from nightshift_llm.gateway.completions import CHAT
from nightshift_llm.gateway.tracing import read_trace
from nightshift_testkit.collectors import Collector, ReceivedSpan, collecting
from nightshift_testkit.engines.simulated import MODEL, SimulatedReplica
from packages.llm.tests.gateway.conftest import routing

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 5}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


def ask(**fields: object) -> httpx.Response:
    """Send a request through a gateway to a traced engine, and end both."""
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01", "x-request-id": "mine"}
    with ExitStack() as stack:
        replica = stack.enter_context(observe_requests(SimulatedReplica(), "engine"))
        gateway = stack.enter_context(routing([replica]))
        return httpx.post(f"{gateway.url}{CHAT}", json=BODY | fields, headers=headers)


def pick(collector: Collector, service: str) -> ReceivedSpan:
    (span,) = [span for span in collector.spans if span.service == service and span.attributes["url.path"] == CHAT]
    return span


@pytest.mark.parametrize("stream", [False, True])
def test_a_clients_span_is_the_gateways_parent_and_that_is_the_engines(collector: Collector, stream: bool) -> None:
    response = ask(stream=stream)

    gateway, engine = pick(collector, "nightshift-gateway"), pick(collector, "engine")
    assert (gateway.trace_id, gateway.parent) == (TRACE, CALLER)
    assert (engine.trace_id, engine.parent) == (TRACE, gateway.span_id)
    assert response.headers["traceparent"] == f"00-{TRACE}-{gateway.span_id}-01"
    assert gateway.name == f"POST {CHAT}"
    assert gateway.attributes["http.response.header.x-request-id"] == ["mine"]


def test_a_collector_that_is_down_fails_no_request(collector: Collector) -> None:
    collector.status = 403

    assert ask().status_code == 200
    assert not collector.spans


@pytest.mark.parametrize(
    ("traceparent", "is_valid"),
    [
        (f"00-{TRACE}-{CALLER}-01", True),
        (f"cc-{TRACE}-{CALLER}-01-what-comes", True),
        (f"00-{TRACE}-{CALLER}-01-what-comes", False),
        (f"ff-{TRACE}-{CALLER}-01", False),
        (f"00-{'0' * 32}-{CALLER}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE}-{CALLER}-01\r\nx: y", False),
    ],
)
def test_an_untraced_gateway_passes_on_what_w3c_calls_valid_and_ignores_the_rest(
    traceparent: str, is_valid: bool
) -> None:
    trace = read_trace(HttpRequest(headers={b"traceparent": traceparent.encode(), b"tracestate": b"vendor=1"}))

    assert trace.traceparent == (traceparent if is_valid else "")
    assert trace.tracestate == ("vendor=1" if is_valid else "")
