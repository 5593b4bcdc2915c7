"""The HTTP client for replicas: pooled connections and streamed responses."""

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping

import httptools

from nightshift.http.futures import resolve

CONNECT_SECONDS = 2.0
BUFFER = 256 * 1024  # bytes of a response to buffer for a slow client, before backpressure
MAX_ANSWER = 64 * 1024 * 1024  # bytes of an answer that is read whole
MAX_IDLE = 256  # pooled connections of a replica
IDLE_SECONDS = 2.0  # below the five after which engines close idle connections: a request must not race with that


class UpstreamError(Exception):
    """A replica that cannot be reached, or that broke off a response."""


class UnreachableError(UpstreamError):
    """A replica to which no connection can be made."""


class SilentReplicaError(UpstreamError):
    """A replica that timed out after it was sent a request."""


class InvalidAnswerError(UpstreamError):
    """An answer that cannot be passed on: the replica has done its work, and another would answer alike."""


class UpstreamConnection(asyncio.Protocol):
    """A connection to a replica, for one request at a time.

    Attributes:
        status: of the response; 0: it has not begun.
        headers: of the response: lower-case name -> the last value.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._waiter: asyncio.Future[None] | None = None
        self.status, self.headers = 0, dict[str, str]()
        self._is_complete, self._is_lost, self._is_silent = True, False, False
        self._used_at = self._loop.time()

    @property
    def is_reusable(self) -> bool:
        """Whether another request may follow."""
        return self._is_complete and not self._is_lost

    def measure_silence(self) -> float:
        """Return the seconds since its last use."""
        return self._loop.time() - self._used_at

    async def send(self, request: bytes) -> None:
        """Send a request, and wait for the status of its response.

        Raises:
            UpstreamError: when the connection ends before.
        """
        self.status, self.headers, self._is_complete = 0, {}, False
        self._used_at = self._loop.time()
        self._transport.write(request)
        while not self.status:
            await self._wait()

    async def read(self) -> bytes:
        """Return the next piece of the body, empty after its end.

        Raises:
            UpstreamError: when the connection ends before.
        """
        while not self._pieces:
            if self._is_complete:
                return b""
            await self._wait()
        if self._buffered > BUFFER:
            self._transport.resume_reading()
        self._buffered = 0
        piece = b"".join(self._pieces)
        self._pieces.clear()
        return piece

    async def read_all(self) -> bytes:
        """Return the rest of the body.

        Raises:
            UpstreamError: when the connection ends before.
            InvalidAnswerError: when it is larger than `MAX_ANSWER`.
        """
        pieces, size = list[bytes](), 0
        while piece := await self.read():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ANSWER:
                raise InvalidAnswerError(f"an answer has more than {MAX_ANSWER} bytes")
        return b"".join(pieces)

    def end_silent(self) -> None:
        """End the connection after a timeout."""
        self._is_silent = True
        self.close()

    def close(self) -> None:
        """End the connection at once, and with it the replica's work on an incomplete response."""
        self._is_lost = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # of a socket
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; invalid HTTP, or an unexpected response, ends the connection."""
        self._used_at = self._loop.time()
        if self._is_complete:
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()
        self._wake()

    def connection_lost(self, _: Exception | None) -> None:
        """Wake the reader, and break the reference cycle with the parser."""
        self._is_lost = True
        del self._parser
        self._wake()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Keep the status, unless it is an interim one."""
        status = self._parser.get_status_code()
        self.status = status if status >= 200 else 0
        if not self.status:
            self.headers = {}

    def on_body(self, body: bytes) -> None:
        """Buffer a chunk of the body; pause reading while the buffer is full."""
        self._pieces.append(body)
        self._buffered += len(body)
        if self._buffered > BUFFER:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """End the response; a connection that is not kept ends with it."""
        self._is_complete = self.status > 0
        if self._is_complete and not self._parser.should_keep_alive():
            self._transport.close()

    async def _wait(self) -> None:
        if self._is_silent:
            raise SilentReplicaError("nothing has come for too long")
        if self._is_lost:
            raise UpstreamError("the connection has ended")
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter:
            resolve(self._waiter, None)


class ConnectionPool:
    """The connections to one address.

    Attributes:
        in_use: connections with a request.
    """

    def __init__(
        self, host: str, port: int, idle_seconds: float = IDLE_SECONDS, tls: ssl.SSLContext | None = None
    ) -> None:
        self._host, self._port, self._idle_seconds, self._tls = host, port, idle_seconds, tls
        self._idle: list[UpstreamConnection] = []
        self.in_use: set[UpstreamConnection] = set()

    async def acquire(self) -> UpstreamConnection:
        """Return a pooled connection, or a new one.

        Raises:
            UnreachableError: when nothing listens there, or its certificate is not valid.
        """
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and connection.measure_silence() < self._idle_seconds:
                break
            connection.close()
        else:
            connection = await self._connect()
        self.in_use.add(connection)
        return connection

    def release(self, connection: UpstreamConnection) -> None:
        """Return a connection to the pool if its response is complete; otherwise end it."""
        self.in_use.discard(connection)
        if connection.is_reusable and len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def end_silent(self, seconds: float) -> None:
        """End connections whose response has timed out."""
        for connection in tuple(self.in_use):
            if connection.measure_silence() > seconds:
                connection.end_silent()

    def close(self) -> None:
        """End all connections."""
        for connection in (*self._idle, *self.in_use):
            connection.close()

    async def _connect(self) -> UpstreamConnection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    UpstreamConnection, self._host, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError) as error:
            raise UnreachableError(f"no connection to {self._host}:{self._port}: {error or 'timeout'}") from None
        return connection


def encode_request(
    method: str, path: str, host: str, body: bytes = b"", token: str = "", headers: Mapping[str, str] | None = None
) -> bytes:
    """Return an HTTP/1.1 request with a JSON body, a bearer token unless it is empty, and further headers."""
    fields = {"host": host, "content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    if token:
        fields["authorization"] = f"Bearer {token}"
    head = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body
