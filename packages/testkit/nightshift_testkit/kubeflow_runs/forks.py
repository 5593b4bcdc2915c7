"""Python programs as forks of one process that has imported their libraries, which takes each of them seconds."""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, NoReturn

LIBRARIES = (
    *("pandas", "pyarrow.dataset", "pandera.pandas", "onnxruntime", "onnx.checker", "scipy.stats", "jinja2", "s3fs"),
    *("sklearn.ensemble", "sklearn.linear_model", "sklearn.metrics", "xgboost", "mlflow", "nightshift.config"),
    *("torch.profiler", "nightshift.models.neural.checkpoints"),
)
# what libraries read when they are imported: in a fork it would be too late
SETTINGS = {"OMP_WAIT_POLICY": "PASSIVE", "ORT_DISABLE_TELEMETRY": "1", "KINETO_LOG_LEVEL": "99"}


@dataclass
class Fork:
    """A program that runs, as `subprocess.Popen` has it: its output and errors are one."""

    pid: int
    stdout: IO[bytes]
    _end: IO[str]

    def wait(self) -> int:
        """Wait for its end, and return its exit code, negative for a signal."""
        return int(self._end.readline() or -signal.SIGKILL)


class ProgramForks:
    """Starts programs: the end of a connection to the process that they are forked from."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server

    def start(self, command: Sequence[str], environment: dict[str, str], folder: str | None = None) -> Fork:
        """Start `python -m MODULE ...` in a session of its own."""
        _, flag, *words = command
        assert flag == "-m", command
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        with ours:
            socket.send_fds(self._server, [b"1"], [theirs.fileno(), write])
            theirs.close()
            os.close(write)
            ours.sendall(json.dumps([words, environment, folder]).encode())
            ours.shutdown(socket.SHUT_WR)
            answers = ours.makefile()
        return Fork(int(answers.readline()), os.fdopen(read, "rb"), answers)


@contextmanager
def forking() -> Iterator[ProgramForks]:
    """Have a process to fork programs from; it ends with the block, and with this process."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    with ours, subprocess.Popen(command, env=os.environ | SETTINGS, pass_fds=[theirs.fileno()]):
        theirs.close()
        yield ProgramForks(ours)
        ours.shutdown(socket.SHUT_RDWR)


def serve(requests: socket.socket) -> None:
    """Import the libraries, then fork for each request; return where there will be none."""
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, *_ = socket.recv_fds(requests, 1, 2)
        if not message:
            return
        if not os.fork():
            requests.close()
            _supervise(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _supervise(connection: int, output: int) -> NoReturn:
    """Run the program of a request in a fork, and answer with its process and, at its end, its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=connection) as client:
        words, environment, folder = json.loads(client.makefile().read())
        ready, go = os.pipe()
        if not (program := os.fork()):
            client.close()
            os.setsid()
            os.write(go, b"1")
            _become(output, environment, folder)
            run(words)
        os.close(output)
        os.read(ready, 1)
        client.sendall(f"{program}\n".encode())
        client.sendall(str(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])).encode())
    os._exit(0)


def _become(output: int, environment: dict[str, str], folder: str | None) -> None:
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    if folder:
        os.chdir(folder)


def run(words: Sequence[str]) -> NoReturn:
    """Run a module in this process as `python -m` does, and exit as it does, but for threads that a fork has not."""
    sys.argv[1:], code = words[1:], 0
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def call(command: Sequence[str]) -> int:
    """Run `python -m MODULE ...` in a fork of this process, and return its exit code."""
    if not (program := os.fork()):
        run(command[2:])
    return os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
