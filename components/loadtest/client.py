"""Sends requests over keep-alive connections and notes when they are answered: one thread, and little of a CPU."""

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle

from components.loadtest.core import LoadSample

OPEN_CONNECTIONS = 64  # of the open loop; a request waits for one that is free, and its latency counts that
CHUNK = 65536

Due = Callable[[float], float | None]  # seconds since the start -> when the next request is due, None after the last


@dataclass(eq=False)
class ClientConnection:
    """A connection: at most one request is on its way.

    Attributes:
        address: host and port.
        due: when the request was due.
        received: bytes of the response so far.
    """

    address: tuple[str, int]
    due: float = 0.0
    received: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.socket = socket.create_connection(self.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        """Return the file descriptor, for `select`."""
        return self.socket.fileno()

    def send(self, request: bytes, due: float) -> None:
        """Send a request that was due at a time."""
        self.due = due
        self.received.clear()
        self.socket.sendall(request)

    def status(self) -> int | None:
        """Read on; return the status once the answer is complete.

        Raises:
            ConnectionError: when the server has closed the connection.
        """
        chunk = self.socket.recv(CHUNK)
        if not chunk:
            raise ConnectionError
        self.received += chunk
        return complete(self.received)

    def renew(self) -> None:
        """Connect again."""
        self.socket.close()
        self.__post_init__()


def complete(received: bytes | bytearray) -> int | None:
    """Return the status of an answer with a Content-Length, None while a part of it is missing."""
    head, end, body = bytes(received).partition(b"\r\n\r\n")
    if not end:
        return None
    lines = head.lower().split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    return int(lines[0].split()[1]) if len(body) >= length else None


def request(body: bytes, media_type: str = "application/json") -> bytes:
    """Return the bytes of a request for scores."""
    head = "POST /score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n"
    return head.format(media_type, len(body)).encode() + body


@dataclass(frozen=True)
class Client:
    """Sends requests to a server.

    Attributes:
        port: of the server, on 127.0.0.1.
        requests: sent in turn.
        patience: seconds after the last one was due, or without an answer, after which a missing response is an error.
    """

    port: int
    requests: list[bytes]
    patience: float = 5.0

    def run_closed(self, connections: int, seconds: float) -> LoadSample:
        """Ask in a closed loop: each connection sends its next request as soon as it is answered."""
        return self._measure(lambda now: now if now < seconds else None, LoadSample(None, connections))

    def run_open(self, due: list[float], rate: float) -> LoadSample:
        """Ask in an open loop: requests are sent when they are due, whether others are answered or not.

        Args:
            due: when, in seconds since the start, ascending.
            rate: of which these times are a sample, requests a second.
        """
        waiting = deque(due)

        def at(now: float) -> float | None:
            if not waiting or now > due[-1] + self.patience:
                return None
            return waiting.popleft() if waiting[0] <= now else waiting[0]

        sample = self._measure(at, LoadSample(rate, OPEN_CONNECTIONS))
        sample.fail("unanswered", len(waiting))
        return sample

    def _measure(self, due: Due, sample: LoadSample) -> LoadSample:
        with _open_connections(self.port, sample.connections) as connections:
            cpu, started = time.process_time(), time.perf_counter()
            self._drive(connections, due, sample)
            sample.seconds, sample.client_cpu = time.perf_counter() - started, time.process_time() - cpu
        return sample

    def _drive(self, connections: list[ClientConnection], due: Due, sample: LoadSample) -> None:
        """Send what is due over free connections and read answers, until all are there or none has come for long."""
        free, busy, requests, started = (
            list(connections),
            set[ClientConnection](),
            cycle(self.requests),
            time.perf_counter(),
        )
        while True:
            now, moment = time.perf_counter() - started, None
            while free and (moment := due(now)) is not None and moment <= now:
                connection = free.pop()
                is_sent = _send(connection, next(requests), started + moment, sample)
                (busy.add if is_sent else free.append)(connection)
            if not busy and moment is None:
                return
            wait = None if moment is None or not free else moment - now
            ready, _, _ = select.select(busy, [], [], self.patience if wait is None else wait)
            if wait is None and not ready:
                sample.fail("unanswered", len(busy))
                return
            for connection in ready:
                if _receive(connection, sample):
                    busy.discard(connection)
                    free.append(connection)


@contextmanager
def _open_connections(port: int, number: int) -> Iterator[list[ClientConnection]]:
    connections = [ClientConnection(("127.0.0.1", port)) for _ in range(number)]
    try:
        yield connections
    finally:
        for connection in connections:
            connection.socket.close()


def _send(connection: ClientConnection, request: bytes, due: float, sample: LoadSample) -> bool:
    """Send a request; a connection that the server has closed meanwhile is an error."""
    try:
        connection.send(request, due)
    except ConnectionError:
        sample.fail("connection")
        connection.renew()
        return False
    return True


def _receive(connection: ClientConnection, sample: LoadSample) -> bool:
    """Read on and count an answer that is complete, or a connection that is gone."""
    try:
        status = connection.status()
    except ConnectionError:
        sample.fail("connection")
        connection.renew()
        return True
    if status == 200:
        sample.latencies.append(time.perf_counter() - connection.due)
    elif status is not None:
        sample.fail(str(status))
    return status is not None
