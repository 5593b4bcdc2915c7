"""Receivers of what runs and servers report: events of OpenLineage, and OpenTelemetry's spans over HTTP."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from nightshift_testkit.servers import serving

Json = dict[str, Any]


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as OTLP has it; ids are hexadecimal, and `parent` is empty for a root."""

    name: str
    service: str
    trace_id: str
    span_id: str
    parent: str
    kind: int
    status: int
    attributes: Json
    seconds: float


@dataclass
class Collector:
    """Bodies by path, as received; `status` is what it answers, and with `is_silent` it never does."""

    url: str = ""
    status: int = 200
    is_silent: bool = False
    events: list[Json] = field(default_factory=list)
    spans: list[ReceivedSpan] = field(default_factory=list)
    headers: list[Json] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def receive(self, path: str, headers: Json, body: bytes) -> None:
        self.headers.append(headers)
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if path == "/v1/traces":
            self.spans += _read_spans(body)
        elif path == "/api/v1/lineage":
            self.events.append(json.loads(body))

    def list_ended(self) -> list[Json]:
        """The events that end a run."""
        return [event for event in self.events if event["eventType"] not in ("START", "RUNNING")]

    def draw(self) -> list[tuple[str, str]]:
        """The edges of the graph, dataset -> job and job -> dataset, as a catalog draws it from all events."""
        edges = {(_name(dataset), _name(event["job"])) for event in self.events for dataset in event.get("inputs", [])}
        edges |= {(_name(event["job"]), _name(data)) for event in self.events for data in event.get("outputs", [])}
        return sorted(edges)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector during the block."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            if collector.is_silent:
                collector.released.wait()
            if collector.status < 400:
                collector.receive(self.path, headers, body)
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    collector.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        try:
            yield collector
        finally:
            collector.released.set()


def _name(entity: Json) -> str:
    return f"{entity['namespace']} {entity['name']}"


def _read_spans(body: bytes) -> list[ReceivedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        ReceivedSpan(
            span.name,
            _read_attributes(group.resource.attributes)["service.name"],
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.kind,
            span.status.code,
            _read_attributes(span.attributes),
            (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        )
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _read_attributes(attributes: Any) -> Json:
    return {entry.key: _read_value(entry.value) for entry in attributes}


def _read_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_read_value(one) for one in value.array_value.values]
    return getattr(value, kind)
