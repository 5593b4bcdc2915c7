"""Many connected, slow clients: `python -m benchmarks.serving.connections --connections 5000`.

All of them but one send a part of a request and then pause, while that one sends requests at full speed. Then they send
the rest and, over the same connections, another request. The server may open no more files than it needs for them:
further clients are refused until one has left.
"""

import argparse
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from benchmarks import figures
from benchmarks.serving import model
from nightshift.http.messages import OK
from nightshift.http.transport import OTHER_FILES, allow_connections
from nightshift_testkit.processes import read_memory, started, wait_until
from nightshift_testkit.servers import free_port

BEYOND = 10  # clients above the server's limit
REQUESTS = 1000  # requests of the client at full speed
TIMEOUT = 60.0  # seconds without an answer


@dataclass
class ConnectionResult:
    """The outcome of a measurement.

    Attributes:
        statuses: statuses of the slow clients' responses.
        refusals: statuses of the clients beyond the limit.
        bytes_each: resident memory of the server for a connection with a part of a request.
        alone_ms: 50th and 99th percentile of a request without other clients.
        beside_ms: the same beside the slow clients.
    """

    statuses: Counter[int]
    refusals: Counter[int]
    bytes_each: float
    alone_ms: tuple[float, float]
    beside_ms: tuple[float, float]


def measure(folder: Path, connections: int) -> ConnectionResult:
    """Serve a model to the largest allowed number of connections.

    Args:
        folder: an empty folder.
        connections: the limit.
    """
    assert connections + BEYOND < allow_connections(), "raise `ulimit -n`"
    model.write(folder)
    body = (folder / "features.json").read_bytes()
    request = b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    part, rest = request[: -len(body) // 2], request[-len(body) // 2 :]
    with run_server(folder, connections) as (pid, port), ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT))

        quick = wait_until(connect, "the server answers")
        latencies(quick, request)  # warms the server up
        alone_ms, memory = latencies(quick, request), read_memory(pid)
        slow = [connect() for _ in range(connections - 1)]
        for client in slow:
            client.sendall(part)
        beside_ms = latencies(quick, request)
        bytes_each = (read_memory(pid) - memory) / len(slow)
        refusals = Counter(status(connect()) for _ in range(BEYOND))
        statuses = ask(slow, rest) + ask(slow, request)
        slow.pop().close()
        wait_until(lambda: exchange(connect(), request) == OK, "there is room again")
        return ConnectionResult(statuses, refusals, bytes_each, alone_ms, beside_ms)


@contextmanager
def run_server(folder: Path, connections: int) -> Iterator[tuple[int, int]]:
    """Serve a folder's package with a limit of connections; yield the process id and the port."""
    port = free_port()
    command = f"{sys.executable} -m nightshift.serving --model {folder / 'package'} --port {port}"
    with started(["sh", "-c", f"ulimit -n {connections + OTHER_FILES}; exec {command}"]) as process:
        yield process.pid, port


def ask(clients: list[socket.socket], data: bytes) -> Counter[int]:
    """Send the same bytes from all clients at once; return the statuses of the responses."""
    for client in clients:
        client.sendall(data)
    return Counter(status(client) for client in clients)


def latencies(client: socket.socket, request: bytes) -> tuple[float, float]:
    """Return the 50th and the 99th percentile of a request, milliseconds."""
    seconds = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        assert exchange(client, request) == OK
        seconds.append(time.perf_counter() - began)
    percentiles = quantiles(seconds, n=100)
    return round(percentiles[49] * 1e3, 3), round(percentiles[98] * 1e3, 3)


def exchange(client: socket.socket, request: bytes) -> int:
    """Send a request; return the response's status."""
    client.sendall(request)
    return status(client)


def status(client: socket.socket) -> int:
    """Read a response, which is one write of the server; return its status."""
    return int(client.recv(65536).split(maxsplit=2)[1])


def main() -> None:
    """Connect the flags' number of clients, and print the result."""
    flags = argparse.ArgumentParser(prog="python -m benchmarks.serving.connections", description=__doc__)
    flags.add_argument("--connections", type=int, default=5000)
    args = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = measure(Path(folder), args.connections)
    print(f"{dict(outcome.statuses)}; beyond the limit: {dict(outcome.refusals)}")
    row = {
        "connections": args.connections,
        "answered": outcome.statuses[OK],
        "refused beyond the limit": outcome.refusals.total(),
        "KiB each": outcome.bytes_each / 1024,
        "p50 of one client, ms": outcome.alone_ms[0],
        "p50 beside them, ms": outcome.beside_ms[0],
    }
    figures.publish("connections", [row])


if __name__ == "__main__":
    main()
