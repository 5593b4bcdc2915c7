"""The steps of runs as forks of processes that have imported their libraries, since imports take seconds."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any, Self

from pipelines import ir
from pipelines.engines.local import forkserver
from pipelines.engines.local.processes import Processes, environment

# what libraries read when they are imported: in a fork it would be too late
SETTINGS = {"OMP_WAIT_POLICY": "PASSIVE", "ORT_DISABLE_TELEMETRY": "1", "KINETO_LOG_LEVEL": "99"}


class ForkServer:
    """The processes that are forked for steps, from the first step on: see `forkserver`.

    They end with the block, and with this process, however that ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def prepare(self, level: int, variables: dict[str, str]) -> None:
        """Have the libraries imported that steps of a level need; return at once.

        Args:
            level: see `forkserver.LEVELS`.
            variables: the environment of a step.

        Raises:
            OSError: when the process is gone.
        """
        with self._lock:
            if self.stopped:
                raise BrokenPipeError
            if not self.process:
                self._start(variables)
        forkserver.send(self._requests, level)

    def run(self, level: int, request: dict[str, Any], log: int) -> tuple[int, int]:
        """Run a module in a fork until it ends.

        Args:
            level: one that was prepared.
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
                forkserver.send(self._requests, level, [theirs.fileno(), log])
            ours.sendall(json.dumps(request).encode())
            ours.shutdown(socket.SHUT_WR)
            answer = ours.makefile().read()
        # none from one that was killed with its group
        code, peak = json.loads(answer or json.dumps([-signal.SIGKILL, 0]))
        return code, peak

    def stop(self) -> None:
        """Fork no more."""
        with self._lock:
            self.stopped = True
            if self.process:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
                self._requests.close()

    def _start(self, variables: dict[str, str]) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", forkserver.__name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=SETTINGS | variables,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C is for the engine
            )


@dataclass(kw_only=True)
class Forks(Processes):
    """Runs components as forks of a server, and anything else as processes, all in the same group.

    Attributes:
        server: may have run other steps before.
        tasks: all of the pipeline, in their order.
    """

    server: ForkServer
    tasks: Sequence[ir.PipelineTask] = ()

    def run(self, task: ir.PipelineTask, command: list[str], log: Path) -> tuple[int, int]:
        """Run a step's command in the group until it ends; see `Processes.run`."""
        if command[:2] != ["python", "-m"]:
            return super().run(task, command, log)
        variables = environment(task, self.python)
        request = {"module": command[2], "arguments": command[3:], "environment": variables, "group": self.group}
        level = forkserver.level(command[2])
        with log.open("ab") as output, suppress(OSError):
            self.server.prepare(max(level, self._later(task)), variables)
            return self.server.run(level, request, output.fileno())
        return (-signal.SIGTERM, 0) if self.server.stopped else super().run(task, command, log)

    def stop(self) -> None:
        """Ask all of them to end, and those that were about to start not to."""
        self.server.stop()
        super().stop()

    def _later(self, task: ir.PipelineTask) -> int:
        """Return the level that the steps after a step need."""
        later = dropwhile(lambda other: other.name != task.name, self.tasks)
        return max((forkserver.level(module) for other in later for module in other.command[2:3]), default=0)
