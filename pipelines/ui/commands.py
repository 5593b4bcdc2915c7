"""Commands by which the UI acts: those that a person types, each in a process of its own.

So what the UI does is what the command line does, with its locks, checks and audit log; the UI itself writes
nothing.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from threading import Thread
from typing import IO

from nightshift.runtime.errors import UserError
from pipelines.ui import TOKEN
from pipelines.workspace import Workspace

PROGRAM = (sys.executable, "-m", "pipelines.cli")
SECONDS = 600  # an endpoint that loads a large version
START_SECONDS, POLL_SECONDS = 60, 0.05
LINES = 8  # of an error
OUTPUT = 100_000  # bytes
_RUN = re.compile(r"^run (\S+)$", re.MULTILINE)


def run(words: Sequence[str]) -> None:
    """Run a command to its end.

    Raises:
        UserError: when it refuses or fails, with what it says.
    """
    process = _start(words, subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise UserError(f"the command is not done after {SECONDS} s; it goes on, look again later") from None
    if process.returncode:
        raise UserError(_read_end(output.decode(errors="replace")))


def start_run(words: Sequence[str], workspace: Workspace) -> str:
    """Start or resume a run, which outlives this process; return its id once its page is there.

    Raises:
        UserError: when it refuses or fails, with what it says.
    """
    with tempfile.TemporaryFile() as log:
        process = _start(words, log)
        Thread(target=process.wait, daemon=True).start()  # so that it leaves no zombie
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            has_ended = process.poll() is not None
            # not read(), which would move the position at which the command writes
            output = os.pread(log.fileno(), OUTPUT, 0).decode(errors="replace")
            match = _RUN.search(output)
            if match and any(run.name == match[1] for run in workspace.index.runs()):
                return match[1]
            if has_ended:
                raise UserError(_read_end(output))
            time.sleep(POLL_SECONDS)
    raise UserError(f"the run has not begun after {START_SECONDS} s; look for it among the runs later")


def _start(words: Sequence[str], output: int | IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start a command in a session of its own, so that an interrupted server does not interrupt it halfway."""
    return subprocess.Popen(
        [*PROGRAM, *words],
        env={name: value for name, value in os.environ.items() if name != TOKEN},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _read_end(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-LINES:]) or "the command failed and said nothing"
