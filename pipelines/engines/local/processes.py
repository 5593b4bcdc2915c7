"""The processes of a run's steps, none of which outlives the engine."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from nightshift.runtime.interpreter import isolate
from nightshift.runtime.memory import peak_memory
from pipelines import ir

# reads until the engine has closed the pipe or has died, then ends its group, itself included
LEADER = "trap '' HUP TERM; read -r line; kill -KILL 0"


@dataclass
class Processes:
    """A process group that ends with the block, and with this process, however that ends; `python` runs the steps.

    Its leader holds the other end of a pipe. What only concerns a process itself, such as Linux' signal on a parent's
    death, would miss the children of a step, and macOS has nothing like it.
    """

    name: ClassVar = "process"
    ignored: ClassVar = "CPU and memory requests and limits"
    python: Path = Path(sys.executable)
    _stopped: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    def __enter__(self) -> Self:
        # open descriptors hand on the lock of `runs.lock_run`: the next run begins after the last step has ended
        self._leader = subprocess.Popen(
            ["sh", "-c", LEADER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
            close_fds=False,
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._leader.communicate()

    @property
    def group(self) -> int:
        """The group's id."""
        return self._leader.pid

    def run(self, task: ir.PipelineTask, command: list[str], log: Path) -> tuple[int, int]:
        """Run a step's command in the group until it ends.

        Args:
            task: the step.
            command: what to run.
            log: gets all it prints, after what is there already.

        Returns:
            its exit code, negative for a signal, and its largest resident set in bytes.
        """
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(task, self.python),
                process_group=self._leader.pid,
            )
            if self._stopped.is_set():  # the group may have been signaled before the process was in it
                process.terminate()
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, peak_memory(usage)

    def stop(self) -> None:
        """Ask all of them to end."""
        self._stopped.set()
        with suppress(ProcessLookupError):  # all have ended
            os.killpg(self._leader.pid, signal.SIGTERM)


def environment(task: ir.PipelineTask, python: Path = Path(sys.executable)) -> dict[str, str]:
    """Return a step's environment, in which `python` is the given one, as in a container it is the image's."""
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    # Airflow's variables hold its database's password, its connections and its keys
    ours = {name: value for name, value in os.environ.items() if not name.lstrip("_").startswith("AIRFLOW_")}
    return isolate(ours | {"PATH": path} | task.environment)
