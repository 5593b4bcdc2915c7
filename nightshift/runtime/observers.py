"""Who observes a run beside its engine: receivers of lineage and of spans, where the environment names them.

Without any, a step imports nothing for them. None of them fails a step: see the packages.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from nightshift.runtime.flags import StepParser
from nightshift.runtime.identity import RunIdentity, StepIdentity

if TYPE_CHECKING:
    from nightshift.http.transport import HttpApplication
    from nightshift.runtime.context import StepContext

LINEAGE = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")  # or how they begin
# of the run that an orchestrator reports, and its root: `namespace/job/run`, as other integrations have it
PARENT, ROOT = "OPENLINEAGE_PARENT_ID", "OPENLINEAGE_ROOT_PARENT_ID"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
# what steps on a cluster get of whoever places them; none of it is a secret
RECEIVERS_OF_STEPS = (
    *("OPENLINEAGE_URL", "OPENLINEAGE_ENDPOINT", "OPENLINEAGE_NAMESPACE"),
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"),
)
EXPORTER, PROTOCOL = "otlp", "http/protobuf"

log = logging.getLogger("nightshift")


def sends_lineage(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment names a receiver of lineage."""
    is_off = variables.get("OPENLINEAGE_DISABLED", "").lower() == "true"
    return not is_off and any(name.startswith(LINEAGE) and text for name, text in variables.items())


def sends_spans(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment names a receiver of spans, by OpenTelemetry's own variables."""
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    usual = EXPORTER if any(variables.get(name) for name in ENDPOINTS) else "none"
    exporter = variables.get("OTEL_TRACES_EXPORTER") or usual
    protocol = next(filter(None, map(variables.get, PROTOCOLS)), PROTOCOL)
    if exporter == EXPORTER and protocol == PROTOCOL:
        return True
    if exporter != "none":
        log.warning("no spans are sent by %s over %s; allowed: %s over %s", exporter, protocol, EXPORTER, PROTOCOL)
    return False


@contextmanager
def observe_step(parser: StepParser, context: "StepContext") -> Iterator[None]:
    """Report the start and the end of a step to those who observe it."""
    with ExitStack() as stack:
        has_observer = sends_lineage() or sends_spans()
        if step := StepIdentity.from_context(context) if has_observer else None:
            if sends_spans():
                _enter(stack, "otel", partial(_trace_step, step))
            if sends_lineage():
                _enter(stack, "openlineage", partial(_report_step, step, parser, context))
        yield


def observe_requests(application: "HttpApplication", service: str) -> AbstractContextManager["HttpApplication"]:
    """Return a server's application; where the environment names a receiver of spans, with one of each request.

    Args:
        application: answers the requests.
        service: its name without OTEL_SERVICE_NAME.
    """
    if sends_spans():
        try:
            from nightshift.opentelemetry.application import trace_requests
        except ImportError as error:
            _warn(error, "otel")
        else:
            return trace_requests(application, service)
    return nullcontext(application)


class FailedRunError(Exception):
    """A step of a run has failed."""


def observe_run(run: RunIdentity, execute: Callable[[], bool]) -> bool:
    """Execute a run, and report its start and end to those who observe it.

    Args:
        run: its identity.
        execute: returns whether every step went well.

    Returns:
        the same.
    """
    try:
        with ExitStack() as stack:
            if sends_spans():
                _enter(stack, "otel", partial(_trace_run, run))
            if sends_lineage():
                _enter(stack, "openlineage", partial(_report_run, run))
            if not execute():
                raise FailedRunError("a step has failed")
    except FailedRunError:
        return False
    return True


def _trace_step(step: StepIdentity) -> AbstractContextManager[None]:
    from nightshift.opentelemetry.steps import send_step, trace

    return trace(partial(send_step, step))


def _trace_run(run: RunIdentity) -> AbstractContextManager[None]:
    from nightshift.opentelemetry.steps import send_run, trace

    return trace(partial(send_run, run))


def _report_step(step: StepIdentity, parser: StepParser, context: "StepContext") -> AbstractContextManager[None]:
    from nightshift.openlineage.datasets import StepDatasets
    from nightshift.openlineage.emission import report
    from nightshift.openlineage.events import StepEvents

    return report(StepEvents(step, StepDatasets(context, step, parser.component, parser.written)))


def _report_run(run: RunIdentity) -> AbstractContextManager[None]:
    from nightshift.openlineage.emission import report
    from nightshift.openlineage.events import RunEvents

    return report(RunEvents(run))


def _enter(stack: ExitStack, extra: str, observer: Callable[[], AbstractContextManager[None]]) -> None:
    try:
        stack.enter_context(observer())
    except ImportError as error:
        _warn(error, extra)


def _warn(error: ImportError, extra: str) -> None:
    log.warning("nothing is sent: %s; run in the checkout: pip install -e '.[%s]'", error, extra)
