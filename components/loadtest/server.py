"""Starts the server of a package on 127.0.0.1 as a process, and says how much CPU time it takes."""

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from components.common.contracts.loadtest import Settings
from components.common.errors import UnavailableError
from components.common.interpreter import isolated

SECONDS = 60  # until it answers, or has ended
LISTENS = re.compile(r"port (\d+) serves ")
PORT = 8421  # or one of the next, when it is taken


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        port: where it listens.
        pid: of its first process.
        log: what it has said.
    """

    port: int
    pid: int
    log: Path

    def cpu_seconds(self) -> float | None:
        """Return the CPU time so far of all its processes, None where the kernel does not say; see proc(5)."""
        return cpu_seconds(self.pid) if Path("/proc/self/stat").exists() else None

    def queued(self, name: str) -> tuple[int, int]:
        """Return how many requests for a model were scored, and for how long they have waited, in nanoseconds."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection:
            connection.request("GET", f"/v2/models/{name}/stats")
            said = json.loads(connection.getresponse().read())["model_stats"][0]["inference_stats"]["queue"]
        return said["count"], said["ns"]


@contextmanager
def running(model: str, name: str, settings: Settings) -> Iterator[Server]:
    """Serve a package during the block.

    Args:
        model: its URI.
        name: what to call it.
        settings: how the server is started.

    Raises:
        UnavailableError: when it does not answer, or ends during the block.
    """
    command = [sys.executable, "-m", "components.serving", "--model", model, "--name", name, "--port", str(PORT)]
    with tempfile.NamedTemporaryFile() as said:
        process = subprocess.Popen(
            [*command, *settings.flags], env=isolated(os.environ), stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        try:
            yield _answering(process, Path(said.name))
        except ConnectionError as error:
            raise UnavailableError(f"the server has gone ({error}): {_last(Path(said.name))}") from None
        finally:
            process.terminate()
            process.wait()


def _answering(process: "subprocess.Popen[bytes]", log: Path) -> Server:
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        found = LISTENS.search(log.read_text(errors="replace"))
        if found and _is_healthy(int(found[1])):
            return Server(int(found[1]), process.pid, log)
        time.sleep(0.05)
    raise UnavailableError(f"the server did not answer within {SECONDS} s: {_last(log)}")


def _is_healthy(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection, suppress(OSError):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    return False


def _last(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    last = lines[-1] if lines else "it said nothing"
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(last)["message"])
    return last


def cpu_seconds(root: int) -> float:
    """Return the CPU time so far of a process and of all that it has started and that still run."""
    ticks = 0
    for pid in family(root):
        with suppress(OSError):  # it has ended meanwhile
            ticks += sum(map(int, _status(pid)[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def family(root: int) -> list[int]:
    """Return a process and all that it has started, whatever session they are in."""
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parents[int(place.name)] = int(_status(int(place.name))[1])
    found = [root]
    for pid in found:  # grows while it is walked
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _status(pid: int) -> list[str]:
    """Return a process's status behind its name: state, parent ..."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
