"""Spans of runs, steps and requests, sent by OpenTelemetry's SDK as its own environment variables say.

Without them (`OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_TRACES_EXPORTER`) nothing of this package is imported. See
docs/guides/integrations/opentelemetry.md.
"""
