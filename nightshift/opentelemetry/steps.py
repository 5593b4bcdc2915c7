"""Spans of a night: one of the run, and one of each step below it.

Steps are processes, pods or containers that know nothing of each other, so a run's trace and span ids are hashes of its
folder's URI. Where `TRACEPARENT` names a span, the run belongs to its trace.
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.semconv._incubating.attributes import cicd_attributes as cicd
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from nightshift.opentelemetry.provider import SCOPE, open_provider
from nightshift.runtime.errors import PreemptedError
from nightshift.runtime.identity import RunIdentity, StepIdentity
from nightshift.runtime.masking import mask_secrets
from nightshift.runtime.printable import printable

TEXT_LENGTH = 1000  # of an error's message

log = logging.getLogger("nightshift")


class RunIds(IdGenerator):
    """The ids of a run's span.

    Attributes:
        trace_id: 128 bits, of all its steps too.
        span_id: 64 bits.
    """

    def __init__(self, run: RunIdentity, caller: SpanContext) -> None:
        digest = hashlib.sha256(run.root.encode()).digest()
        self.trace_id = caller.trace_id if caller.is_valid else int.from_bytes(digest[:16], "big")
        self.span_id = int.from_bytes(digest[16:24], "big")

    def generate_trace_id(self) -> int:
        """Return the trace's id."""
        return self.trace_id

    def generate_span_id(self) -> int:
        """Return the span's id."""
        return self.span_id


@contextmanager
def trace(send: Callable[[int, BaseException | None], None]) -> Iterator[None]:
    """Send a span of the block; a span that cannot be sent is a line in the log.

    Args:
        send: takes the start in nanoseconds since 1970, and the error that has ended the block.
    """
    started, failure = time.time_ns(), None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        try:
            send(started, failure)
        except Exception as error:  # whatever it is, the block has its own end
            log.warning("no span is sent: %s", mask_secrets(str(error)))


def send_step(step: StepIdentity, started: int, failure: BaseException | None) -> None:
    """Send the span of a step that ends now.

    Args:
        step: its identity.
        started: nanoseconds since 1970.
        failure: the error that ended it.
    """
    run = step.run
    with open_provider(SCOPE) as provider:
        parent = _make_run_context(run, provider.sampler)
        names = {cicd.CICD_PIPELINE_TASK_NAME: step.task}
        attributes = _describe_run(run) | names | _describe_end(cicd.CICD_PIPELINE_TASK_RUN_RESULT, failure)
        span = provider.get_tracer(SCOPE).start_span(step.task, parent, attributes=attributes, start_time=started)
        if failure:
            _set_error(span, failure)
        span.end()


def send_run(run: RunIdentity, started: int, failure: BaseException | None) -> None:
    """Send the span of a run that ends now; see `send_step`."""
    caller = _read_caller()
    with open_provider(SCOPE, RunIds(run, get_current_span(caller).get_span_context())) as provider:
        attributes = _describe_run(run) | _describe_end(cicd.CICD_PIPELINE_RESULT, failure)
        tracer = provider.get_tracer(SCOPE)
        span = tracer.start_span(run.job_name, caller, SpanKind.SERVER, attributes=attributes, start_time=started)
        if failure:
            _set_error(span, failure)
        span.end()


def _read_caller(variables: Mapping[str, str] = os.environ) -> Context:
    """Return the span that `TRACEPARENT` names; a value that is not valid counts as none."""
    carrier = {name: variables.get(name.upper(), "") for name in ("traceparent", "tracestate")}
    return TraceContextTextMapPropagator().extract({name: text for name, text in carrier.items() if text}, Context())


def _make_run_context(run: RunIdentity, sampler: Sampler) -> Context:
    """Return the run's span as a parent; it is sampled for all steps or for none."""
    caller = _read_caller()
    caller_span = get_current_span(caller).get_span_context()
    ids = RunIds(run, caller_span)
    is_dropped = sampler.should_sample(caller, ids.trace_id, run.job_name).decision is Decision.DROP
    flags = TraceFlags(TraceFlags.DEFAULT if is_dropped else TraceFlags.SAMPLED)
    parent = SpanContext(ids.trace_id, ids.span_id, is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(parent), Context())


def _describe_run(run: RunIdentity) -> dict[str, str]:
    return {cicd.CICD_PIPELINE_NAME: run.job_name, cicd.CICD_PIPELINE_RUN_ID: run.name}


def _describe_end(result: str, failure: BaseException | None) -> dict[str, str]:
    if failure is None:
        return {result: cicd.CicdPipelineTaskRunResultValues.SUCCESS.value}
    is_cancelled = isinstance(failure, PreemptedError | KeyboardInterrupt)
    values = cicd.CicdPipelineTaskRunResultValues
    ending = values.CANCELLATION if is_cancelled else values.FAILURE
    return {result: ending.value, ERROR_TYPE: type(failure).__qualname__}


def _set_error(span: Span, failure: BaseException) -> None:
    span.set_status(StatusCode.ERROR, printable(mask_secrets(str(failure)))[:TEXT_LENGTH])
