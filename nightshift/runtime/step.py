"""The shell around every component: flags in, executor output out, exit code 2 on the user's mistakes.

Engines pass KFP's executor input as JSON (`{{$}}`); the file it names in `outputs.outputFile` receives
what the step measured, as metadata of its output artifacts. Where an engine does not see that file, as Airflow does not
see a pod's, it names a second one for the metadata that all artifacts share, which has to stay small.
"""

import json
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightshift import storage
from nightshift.runtime import telemetry
from nightshift.runtime.errors import PreemptedError, UnavailableError, UserError, require_extra
from nightshift.runtime.flags import StepParser
from nightshift.runtime.memory import peak_memory
from nightshift.runtime.observers import observe_step
from nightshift.runtime.printable import printable, printable_lines

if TYPE_CHECKING:
    from nightshift.runtime.context import StepContext

Body = Callable[["StepContext"], dict[str, Any] | None]

USER_ERROR = 2
PREEMPTED = 75  # EX_TEMPFAIL: ended early, after a checkpoint was saved; engines try again without counting it
MESSAGE = "NIGHTSHIFT_TERMINATION_MESSAGE"  # path of the second file: a pod's, of which Kubernetes keeps 4,096 bytes
PREEMPTIONS = 20  # in a row; another one counts as a failure, so that nothing is tried forever
TEXT_LENGTH = 1000
LIBRARIES = ("numpy", "pandas", "torch", "xgboost-cpu", "xgboost", "scikit-learn", "onnxruntime", "cudf-cu12")

log = logging.getLogger("nightshift")


def run(parser: StepParser, body: Body) -> None:
    """Run a step and exit: 0 when done, 2 for a user's mistake, 75 when preempted, 1 when a retry may help.

    Args:
        parser: the step's flags.
        body: does the work; the metrics it returns are reported as metadata of all of the step's artifacts, and to
            Prometheus. Under an artifact's name it returns metadata of that one alone.
    """
    _heed_sigterm()
    # threads that wait asleep: OpenMP's busy waiting triples the CPU time of a step that shares its cores with another
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for library in ("alembic", "aiobotocore", "botocore"):
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # it prints a traceback beside the error it raises
    from nightshift.runtime.context import (
        StepContext,  # the command line, which needs this module's exit codes, reads no flags
    )

    try:
        with require_extra():
            _work(parser, StepContext(parser.parse_args()), body)
    except PreemptedError as error:
        print(f"{parser.component}: preempted; {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(PREEMPTED)
    except (UserError, UnavailableError) as error:
        print(f"{parser.component}: {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(USER_ERROR if isinstance(error, UserError) else 1)


class LineFormatter(logging.Formatter):
    """Formats a record as its message, in one line whatever values it holds, and a traceback where there is one."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 the name is logging's
        """Return the line."""
        return printable(record.message)


def _work(parser: StepParser, context: "StepContext", body: Body) -> None:
    """Do a step's work, observed by those whom the environment names."""
    with observe_step(parser, context) if is_first() else nullcontext():
        _work_within_budget(parser, context, body)


def _work_within_budget(parser: StepParser, context: "StepContext", body: Body) -> None:
    """Do a step's work within the run's budget, and report it."""
    from nightshift.costs.spending import Account

    component = parser.component
    account = Account.from_context(context, component) if context.use_case else None
    kept = account.within_budget(component, not parser.acts) if account and parser.has_budget else nullcontext()
    started = time.monotonic()
    try:
        with kept:
            metrics = body(context) or {}
    except PreemptedError:
        if account and is_first():
            account.leave_spent(component, time.monotonic() - started)
        raise
    seconds = time.monotonic() - started
    _report(context, component, seconds, metrics | (account.hand_on(component, seconds) if account else {}))


def _heed_sigterm() -> None:
    """Have SIGTERM end a container's first process too, for which the kernel provides no default action.

    A handler of Python's would wait for native code to return, which may take as long as a fit.
    """
    if os.getpid() != 1:
        return
    signals, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(wakeup)
    threading.Thread(target=_end_on_sigterm, args=(signals,), daemon=True).start()


def _end_on_sigterm(signals: int) -> None:
    while os.read(signals, 1)[0] != signal.SIGTERM:
        pass
    os._exit(128 + signal.SIGTERM)  # as abruptly as a kill would, which loses nothing


def measures(component: str, seconds: float, device: str) -> dict[str, Any]:
    """Return what a step reports of itself: seconds, CPU seconds, peak memory in bytes, device, libraries."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "step": component,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_memory_bytes": peak_memory(),
        "device": device,
        "libraries": ", ".join(_versions()),
    }


def _versions() -> list[str]:
    versions = []
    for name in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    return versions


def _shorten(values: dict[str, Any]) -> dict[str, Any]:
    """Return what fits into a pod's message: numbers, and texts of a limited length."""
    return {
        name: value[:TEXT_LENGTH] if isinstance(value, str) else value
        for name, value in values.items()
        if not isinstance(value, dict)
    }


def is_first() -> bool:
    """Return whether this process speaks and writes for all that torchrun has started."""
    return os.environ.get("RANK", "0") == "0"


def _report(context: "StepContext", component: str, seconds: float, metrics: dict[str, Any]) -> None:
    outputs = context.args.executor_input.get("outputs", {})
    if "outputFile" not in outputs or not is_first():
        return
    declared = outputs.get("artifacts", {})
    took = measures(component, seconds, context.device)
    shared = {name: value for name, value in metrics.items() if name not in declared}
    artifacts = {
        name: {
            "artifacts": [
                artifact | {"metadata": took | shared | metrics.get(name, {})} for artifact in value["artifacts"]
            ]
        }
        for name, value in declared.items()
    }
    storage.write_json(outputs["outputFile"], {"artifacts": artifacts})
    if path := os.environ.get(MESSAGE):
        Path(path).write_text(json.dumps(_shorten(took | shared)))
    telemetry.push(component, context.use_case, took, shared)
