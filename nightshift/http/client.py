"""The HTTP client: addresses, requests, responses as they arrive, and a connection that blocks.

`pool.py` has the connections of an event loop.
"""

import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple
from urllib.parse import urlsplit

import httptools

from nightshift.http.messages import HttpResponse

CHUNK = 64 * 1024  # bytes to receive at once
PORTS = {"http": 80, "https": 443}
NO_HEADERS: Mapping[str, str] = {}


class ExchangeError(Exception):
    """A request without a whole response."""


class UnreachableError(ExchangeError):
    """A server to which no connection can be made."""


class SilentServerError(ExchangeError):
    """A server that timed out after it was sent a request."""


class InvalidResponseError(ExchangeError):
    """A response that cannot be used: the server has done its work, and a retry would end the same way."""


class ServerAddress(NamedTuple):
    """The address of a server.

    Attributes:
        host: name or IP address.
        port: TCP port.
        tls: context of HTTPS; None: plain HTTP.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    @classmethod
    def from_url(cls, url: str) -> "ServerAddress":
        """Return the address in an http:// or https:// URL."""
        parts = urlsplit(url)
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        return cls(str(parts.hostname), parts.port or PORTS[parts.scheme], tls)

    @property
    def authority(self) -> str:
        """The `host` header of requests."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"


class ResponseReceiver:
    """Parses the responses on a connection, one at a time.

    Attributes:
        status: status of the response; 0: it has not begun.
        is_complete: whether the response has ended; also before the first request.
        keeps_alive: whether the connection stays open after the response.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._fields: list[tuple[bytes, bytes]] = []
        self._buffered = self.status = 0
        self.is_complete = self.keeps_alive = True

    def expect(self) -> None:
        """Expect the response to another request."""
        self.status, self.is_complete = 0, False
        self._fields.clear()

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the response: lower-case name -> the last value."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._fields}

    def parse(self, data: bytes) -> None:
        """Parse received bytes.

        Raises:
            ExchangeError: when they are not HTTP, or belong to no request.
        """
        if self.is_complete:
            raise ExchangeError("the server has sent more than the response")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ExchangeError(f"the server has not sent HTTP: {error}") from None

    def take_body(self) -> bytes:
        """Return the received part of the body that was not taken yet."""
        body, self._buffered = b"".join(self._pieces), 0
        self._pieces.clear()
        return body

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Keep the status, unless it is an interim one."""
        status = self._parser.get_status_code()
        self.status = status if status >= 200 else 0
        if not self.status:
            self._fields.clear()

    def on_body(self, body: bytes) -> None:
        """Buffer a piece of the body."""
        self._pieces.append(body)
        self._buffered += len(body)

    def on_message_complete(self) -> None:
        """End the response, unless it is an interim one."""
        self.is_complete = self.status > 0
        self.keeps_alive = self._parser.should_keep_alive()


class BlockingConnection(ResponseReceiver):
    """A connection whose calls block, for one request at a time; `select` takes it too."""

    def __init__(self, address: ServerAddress, seconds: float | None = None) -> None:
        """Connect.

        Args:
            address: address of the server.
            seconds: timeout of each call; None: no limit.

        Raises:
            UnreachableError: when nothing listens there, or its certificate is not valid.
        """
        super().__init__()
        self._address, self._seconds = address, seconds
        self._socket = self._connect()

    def renew(self) -> None:
        """Connect again; raises as the constructor."""
        self.close()
        self._parser = httptools.HttpResponseParser(self)
        self._socket = self._connect()

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._socket.fileno()

    def send(self, request: bytes) -> None:
        """Send a request.

        Raises:
            ExchangeError: when the connection ends before.
        """
        self.expect()
        self.take_body()  # an unread body would be kept for good
        try:
            self._socket.sendall(request)
        except OSError as error:
            raise ExchangeError(f"the connection has ended: {error}") from None

    def receive(self) -> bool:
        """Receive once; return whether the response is complete.

        Raises:
            SilentServerError: when nothing arrives in time.
            ExchangeError: when the connection ends before.
        """
        try:
            data = self._socket.recv(CHUNK)
        except TimeoutError:
            raise SilentServerError("the server has not responded in time") from None
        except OSError as error:
            raise ExchangeError(f"the connection has ended: {error}") from None
        if not data:
            raise ExchangeError("the connection has ended")
        self.parse(data)
        return self.is_complete

    def close(self) -> None:
        """End the connection, and break the reference cycle with the parser."""
        self._socket.close()
        del self._parser

    def _connect(self) -> socket.socket:
        (host, port, tls), seconds = self._address, self._seconds
        try:
            connected = socket.create_connection((host, port), seconds)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return tls.wrap_socket(connected, server_hostname=host) if tls else connected
        except OSError as error:
            raise UnreachableError(f"no connection to {host}:{port}: {error}") from None


def call(address: ServerAddress, request: bytes, seconds: float) -> HttpResponse:
    """Send a request over a connection of its own; return the whole response.

    Args:
        address: address of the server.
        request: bytes of the request, see `encode_request`.
        seconds: timeout of each wait for the server.

    Raises:
        ExchangeError: when no whole response arrives.
    """
    with closing(BlockingConnection(address, seconds)) as connection:
        connection.send(request)
        while not connection.receive():
            pass
        return HttpResponse(connection.take_body(), connection.status, connection.headers)


def encode_request(
    method: str, path: str, host: str, body: bytes = b"", token: str = "", headers: Mapping[str, str] = NO_HEADERS
) -> bytes:
    """Return an HTTP/1.1 request with a JSON body, a bearer token unless it is empty, and further headers."""
    fields = {"host": host, "content-type": "application/json", "content-length": str(len(body)), **headers}
    if token:
        fields["authorization"] = f"Bearer {token}"
    head = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body
