"""The HTTP client of an event loop: pooled connections and streamed responses."""

import asyncio

from nightshift.http.client import (
    ExchangeError,
    InvalidResponseError,
    ResponseReceiver,
    ServerAddress,
    SilentServerError,
    UnreachableError,
)
from nightshift.http.futures import resolve

CONNECT_SECONDS = 2.0
BUFFER = 256 * 1024  # bytes of a response to buffer for a slow reader, before backpressure
MAX_RESPONSE = 64 * 1024 * 1024  # bytes of a response that is read whole
MAX_IDLE = 256  # pooled connections of a server
IDLE_SECONDS = 2.0  # below the five after which engines close idle connections: a request must not race with that


class HttpConnection(ResponseReceiver, asyncio.Protocol):
    """A connection to a server, for one request at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._is_lost, self._is_silent = False, False
        self._used_at = self._loop.time()

    @property
    def is_reusable(self) -> bool:
        """Whether another request may follow."""
        return self.is_complete and not self._is_lost

    def measure_silence(self) -> float:
        """Return the seconds since its last use."""
        return self._loop.time() - self._used_at

    async def send(self, request: bytes) -> None:
        """Send a request, and wait for the status of its response.

        Raises:
            ExchangeError: when the connection ends before.
        """
        self.expect()
        self._used_at = self._loop.time()
        self._transport.write(request)
        while not self.status:
            await self._wait()

    async def read(self) -> bytes:
        """Return the next piece of the body, empty after its end.

        Raises:
            ExchangeError: when the connection ends before.
        """
        while not self._pieces:
            if self.is_complete:
                return b""
            await self._wait()
        if self._buffered > BUFFER:
            self._transport.resume_reading()
        return self.take_body()

    async def read_all(self) -> bytes:
        """Return the rest of the body.

        Raises:
            ExchangeError: when the connection ends before.
            InvalidResponseError: when it is larger than `MAX_RESPONSE`.
        """
        pieces, size = list[bytes](), 0
        while piece := await self.read():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_RESPONSE:
                raise InvalidResponseError(f"an answer has more than {MAX_RESPONSE} bytes")
        return b"".join(pieces)

    def end_silent(self) -> None:
        """End the connection after a timeout."""
        self._is_silent = True
        self.close()

    def close(self) -> None:
        """End the connection at once, and with it the server's work on an incomplete response."""
        self._is_lost = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # a socket's
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; invalid HTTP, or an unexpected response, ends the connection."""
        self._used_at = self._loop.time()
        try:
            self.parse(data)
        except ExchangeError:
            self.close()
        self._wake()

    def connection_lost(self, _: Exception | None) -> None:
        """Wake the reader, and break the reference cycle with the parser."""
        self._is_lost = True
        del self._parser
        self._wake()

    def on_body(self, body: bytes) -> None:
        """Buffer a piece of the body; pause reading while the buffer is full."""
        super().on_body(body)
        if self._buffered > BUFFER:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """End the response; a connection that is not kept ends with it."""
        super().on_message_complete()
        if self.is_complete and not self.keeps_alive:
            self._transport.close()

    async def _wait(self) -> None:
        if self._is_silent:
            raise SilentServerError("nothing has come for too long")
        if self._is_lost:
            raise ExchangeError("the connection has ended")
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter:
            resolve(self._waiter, None)


async def connect(address: ServerAddress, seconds: float = CONNECT_SECONDS) -> HttpConnection:
    """Return a new connection.

    Raises:
        UnreachableError: when nothing listens there, or its certificate is not valid.
    """
    try:
        async with asyncio.timeout(seconds):
            _, connection = await asyncio.get_running_loop().create_connection(
                HttpConnection, address.host, address.port, ssl=address.tls
            )
    except (OSError, TimeoutError) as error:
        raise UnreachableError(f"no connection to {address.host}:{address.port}: {error or 'timeout'}") from None
    return connection


class ConnectionPool:
    """The connections to one address.

    Attributes:
        address: address of the server.
        in_use: connections with a request.
    """

    def __init__(self, address: ServerAddress, idle_seconds: float = IDLE_SECONDS) -> None:
        self.address, self._idle_seconds = address, idle_seconds
        self._idle: list[HttpConnection] = []
        self.in_use: set[HttpConnection] = set()

    async def acquire(self) -> HttpConnection:
        """Return a pooled connection, or a new one; raises as `connect`."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and connection.measure_silence() < self._idle_seconds:
                break
            connection.close()
        else:
            connection = await connect(self.address)
        self.in_use.add(connection)
        return connection

    def release(self, connection: HttpConnection) -> None:
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
