"""OpenTelemetry's SDK with an exporter over OTLP, and an end that a receiver cannot delay."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator

SCOPE = "nightshift"
FLUSH_SECONDS = 3.0  # for the last spans; the exporter would try for ten seconds
EXPORTER = "opentelemetry.exporter.otlp.proto.http"
UNNAMED = "unknown_service"  # the SDK's name without OTEL_SERVICE_NAME

log = logging.getLogger("nightshift")


@contextmanager
def open_provider(
    service: str, ids: IdGenerator | None = None, flush_seconds: float = FLUSH_SECONDS
) -> Iterator[TracerProvider]:
    """Yield the source of tracers, and send its last spans after the block.

    Endpoint, headers, sampler, batches and resource are those of the SDK's environment variables.

    Args:
        service: name of the service without OTEL_SERVICE_NAME.
        ids: generator of the spans' ids; None: random ones.
        flush_seconds: time for the last spans.
    """
    logging.getLogger(EXPORTER).setLevel(logging.ERROR)  # its tries, of which the last one's failure is enough
    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith(UNNAMED):
        resource = resource.merge(Resource({SERVICE_NAME: service}))
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield provider
    finally:
        end = threading.Thread(target=provider.shutdown, daemon=True)
        end.start()
        end.join(flush_seconds)
        if end.is_alive():
            log.warning("OpenTelemetry's receiver does not answer within %g s; spans may be lost", flush_seconds)
