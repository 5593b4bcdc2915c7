"""Starts the server of a package on 127.0.0.1 as a process, and measures its CPU time."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from nightshift.contracts.loadtest import ServerSettings
from nightshift.http.addresses import HOST
from nightshift.http.client import ExchangeError, ServerAddress, call, encode_request
from nightshift.http.messages import HttpResponse
from nightshift.runtime import progress
from nightshift.runtime.errors import UnavailableError
from nightshift.runtime.interpreter import isolate
from nightshift.runtime.progress import Patience, Progress

PATIENCE = Patience()
LISTENS = re.compile(r"port (\d+) serves ")
CALL_SECONDS = 5
PORT = 8421  # or one of the next, when it is taken


@dataclass(frozen=True)
class ServerProcess:
    """A running server.

    Attributes:
        port: port on 127.0.0.1.
        pid: id of its first process.
        log: its output.
    """

    port: int
    pid: int
    log: Path

    def cpu_seconds(self) -> float | None:
        """Return the CPU time so far of all its processes, None where the kernel does not report it; see proc(5)."""
        return progress.cpu_seconds(self.pid)

    def queue_statistics(self, name: str) -> tuple[int, int]:
        """Return the number of scored requests for a model, and their total time in the queue in nanoseconds."""
        stats = json.loads(_get(self.port, f"/v2/models/{name}/stats").body)
        queue = stats["model_stats"][0]["inference_stats"]["queue"]
        return queue["count"], queue["ns"]


@contextmanager
def serve(model: str, name: str, settings: ServerSettings) -> Iterator[ServerProcess]:
    """Serve a package during the block.

    Args:
        model: its URI.
        name: name of the model.
        settings: the server's settings.

    Raises:
        UnavailableError: when it does not answer, or ends during the block.
    """
    command = [sys.executable, "-m", "nightshift.serving", "--model", model, "--name", name, "--port", str(PORT)]
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(
            [*command, *settings.flags], env=isolate(os.environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            yield _await_health(process, Path(log.name))
        except ExchangeError as error:
            raise UnavailableError(f"the server has gone ({error}): {_last(Path(log.name))}") from None
        finally:
            process.terminate()
            process.wait()


def _await_health(process: "subprocess.Popen[bytes]", log: Path) -> ServerProcess:
    waited, why = Progress(PATIENCE), "and has ended"
    while process.poll() is None:
        output = log.read_text(errors="replace")
        listening = LISTENS.search(output)
        if listening and _is_healthy(int(listening[1])):
            return ServerProcess(int(listening[1]), process.pid, log)
        # whole seconds: a server that only waits takes a little of them too
        if stalled := waited.stall_reason(len(output), int(progress.cpu_seconds(process.pid) or 0)):
            why = stalled
            break
        time.sleep(0.05)
    raise UnavailableError(f"the server did not answer {why}: {_last(log)}")


def _is_healthy(port: int) -> bool:
    with suppress(ExchangeError):
        return _get(port, "/healthz").status == HTTPStatus.OK
    return False


def _get(port: int, path: str) -> HttpResponse:
    address = ServerAddress(HOST, port)
    return call(address, encode_request("GET", path, address.authority), CALL_SECONDS)


def _last(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    last = lines[-1] if lines else "its log is empty"
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(last)["message"])
    return last
