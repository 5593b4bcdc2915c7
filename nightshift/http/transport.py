"""The transport: HTTP/1.1 on asyncio. A request is read whole, a response is one write or a stream of chunks.

A connection has one task: it reads a request, answers it, and reads the next. Every wait for a client has a deadline:
one check a second of all connections closes those past theirs, in place of a timer for each request.
"""

import asyncio
import math
import os
import resource
import signal
import socket
from contextlib import aclosing, suppress
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Literal, Protocol

from nightshift.http.errors import OverloadedError, SlowRequestError
from nightshift.http.messages import HttpRequest, HttpResponse, Stream
from nightshift.http.parser import Admission, Received, RequestParser

MAX_CONNECTIONS = 10_000
OTHER_FILES = 200  # open files of the process beside its connections
CHECK_SECONDS = 1.0  # between checks of the deadlines
CONNECTION = {True: "connection: keep-alive\r\n", False: "connection: close\r\n"}
CHUNKED = "transfer-encoding: chunked\r\n"
LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS_LINES = {int(status): f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
ENDING = (signal.SIGTERM, signal.SIGINT)


class HttpApplication(Admission, Protocol):
    """The handler of all requests."""

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request, also a refused one; raises nothing."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds that the server waits for a client.

    Attributes:
        idle: between requests; longer than a load balancer's, so that it never sends to a closing connection.
        head: from a request's first byte to the end of its head.
        body: from the end of the head to the end of the body.
        write: until the client reads its responses.
        linger: until the client closes the connection after the last response.
        grace: for the requests in progress when the server stops.
    """

    idle: float = 620.0
    head: float = 10.0
    body: float = 60.0
    write: float = 60.0
    linger: float = 2.0
    grace: float = 5.0


Phase = Literal["idle", "head", "body", "write", "linger"]


class Connection(asyncio.Protocol):
    """A client's connection; its requests are answered one after the other.

    Attributes:
        deadline: end of the current wait for the client, by the event loop's clock.
    """

    def __init__(self, server: "HttpServer") -> None:
        self._server, self._parser = server, RequestParser(server.application)
        self._is_half_closed = False  # the client has finished sending
        self._is_full = False  # the client does not read its responses
        self._wake: asyncio.Future[None] | None = None  # wakes the task while it waits for the client
        self._phase: Phase | None = None
        self._is_answering = False  # from a request to the next wait for input
        self.deadline = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # a socket's
        """Start the task; beyond the limit of connections it only refuses."""
        self._transport = transport
        self._has_room = len(self._server.connections) < self._server.max_connections
        if not self._has_room:
            self._parser.refuse(OverloadedError(f"{self._server.max_connections} clients are connected; try again"))
        self._server.connections.add(self)
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._serve())

    def connection_lost(self, _: Exception | None) -> None:
        """End the task after the request in progress."""
        self._server.connections.discard(self)
        self._is_full, self._is_half_closed = False, True
        self._end_request()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; while requests wait for their responses, read no more."""
        self._parser.feed(data)
        if self._wake is None or len(self._parser.requests) > 1:
            self._transport.pause_reading()
        self.wake()

    def eof_received(self) -> bool:
        """Keep the connection open: a client that has finished sending may still read."""
        self._is_half_closed = True
        if self._server.cancels_abandoned and (self._is_answering or self._parser.requests):
            self._probe_client()
        self.wake()
        return True

    def pause_writing(self) -> None:
        """Pause answers until the client reads."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Resume with the next request."""
        self._is_full = False
        self.wake()

    def wake(self, error: Exception | None = None) -> None:
        """Resume the task, or raise an error in it, if it waits for the client."""
        if self._wake and not self._wake.done():
            self._wake.set_exception(error) if error else self._wake.set_result(None)
            self._wake = None

    def check_client(self) -> None:
        """End the request in progress of a client that has left, as its reset of the connection shows."""
        if self._server.cancels_abandoned and self._is_half_closed and self._is_answering:
            with self._duplicate_socket() as duplicate:
                if duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    self._end_request()

    def _probe_client(self) -> None:
        """Have a client that has left reset the connection; one that still reads does not see the urgent byte."""
        with suppress(OSError), self._duplicate_socket() as duplicate:  # not all sockets have urgent bytes
            duplicate.send(b"\n", socket.MSG_OOB)

    def _duplicate_socket(self) -> socket.socket:
        return socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno()))

    def _end_request(self) -> None:
        if self._server.cancels_abandoned and self._is_answering:
            self._task.cancel()
        else:
            self.wake()

    async def _serve(self) -> None:
        try:
            while (received := await self._receive()) and not self._transport.is_closing():
                response = await self._server.application.answer(received.request)
                if not await self._send(received, response):
                    await self._linger()
                    break
        except TimeoutError:
            self._transport.abort()
        finally:
            self._transport.close()
            self._parser.close()

    async def _receive(self) -> Received | None:
        """Return the next request, None after the last one; refuse a request that arrives too slowly."""
        while not self._parser.requests:
            is_idle = self._parser.phase == "idle"
            if self._is_half_closed or (is_idle and self._server.is_stopping):
                return None
            if self._parser.awaits_continue:
                self._parser.awaits_continue = False
                self._transport.write(CONTINUE)
            self._transport.resume_reading()
            try:
                await self._wait(self._parser.phase)
            except TimeoutError:
                if is_idle:
                    return None
                self._parser.refuse(SlowRequestError("the request came too slowly; send it at once"))
        self._phase, self.deadline, self._is_answering = None, math.inf, True
        if self._server.cancels_abandoned:
            self._transport.resume_reading()  # to see the end of the client's input
        return self._parser.requests.popleft()

    async def _send(self, received: Received, response: HttpResponse) -> bool:
        """Write a response and wait until the client has read; return whether another request may follow."""
        keeps_alive = received.keeps_alive and not self._server.is_stopping
        if response.stream:
            return await self._send_stream(received, response, response.stream)
        if not self._transport.is_closing():
            self._transport.write(_encode(received, response, self._server.date, keeps_alive))
        while self._is_full:
            await self._wait("write")
        return keeps_alive

    async def _send_stream(self, received: Received, response: HttpResponse, stream: Stream) -> bool:
        """Write a body as it comes, as fast as the client reads; one that fails ends without its last chunk."""
        has_chunks = received.version == "1.1"
        keeps_alive = received.keeps_alive and has_chunks and not self._server.is_stopping
        framing = CHUNKED if has_chunks else ""
        self._transport.write(_encode_head(received, response, framing, self._server.date, keeps_alive))
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if has_chunks else piece)
                while self._is_full:
                    await self._wait("write")
                self._phase, self.deadline = None, math.inf
        if has_chunks:
            self._transport.write(LAST_CHUNK)
        return keeps_alive and not self._server.is_stopping

    async def _linger(self) -> None:
        """Wait until the client closes, if there is room: closing first may destroy the last response."""
        if not self._is_half_closed:
            self._transport.write_eof()
        while self._has_room and not (self._is_half_closed or self._server.is_stopping):
            self._transport.resume_reading()
            await self._wait("linger")

    async def _wait(self, phase: Phase) -> None:
        """Wait for the client until the deadline of a phase; several waits in one phase share it.

        Raises:
            TimeoutError: after the deadline.
        """
        if phase != self._phase:
            self._phase, self.deadline = phase, self._server.now + getattr(self._server.timeouts, phase)
        self._is_answering = phase == "write"
        self._wake = self._loop.create_future()
        await self._wake


def _encode(received: Received, response: HttpResponse, date: str, keeps_alive: bool) -> bytes:
    head = _encode_head(received, response, f"content-length: {len(response.body)}\r\n", date, keeps_alive)
    return head if received.request.method == "HEAD" else head + response.body


def _encode_head(received: Received, response: HttpResponse, framing: str, date: str, keeps_alive: bool) -> bytes:
    headers = "".join([f"{name}: {value}\r\n" for name, value in response.headers.items()])
    connection = "" if keeps_alive and received.version == "1.1" else CONNECTION[keeps_alive]
    status = STATUS_LINES.get(response.status) or f"HTTP/1.1 {response.status} \r\n"  # some proxies answer 499
    return f"{status}date: {date}\r\n{framing}{headers}{connection}\r\n".encode("latin-1")


class HttpServer:
    """Answers requests on a socket until it is stopped.

    Attributes:
        application: handler of the requests.
        timeouts: limits of the waits for clients.
        max_connections: limit of open connections; further ones are refused.
        cancels_abandoned: whether a client that leaves cancels its request in progress.
        connections: the open connections.
        now: seconds of the event loop's clock, at the last check.
        date: `date` header of responses.
        is_stopping: whether each connection's next response is its last.
    """

    def __init__(
        self,
        application: HttpApplication,
        timeouts: Timeouts | None = None,
        max_connections: int = MAX_CONNECTIONS,
        cancels_abandoned: bool = False,
    ) -> None:
        self.application, self.timeouts, self.max_connections = application, timeouts or Timeouts(), max_connections
        self.cancels_abandoned = cancels_abandoned
        self.connections: set[Connection] = set()
        self.is_stopping, self._stopped = False, asyncio.Event()
        self.now, self.date = 0.0, ""

    async def serve(self, listener: socket.socket) -> None:
        """Answer until `stop` is called; then close idle connections and wait for the others' responses."""
        loop = asyncio.get_running_loop()
        self._check_deadlines(loop)
        server = await loop.create_server(lambda: Connection(self), sock=listener, backlog=socket.SOMAXCONN)
        await self._stopped.wait()
        server.close()
        self.is_stopping = True
        for connection in self.connections:
            connection.wake()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._drain(), self.timeouts.grace)

    def stop(self) -> None:
        """End `serve`."""
        self._stopped.set()

    async def _drain(self) -> None:
        while self.connections:
            await asyncio.sleep(0.01)

    def _check_deadlines(self, loop: asyncio.AbstractEventLoop) -> None:
        """Update the clock, wake connections past their deadline, and end requests of clients that have left."""
        loop.call_later(CHECK_SECONDS, self._check_deadlines, loop)
        self.now, self.date = loop.time(), formatdate(usegmt=True)
        for connection in self.connections:
            connection.check_client()
            if connection.deadline < self.now:
                connection.wake(TimeoutError())


async def serve(application: HttpApplication, listener: socket.socket) -> None:
    """Answer requests on a socket until a signal ends the process."""
    await serve_until_signal(HttpServer(application, max_connections=allow_connections()), listener)


async def serve_until_signal(server: HttpServer, listener: socket.socket) -> None:
    """Run a server on a socket until a signal ends the process."""
    loop = asyncio.get_running_loop()
    for signal_number in ENDING:
        loop.add_signal_handler(signal_number, server.stop)
    await server.serve(listener)


def allow_connections(files_each: int = 1) -> int:
    """Raise the process's limit of open files; return how many connections it allows, with so many files each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = max(soft, min(files_each * MAX_CONNECTIONS + OTHER_FILES, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return min(MAX_CONNECTIONS, (files - OTHER_FILES) // files_each)
