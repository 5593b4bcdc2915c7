"""The process that steps are forked from, or rather several: each has imported what the one before has, and more.

So a step holds no more memory than it would alone, and none waits for libraries that it does not need: the next
process imports them meanwhile. They run no computation and no thread of their own, so a fork is as good as a new
interpreter.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nightshift.runtime.memory import peak_memory


@dataclass(frozen=True)
class Level:
    """What some steps import, as far as it takes time, beyond the levels before.

    Attributes:
        steps: those that need no more, as `python -m` runs them.
        libraries: modules; what is not installed is left out.
    """

    steps: tuple[str, ...]
    libraries: tuple[str, ...]


LEVELS = (
    Level((), ()),
    Level(
        ("components.monitoring", "components.launching", "components.release", "components.reporting"),
        ("nightshift.config", "jinja2"),
    ),
    Level(
        ("components.ingestion", "components.features", "components.scoring", "components.deployment"),
        ("pandas", "pyarrow.dataset", "onnxruntime"),
    ),
    Level(("components.drift",), ("scipy.stats",)),
    Level(("components.evaluation", "components.optimization"), ("sklearn.metrics", "onnx.checker")),
    Level(
        ("components.training", "components.profiling"),
        ("sklearn.ensemble", "sklearn.linear_model", "xgboost", "torch.profiler"),
    ),
)


def level(module: str) -> int:
    """Return which level a step needs: the first, when it is none of ours."""
    return next((number for number, level in enumerate(LEVELS) if module in level.steps), 0)


def serve(requests: socket.socket, number: int = 0) -> dict[str, Any]:
    """Import a level's libraries, fork for each request that needs no more, and pass on the others.

    A request is a byte, the level, with a connection and a log. Before the first for a level, it comes without these.

    Returns:
        in a fork, what it is to run. Exits when the engine is gone.
    """
    _import(LEVELS[number].libraries)
    deeper: socket.socket | None = None
    while True:
        needed, descriptors, *_ = socket.recv_fds(requests, 1, 2)
        if not needed:
            sys.exit()
        if needed[0] > number and not deeper:
            deeper, theirs = socket.socketpair()
            if not os.fork():
                _close(requests, deeper)
                return serve(theirs, number + 1)
            theirs.close()
        if deeper and needed[0] > number:
            send(deeper, needed[0], descriptors)
        elif descriptors and not os.fork():
            _close(requests, deeper)
            return _supervise(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def send(server: socket.socket, needed: int, descriptors: Iterable[int] = ()) -> None:
    """Send a request, as `serve` reads it.

    Raises:
        OSError: when the server is gone.
    """
    # an empty list of descriptors is not the same everywhere
    if descriptors:
        socket.send_fds(server, [bytes([needed])], descriptors)
    else:
        server.send(bytes([needed]))


def _import(libraries: Iterable[str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = os.getppid()
    for name in libraries:
        if os.getppid() != parent:  # which ends when the engine is gone
            sys.exit()
        with suppress(Exception):  # the step that needs it says what is wrong with it
            importlib.import_module(name)
    # collections in the forks would copy what they share
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def _close(*sockets: socket.socket | None) -> None:
    for end in filter(None, sockets):
        end.close()


def _supervise(connection: int, log: int) -> dict[str, Any]:
    """Fork again: return in the step, and wait here for how it ends, to answer with its exit code and peak memory."""
    with socket.socket(fileno=connection) as engine:
        request: dict[str, Any] = json.loads(engine.makefile().read())
        os.setpgid(0, request["group"])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        step = os.fork()
        if step:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is the step that is asked to end
            _, status, usage = os.wait4(step, 0)
            engine.sendall(json.dumps([os.waitstatus_to_exitcode(status), peak_memory(usage)]).encode())
            os._exit(0)
    for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(log, descriptor)
    os.close(log)
    return request


def main() -> None:
    """Serve; in a fork, run the step as `python -m` would."""
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
