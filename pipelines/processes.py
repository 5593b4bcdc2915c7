"""The processes of a run's steps, none of which outlives the engine."""

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

# reads until the engine has closed the pipe or has died, then ends its group, itself included
LEADER = "trap '' HUP TERM; read -r line; kill -KILL 0"


class Processes:
    """A process group that ends with the block, and with this process, however that ends.

    Its leader holds the other end of a pipe. What only concerns a process itself, such as Linux' signal on a parent's
    death, would miss the children of a step, and macOS has nothing like it.
    """

    def __enter__(self) -> Self:
        # not closing descriptors hands on the lock of `runs.alone`: the next run begins after the last step has ended
        self._leader = subprocess.Popen(
            ["sh", "-c", LEADER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
            close_fds=False,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leader.communicate()

    def run(self, command: list[str], environment: dict[str, str], log: Path) -> tuple[int, int]:
        """Run a command in the group until it ends.

        Args:
            command: what to run.
            environment: its environment variables.
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
                env=environment,
                process_group=self._leader.pid,
            )
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_maxrss * 1024

    def stop(self) -> None:
        """Ask all of them to end."""
        os.killpg(self._leader.pid, signal.SIGTERM)
