"""An application that answers with what it is sent, served by the transport, and raw requests to it."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from nightshift.http.addresses import listen
from nightshift.http.errors import UnauthorizedError
from nightshift.http.messages import OK, HttpRequest, HttpResponse
from nightshift.http.transport import HttpServer, Timeouts
from nightshift_testkit.processes import SECONDS
from nightshift_testkit.servers import free_port

LARGEST = 100_000  # bytes of a body
HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]+\r\n(?:date: [^\r]*\r\ncontent-length: (\d+)\r\n(?:[^\r]+\r\n)*)?\r\n")


class Echo:
    """Answers with the path and the body; the body `slow` and the path `/slow` later, `/held` once it is released."""

    max_body = LARGEST

    def __init__(self) -> None:
        self.requests, self.is_released = 0, False

    def admit(self, request: HttpRequest) -> None:
        if request.path == "/refused":
            request.refuse(UnauthorizedError("no"))

    async def answer(self, request: HttpRequest) -> HttpResponse:
        self.requests += 1
        if request.refusal:
            return HttpResponse.refusal(request.refusal)
        if request.body == b"slow" or request.path == "/slow":
            await asyncio.sleep(0.05)
        while request.path == "/held" and not self.is_released:
            await asyncio.sleep(0.01)
        body = b"x" * 10_000_000 if request.path == "/large" else request.path.encode() + b" " + request.body
        return HttpResponse(body, headers={"content-type": "text/plain"})


class Wire(asyncio.Transport):
    """A transport in memory: whether more is read, whether nothing more is written, and what has been."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reading, self.has_ended, self.written = True, False, b""

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def write_eof(self) -> None:
        self.has_ended = True

    def close(self) -> None:
        self.has_ended = True

    def is_closing(self) -> bool:
        return False


@contextmanager
def answering(application: Any, **options: Any) -> Iterator[str]:
    """Serve an application during the block, with options of `HttpServer`; yield its URL."""
    listener = listen(free_port())
    server, loop = HttpServer(application, **options), uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=[server.serve(listener)])
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join()
        loop.close()


@contextmanager
def serving(timeouts: Timeouts | None = None, echo: Echo | None = None, **options: int) -> Iterator[int]:
    """Serve it, with options of `Server`; yield the port."""
    with answering(echo or Echo(), timeouts=timeouts, **options) as url:
        yield int(url.rpartition(":")[2])


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)


def received(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def exchange(port: int, *parts: bytes) -> bytes:
    """Send the parts one by one; return all that comes until the server closes the connection."""
    with connected(port) as client:
        for part in parts:
            client.sendall(part)
        return received(client)


def request(path: str, *lines: str, method: str = "POST", last: bool = False, body: bytes = b"") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join([*head, *["Connection: close"] * last, "", ""]).encode() + body


def raw(*lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def statuses(answers: bytes) -> list[int]:
    return [status for status, _ in responses(answers)]


def bodies(answers: bytes) -> list[bytes]:
    return [body for _, body in responses(answers)]


def outcomes(answers: bytes) -> list[bytes | int]:
    """The body of each response with status 200, and the status of each other one."""
    return [body if status == OK else status for status, body in responses(answers)]


def responses(answers: bytes) -> Iterator[tuple[int, bytes]]:
    """Status and body of each response but 100 Continue."""
    position = 0
    while head := HEAD.match(answers, position):
        position = head.end() + int(head[2] or 0)
        if head[2]:
            yield int(head[1]), answers[head.end() : position]
    assert position == len(answers), answers[position:]
