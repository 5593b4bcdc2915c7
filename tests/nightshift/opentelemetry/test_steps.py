"""The spans of a night, as a collector receives them from processes that know nothing of each other."""

import time
from collections.abc import Iterator

import pytest

from nightshift.opentelemetry import provider
from nightshift.opentelemetry.steps import send_run, send_step, trace
from nightshift.runtime.errors import PreemptedError, UserError
from nightshift.runtime.identity import RunIdentity, StepIdentity
from nightshift_testkit.collectors import Collector, collecting
from nightshift_testkit.processes import SECONDS
from nightshift_testkit.servers import free_port

RUN = RunIdentity("fraud", "training", "/srv/runs/fraud-training-2025-06-30")
STEP = StepIdentity(RUN, "features")
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


def test_the_steps_of_a_run_are_below_its_span(collector: Collector) -> None:
    for task in ("ingestion", "features"):
        send_step(StepIdentity(RUN, task), time.time_ns(), None)
    send_run(RUN, time.time_ns() - 10**9, None)

    *steps, run = collector.spans
    assert [(span.name, span.trace_id, span.parent) for span in steps] == [
        ("ingestion", run.trace_id, run.span_id),
        ("features", run.trace_id, run.span_id),
    ]
    assert (run.name, run.parent, run.kind, run.service) == ("fraud.training", "", 2, "nightshift")
    assert run.attributes == {
        "cicd.pipeline.name": "fraud.training",
        "cicd.pipeline.run.id": "fraud-training-2025-06-30",
        "cicd.pipeline.result": "success",
    }
    assert run.seconds >= 1


def test_another_run_is_another_trace(collector: Collector) -> None:
    for root in ("/srv/runs/a", "/srv/runs/b"):
        send_run(RunIdentity("fraud", "training", root), time.time_ns(), None)

    assert len({span.trace_id for span in collector.spans}) == 2


@pytest.mark.parametrize("traceparent", [f"00-{TRACE}-{CALLER}-01", "00-nothing"])
def test_a_run_belongs_to_the_trace_that_the_environment_names(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, traceparent: str
) -> None:
    monkeypatch.setenv("TRACEPARENT", traceparent)

    send_step(STEP, time.time_ns(), None)
    send_run(RUN, time.time_ns(), None)

    step, run = collector.spans
    is_valid = traceparent.endswith("01")
    assert (run.trace_id == TRACE, run.parent) == (is_valid, CALLER if is_valid else "")
    assert (step.trace_id, step.parent) == (run.trace_id, run.span_id)


@pytest.mark.parametrize(
    ("error", "result"),
    [(UserError("postgresql://me:secret@db is down"), "failure"), (PreemptedError("soon"), "cancellation")],
)
def test_an_error_is_the_spans_status_without_secrets(collector: Collector, error: Exception, result: str) -> None:
    with pytest.raises(type(error)), trace(lambda started, failure: send_step(STEP, started, failure)):
        raise error

    (span,) = collector.spans
    assert span.status == 2
    assert span.attributes["cicd.pipeline.task.run.result"] == result
    assert span.attributes["error.type"] == type(error).__name__


def test_a_ratio_samples_all_spans_of_a_run_or_none(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    runs = [RunIdentity("fraud", "training", f"/srv/runs/{number}") for number in range(12)]

    for run in runs:
        send_step(StepIdentity(run, "features"), time.time_ns(), None)
        send_run(run, time.time_ns(), None)

    counts = [sum(span.attributes["cicd.pipeline.run.id"] == run.name for span in collector.spans) for run in runs]
    assert set(counts) == {0, 2}


def test_a_receiver_that_is_down_delays_the_end_by_a_moment_and_is_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    started = time.monotonic()

    with provider.open_provider("sample", flush_seconds=0.2) as source:
        source.get_tracer("sample").start_span("one").end()

    assert time.monotonic() - started < SECONDS
    assert [record.message for record in caplog.records if record.name == "nightshift"] == [
        "OpenTelemetry's receiver does not answer within 0.2 s; spans may be lost"
    ]


def test_a_span_that_cannot_be_sent_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def send(_: int, __: BaseException | None) -> None:
        raise OSError("no more threads")

    with trace(send):
        pass

    assert [record.message for record in caplog.records] == ["no span is sent: no more threads"]
