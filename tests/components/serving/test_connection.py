"""HTTP connections: real sockets to uvicorn with our protocol."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from components.serving.connection import Connection
from components.serving.messages import Receive, Request, Response, Scope, Send
from tests.processes import SECONDS, wait_until


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the path and the body; `/slow` and `/long` later than others."""
    request = Request(scope, receive, 100_000)
    body = await request.body()
    await asyncio.sleep({"/slow": 0.05, "/long": 1.0}.get(request.path, 0))
    if request.path == "/broken":
        raise ValueError(request.path)
    await Response(request.path.encode() + b" " + body).send(send, "some-id")


@contextmanager
def serving(**options: Any) -> Iterator[int]:
    """Serve it in a thread; yield the port."""
    server = uvicorn.Server(uvicorn.Config(echo, http=Connection, log_config=None, lifespan="off", **options))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        wait_until(lambda: server.started, "the server has started", SECONDS)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as found:
        yield found


def said(port: int, *parts: bytes) -> bytes:
    """Send the parts one by one; return all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
        for part in parts:
            client.sendall(part)
        return b"".join(iter(lambda: client.recv(65536), b""))


def asked(path: str, *, method: str = "POST", last: bool = False, body: bytes = b"") -> bytes:
    end = "Connection: close\r\n" if last else ""
    return f"{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n{end}\r\n".encode() + body


def test_an_answer_has_a_date_its_length_and_the_headers_of_the_application(port) -> None:
    head, _, body = said(port, asked("/a?b=c", body=b"hello", last=True)).partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    assert status == b"HTTP/1.1 200 OK"
    assert [line.split(b":")[0] for line in headers[:2]] == [b"date", b"server"]
    assert headers[2:] == [
        b"content-type: application/json", b"content-length: 8", b"x-request-id: some-id", b"connection: close",
    ]  # fmt: skip
    assert body == b"/a hello"


def test_requests_that_come_at_once_are_answered_in_their_order(port) -> None:
    found = said(port, asked("/slow") + asked("/b", body=b"two") + asked("/c", body=b"three", last=True))
    assert [found.index(each) for each in (b"/slow ", b"/b two", b"/c three")] == sorted(
        found.index(each) for each in (b"/slow ", b"/b two", b"/c three")
    )
    assert found.count(b"HTTP/1.1 200 OK") == 3


def test_a_body_may_come_in_parts(port) -> None:
    head, body = asked("/a", body=b"x" * 70_000, last=True).split(b"\r\n\r\n")
    found = said(port, head[:20], head[20:] + b"\r\n\r\n", body[:10], body[10:])
    assert found.endswith(b"/a " + b"x" * 70_000)


def test_a_client_that_asks_whether_to_go_on_is_told_so(port) -> None:
    asks = asked("/a", body=b"", last=True).replace(b"Content-Length: 0", b"Content-Length: 2\r\nExpect: 100-continue")
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
        client.sendall(asks)
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"ok")
        assert b"".join(iter(lambda: client.recv(65536), b"")).endswith(b"/a ok")


def test_head_is_answered_with_the_length_alone(port) -> None:
    found = said(port, asked("/a", method="HEAD", last=True))
    assert b"content-length: 3\r\n" in found
    assert found.endswith(b"\r\n\r\n")


def test_http_1_0_is_answered_and_closed(port) -> None:
    assert said(port, b"GET /a HTTP/1.0\r\n\r\n").endswith(b"connection: close\r\n\r\n/a ")


def test_what_is_not_http_gets_400_and_what_breaks_500(port) -> None:
    assert said(port, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert said(port, asked("/broken")).startswith(b"HTTP/1.1 500 ")


def test_a_connection_without_requests_is_closed_after_a_while() -> None:
    with serving(timeout_keep_alive=0.01) as port:
        assert said(port) == b""


def test_a_request_that_takes_longer_than_a_connection_may_be_idle_is_answered() -> None:
    with serving(timeout_keep_alive=0.5) as port:
        assert said(port, asked("/long")).endswith(b"/long ")


class Transport(asyncio.Transport):
    """Takes down what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written.append(data)

    def close(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def test_an_answer_is_one_write() -> None:
    """A client that is woken by the head alone would have to wait again for the body."""
    written = asyncio.run(_written())
    assert [each[:15] for each in written] == [b"HTTP/1.1 200 OK"]
    assert written[0].endswith(b"/a hello")


async def _written() -> list[bytes]:
    config, transport = uvicorn.Config(echo, log_config=None), Transport()
    connection = Connection(config, ServerState(), {})
    connection.connection_made(transport)
    connection.data_received(asked("/a", body=b"hello"))
    await asyncio.gather(*connection.tasks)
    connection.connection_lost(None)
    return transport.written
