"""Sends requests over keep-alive connections and notes when they are answered, in one thread."""

import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http import HTTPStatus
from itertools import cycle

from components.loadtest.core import LoadSample
from nightshift.http.addresses import HOST
from nightshift.http.client import BlockingConnection, ExchangeError, ServerAddress, encode_request
from nightshift.http.cross_site import JSON

OPEN_CONNECTIONS = 64  # in the open loop, a request waits for a free one, and its latency counts that

Due = Callable[[float], float | None]  # seconds since the start -> when the next request is due, None after the last


class TimedConnection(BlockingConnection):
    """A connection that notes when its request was due.

    Attributes:
        due: time at which the request was due, by `time.perf_counter`.
    """

    due = 0.0


@dataclass(frozen=True)
class Client:
    """Sends requests to a server.

    Attributes:
        port: port of the server, on 127.0.0.1.
        requests: requests to send in turn.
        patience: seconds after the last one was due, or without an answer, after which a missing response is an error.
    """

    port: int
    requests: list[bytes]
    patience: float = 5.0

    def run_closed(self, connections: int, seconds: float) -> LoadSample:
        """Send in a closed loop: each connection sends its next request as soon as it has its response."""
        return self._measure(lambda now: now if now < seconds else None, LoadSample(None, connections))

    def run_open(self, due: list[float], rate: float) -> LoadSample:
        """Send in an open loop: requests are sent when they are due, whether others are answered or not.

        Args:
            due: times in seconds since the start, ascending.
            rate: requests a second, of which these times are a sample.
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
        with ExitStack() as stack:
            address = ServerAddress(HOST, self.port)
            free = [stack.enter_context(closing(TimedConnection(address))) for _ in range(sample.connections)]
            cpu, started = time.process_time(), time.perf_counter()
            self._drive(free, due, sample)
            sample.seconds, sample.client_cpu = time.perf_counter() - started, time.process_time() - cpu
        return sample

    def _drive(self, free: list[TimedConnection], due: Due, sample: LoadSample) -> None:
        """Send requests that are due over free connections, until all responses have arrived or none does for long."""
        busy, requests, started = set[TimedConnection](), cycle(self.requests), time.perf_counter()
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


def encode(body: bytes, media_type: str = JSON) -> bytes:
    """Return the bytes of a request for scores."""
    return encode_request("POST", "/score", HOST, body, headers={"content-type": media_type})


def _send(connection: TimedConnection, request: bytes, due: float, sample: LoadSample) -> bool:
    """Send a request; a connection that the server has closed meanwhile is an error."""
    connection.due = due
    try:
        connection.send(request)
    except ExchangeError:
        sample.fail("connection")
        connection.renew()
        return False
    return True


def _receive(connection: TimedConnection, sample: LoadSample) -> bool:
    """Receive once, and count a response that is complete, or a connection that is gone."""
    try:
        is_complete = connection.receive()
    except ExchangeError:
        sample.fail("connection")
        connection.renew()
        return True
    if is_complete and connection.status == HTTPStatus.OK:
        sample.latencies.append(time.perf_counter() - connection.due)
    elif is_complete:
        sample.fail(str(connection.status))
    return is_complete
