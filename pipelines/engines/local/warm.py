"""The steps of several runs as forks of one process that has imported their libraries, since imports take seconds.

The process runs no computation and no thread of its own, so a fork of it is as good as a new interpreter. A fork's
peak memory counts the shared libraries too.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from nightshift.interpreter import isolated
from nightshift.memory import peak_memory
from pipelines import ir
from pipelines.engines.local.processes import Processes, environment

# what the steps of a day import, as far as it takes time; what is not installed is left out
LIBRARIES = (
    "pyarrow.dataset",
    "pandera.pandas",
    "scipy.stats",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "sklearn.metrics",
    "xgboost",
    "torch.profiler",
    "onnx.checker",
    "onnxruntime",
    "jinja2",
)
# what they read when they are imported: in a fork it would be too late
SETTINGS = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "ORT_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "KINETO_LOG_LEVEL": "99",
}


@dataclass
class Server:
    """The process that is forked for each step; it ends with the block, and with this process, however that ends."""

    libraries: Iterable[str] = LIBRARIES

    def __enter__(self) -> Self:
        self._requests, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), *self.libraries],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=isolated(os.environ | SETTINGS),
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C is for the engine
            )
        return self

    def __exit__(self, *error: object) -> None:
        self._requests.close()
        self.process.kill()
        self.process.wait()

    def run(self, request: dict[str, Any], log: int) -> tuple[int, int]:
        """Run a module in a fork until it ends.

        Args:
            request: `module`, `arguments`, `environment` and process `group`.
            log: file descriptor that gets all it prints.

        Returns:
            its exit code, negative for a signal, and its largest resident set in bytes.

        Raises:
            OSError: when the process is gone.
        """
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(self._requests, [b"."], [theirs.fileno(), log])
            ours.sendall(json.dumps(request).encode())
            ours.shutdown(socket.SHUT_WR)
            answer = ours.makefile().read()
        # none from one that was killed with its group
        code, peak = json.loads(answer or json.dumps([-signal.SIGKILL, 0]))
        return code, peak


@dataclass(kw_only=True)
class Forks(Processes):
    """Runs components as forks of a server, and anything else as processes, all in the same group."""

    server: Server

    def run(self, task: ir.Task, command: list[str], log: Path) -> tuple[int, int]:
        """Run a step's command in the group until it ends; see `Processes.run`."""
        if command[:2] != ["python", "-m"]:
            return super().run(task, command, log)
        request = {
            "module": command[2],
            "arguments": command[3:],
            "environment": environment(task, self.python),
            "group": self.group,
        }
        with log.open("ab") as output, suppress(OSError):
            return self.server.run(request, output.fileno())
        return super().run(task, command, log)


def serve(requests: socket.socket, libraries: Iterable[str]) -> dict[str, Any]:
    """Fork for each request; return in a fork, with what it is to run. Exits when the engine is gone."""
    for name in libraries:
        with suppress(ImportError):
            importlib.import_module(name)
    # collections in the forks would copy what they share
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        _, descriptors, *_ = socket.recv_fds(requests, 1, 2)
        if not descriptors:
            sys.exit()
        if not os.fork():
            requests.close()
            return _supervised(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _supervised(connection: int, log: int) -> dict[str, Any]:
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
    request = serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
