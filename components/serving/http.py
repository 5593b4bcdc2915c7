"""The transport: HTTP/1.1 on asyncio. A request is read whole, an answer is one write, and every wait has an end.

A connection reads on only when what it has read is answered, so it holds one request, or the small ones that came in
one piece. A look each second at all connections ends those whose time is over, in place of a timer for each request.
"""

import asyncio
import math
import signal
import socket
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Protocol

from components.serving.messages import RefusedError, Request, Response
from components.serving.parser import Admission, Parser
from components.serving.replies import Reply

PIECE = 16 * 1024  # bytes that are parsed at a time
LOOK_SECONDS = 1.0
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS_LINES = {int(status): f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
ENDING = (signal.SIGTERM, signal.SIGINT)


class Application(Admission, Protocol):
    """What answers requests."""

    def __call__(self, request: Request) -> Coroutine[Any, None, Response]:
        """Answer a request whatever happens, also one that is refused already."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds after which a client is waited for no longer.

    Attributes:
        idle: until a request. Load balancers keep connections shorter: who closes first fails a request of the other.
        head: from the first byte of a request to the end of its head.
        body: from there to the end of its body.
        write: until it reads its answers.
        linger: until it closes the connection after the last answer.
        grace: until requests are answered that were there when the server was stopped.
    """

    idle: float = 620.0
    head: float = 10.0
    body: float = 60.0
    write: float = 60.0
    linger: float = 2.0
    grace: float = 5.0


class Connection(asyncio.Protocol):
    """A connection of a client, whose requests are answered one after the other.

    Attributes:
        deadline: until when the client is waited for, by the server's clock.
    """

    def __init__(self, server: "Server") -> None:
        self._server, self._parser = server, Parser(server.application, self._take)
        self._requests: deque[Request] = deque()  # that have come whole and are not answered
        self._running: Coroutine[Any, None, Response] | None = None  # answers the first of them
        self._unread = b""
        self._is_ending = False  # nothing that comes is answered any more
        self._is_half_closed = False  # the client sends nothing any more
        self._is_full = False  # the client does not read its answers
        self._patience = 0.0  # seconds from the state that it is in to the deadline
        self.deadline = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # of a socket
        """Wait for the first request."""
        self._transport = transport
        self._server.connections.add(self)
        self._wait()

    def connection_lost(self, _: Exception | None) -> None:
        """Let go of all but the request that is being answered."""
        self._server.connections.discard(self)
        self._is_ending, self._unread = True, b""
        while len(self._requests) > 1:
            self._requests.pop()
        self._parser.close()

    def data_received(self, data: bytes) -> None:
        """Parse what has come, and answer what is whole; or keep it until others are answered."""
        if self._is_ending:
            return
        if self._requests:
            self._transport.pause_reading()
            data = self._unread + data
        self._unread = data
        if not self._requests:
            self._advance()

    def eof_received(self) -> bool:
        """Return whether the connection stays open: a client that sends nothing any more may still read."""
        self._is_half_closed = True
        return bool(self._requests or self._unread)

    def pause_writing(self) -> None:
        """Answer no more until the client reads."""
        self._is_full = True
        self._wait()

    def resume_writing(self) -> None:
        """Go on with the next answer."""
        self._is_full = False
        if self._running:
            self._wait()
        else:
            self._advance()

    def expire(self) -> None:
        """Give up a client that is too slow: 408 for a request in part, otherwise without a word."""
        if self._is_waiting and self._parser.is_within:
            self._refuse(RefusedError(HTTPStatus.REQUEST_TIMEOUT, "the request came too slowly; send it at once"))
            self._advance()
        elif self._is_waiting:
            self._transport.close()
        else:
            self._transport.abort()

    def finish(self) -> None:
        """Close the connection if no request is on its way; otherwise its answer is the last one."""
        if not self._requests and not self._parser.is_within:
            self._transport.close()

    @property
    def _is_waiting(self) -> bool:
        """Whether it is the client's turn to send."""
        return not self._requests and not self._is_ending

    def _take(self, request: Request) -> None:
        if not self._is_ending:
            self._requests.append(request)
            self._is_ending = not request.keeps_alive

    def _refuse(self, refusal: RefusedError) -> None:
        """Answer with a refusal, after which nothing can be read."""
        request = self._parser.request
        request.refuse(refusal)
        request.keeps_alive = False
        self._take(request)

    def _advance(self, _: object = None) -> None:
        """Answer requests, until one has to wait or no other one is there.

        A request's coroutine runs at once, and on as soon as what it waits for is done. A task does the same and can be
        cancelled, which nobody does with a request; it takes as long as to parse one.
        """
        while self._running or (not self._is_full and (self._requests or self._read())):
            running = self._running or self._server.application(self._requests[0])
            try:
                waited = running.send(None)
            except StopIteration as ended:
                self._running = None
                self._write(self._requests.popleft(), ended.value)
            else:
                self._running = running
                self._resume_after(waited)
                break
        self._wait()

    def _read(self) -> bool:
        """Parse what is unread until a request is whole; return whether one is."""
        while self._unread and self._is_waiting:
            piece, self._unread = self._unread[:PIECE], self._unread[PIECE:]
            try:
                self._parser.feed(piece)
            except RefusedError as refusal:
                self._refuse(refusal)
        if self._is_waiting:
            self._receive()
        return bool(self._requests)

    def _receive(self) -> None:
        """Wait for the rest of a request, or for the next one."""
        if self._parser.awaits_continue:
            self._parser.awaits_continue = False
            self._transport.write(CONTINUE)
        if self._is_half_closed:
            self._transport.close()
        elif not self._transport.is_reading():
            self._transport.resume_reading()

    def _resume_after(self, waited: Any) -> None:
        """Go on once what a request waits for is done."""
        if isinstance(waited, Reply):
            waited.then = self._advance
        elif waited is None:  # for nothing: it lets others go first
            asyncio.get_running_loop().call_soon(self._advance)
        else:
            waited._asyncio_future_blocking = False  # as tasks do: another request may wait for the same future
            waited.add_done_callback(self._advance)

    def _write(self, request: Request, response: Response) -> None:
        if self._transport.is_closing():
            return
        keeps_alive = request.keeps_alive and not self._server.is_stopping
        self._transport.write(_encoded(request, response, self._server.date, keeps_alive))
        if keeps_alive:
            self._patience = 0.0
            return
        self._is_ending = True
        self._requests.clear()
        if self._is_half_closed or self._server.is_stopping:
            self._transport.close()
        else:
            self._transport.write_eof()  # to close it with bytes unread would take the answer from the client

    def _wait(self) -> None:
        """Move the deadline if the client is waited for since now."""
        patience = self._seconds()
        if patience != self._patience:
            self._patience, self.deadline = patience, self._server.now + patience

    def _seconds(self) -> float:
        timeouts = self._server.timeouts
        if self._is_full:
            return timeouts.write
        if self._requests:
            return math.inf
        if self._is_ending:
            return timeouts.linger
        if self._parser.is_within:
            return timeouts.body if self._parser.has_head else timeouts.head
        return timeouts.idle


def _encoded(request: Request, response: Response, date: bytes, keeps_alive: bool) -> bytes:
    body = response.body
    parts = [STATUS_LINES[response.status], date]
    parts.append(b"content-type: %b\r\ncontent-length: %d\r\n" % (response.media_type.encode(), len(body)))
    parts.append(b"x-request-id: %b\r\n" % request.id.encode())
    parts += [f"{name}: {value}\r\n".encode("latin-1") for name, value in response.headers.items()]
    if not keeps_alive:
        parts.append(b"connection: close\r\n")
    elif request.version == "1.0":
        parts.append(b"connection: keep-alive\r\n")
    parts.append(b"\r\n")
    if request.method != "HEAD":
        parts.append(body)
    return b"".join(parts)


class Server:
    """Answers on a socket until it is stopped.

    Attributes:
        application: what answers.
        timeouts: of its clients.
        connections: that are open.
        now: seconds of the event loop's clock, at the last look.
        date: header of answers.
        is_stopping: whether each connection's next answer is its last one.
    """

    def __init__(self, application: Application, timeouts: Timeouts | None = None) -> None:
        self.application, self.timeouts = application, timeouts or Timeouts()
        self.connections: set[Connection] = set()
        self.is_stopping, self._stopped = False, asyncio.Event()
        self.now, self.date = 0.0, b""

    async def serve(self, listener: socket.socket) -> None:
        """Answer until `stop` is called; then close idle connections, and wait for the others' answers."""
        loop = asyncio.get_running_loop()
        self._look(loop)
        server = await loop.create_server(lambda: Connection(self), sock=listener, backlog=socket.SOMAXCONN)
        await self._stopped.wait()
        server.close()
        self.is_stopping = True
        for connection in list(self.connections):
            connection.finish()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._drained(), self.timeouts.grace)

    def stop(self) -> None:
        """Have `serve` end."""
        self._stopped.set()

    async def _drained(self) -> None:
        while self.connections:
            await asyncio.sleep(0.01)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell the time, and give up clients whose time is over."""
        loop.call_later(LOOK_SECONDS, self._look, loop)
        self.now, self.date = loop.time(), b"date: %b\r\n" % formatdate(usegmt=True).encode()
        for connection in [each for each in self.connections if each.deadline < self.now]:
            connection.expire()


async def serve(application: Application, listener: socket.socket) -> None:
    """Answer on a socket until the process is asked to end."""
    server, loop = Server(application), asyncio.get_running_loop()
    for each in ENDING:
        loop.add_signal_handler(each, server.stop)
    await server.serve(listener)
