"""HTTP connections as uvicorn has them, for answers that are whole: one write each, since a write wakes the client."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from components.serving.replies import Reply

Message = Any  # of ASGI: uvicorn has a type for each
Application = Callable[..., Coroutine[Any, None, None]]
BLANK_LINE = b"\r\n\r\n"  # ends a head
MOST_KNOWN = 16  # heads of a connection: bodies have many lengths, and each has its own
UNKNOWN = 0, None
UNLIKE = frozenset({b"expect", b"transfer-encoding", b"upgrade"})  # these change what follows the head


class Exchange:
    """A request whose answer is sent whole, with its length among the headers.

    The application runs at once, and on whenever what it waits for is done. A task does the same and can be cancelled,
    which nobody does with a request; to make one takes as long as to parse a request.
    """

    __slots__ = ("_cycle", "_running", "_start")

    def __init__(self, cycle: RequestResponseCycle, app: Application) -> None:
        self._cycle = cycle
        self._start: Message = None
        self._running = app(cycle.scope, self.receive, self.send)

    def go_on(self, _: object = None) -> None:
        """Run until the application waits again, or ends."""
        try:
            waited = self._running.send(None)
        except StopIteration:
            return
        except Exception as error:  # uvicorn says so in the log and, where it still can, to the client
            self._running = self._cycle.run_asgi(partial(_fail, error))
            self.go_on()
            return
        if isinstance(waited, Reply):
            waited.then = self.go_on
        elif waited is None:  # for nothing: it lets others go first
            asyncio.get_running_loop().call_soon(self.go_on)
        else:
            waited._asyncio_future_blocking = False  # as tasks do: another request may wait for the same future
            waited.add_done_callback(self.go_on)

    async def receive(self) -> Message:
        """Return the body at once where it has come whole."""
        cycle = self._cycle
        if cycle.more_body or cycle.response_complete or cycle.disconnected:
            return await cycle.receive()
        return {"type": "http.request", "body": bytes(cycle.body), "more_body": False}

    async def send(self, message: Message) -> None:
        """Keep the head of the answer, and write it with the body."""
        cycle = self._cycle
        if self._start is None:
            self._start, cycle.response_started = message, True
            return
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        cycle.transport.write(self._answer(message["body"]))
        cycle.response_complete = True
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

    def _answer(self, body: bytes) -> bytes:
        cycle, start = self._cycle, self._start
        parts = [STATUS_LINE[start["status"]]]
        for name, value in (*cycle.default_headers, *start["headers"]):
            parts += name, b": ", value, b"\r\n"
        parts.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        if cycle.scope["method"] != "HEAD":
            parts.append(body)
        return b"".join(parts)


async def _fail(error: Exception, *_: object) -> None:
    raise error


class Connection(HttpToolsProtocol):  # type: ignore[misc] # uvicorn is not read
    """A connection that parses no head twice, and has one timer for all requests.

    A client's requests are mostly alike: where one comes whole, with the same head as another one before, byte by byte,
    what was made of that is used again.
    """

    cycle: RequestResponseCycle  # of the newest request
    _active = 0.0  # when the last answer went out, in seconds of the event loop
    _is_between = True  # whether all that has come was whole requests
    _begun = 0  # requests that were parsed

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        # head -> bytes of it and its body, and what was made of it
        self._known: dict[bytes, tuple[int, RequestResponseCycle]] = {}

    def data_received(self, data: bytes) -> None:
        """Begin with a request, or parse what has come of it."""
        end = data.find(BLANK_LINE) + len(BLANK_LINE)
        size, known = self._known.get(data[:end], UNKNOWN)
        if size == len(data) and self._is_between and self.cycle.response_complete:
            self.cycle = known
            known.body, known.on_response = data[end:], self.on_response_complete
            known.response_started = known.response_complete = False
            known.default_headers = self.server_state.default_headers
            Exchange(known, self.app).go_on()
            return
        is_first, begun = self._is_between, self._begun
        super().data_received(data)
        if is_first and self._is_between and self._begun == begun + 1:
            self._learn(data, end)

    def on_message_begin(self) -> None:
        """Begin to parse a request."""
        super().on_message_begin()
        self._is_between = False
        self._begun += 1

    def on_message_complete(self) -> None:
        """Know that a request has come whole."""
        super().on_message_complete()
        self._is_between = True

    def _learn(self, data: bytes, end: int) -> None:
        """Keep what was made of a request that has just come whole, if another one with its head will be like it."""
        is_whole = end + len(self.cycle.body) == len(data)
        if is_whole and not any(_is_unlike(*header) for header in self.headers):
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            self._known[data[:end]] = len(data), self.cycle

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for requests."""
        super().connection_made(transport)
        self._active = self.loop.time()
        self._watch(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        if self.timeout_keep_alive_task:
            self.timeout_keep_alive_task.cancel()

    def on_response_complete(self) -> None:
        """Answer the next request, where it has come already."""
        self._active = self.loop.time()
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection when nothing has come for too long, or look again later."""
        is_busy = self.cycle is not None and not self.cycle.response_complete
        idle = 0.0 if is_busy else self.loop.time() - self._active
        if idle < self.timeout_keep_alive:
            self._watch(self.timeout_keep_alive - idle)
        else:
            super().timeout_keep_alive_handler()

    def _watch(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _unset_keepalive_if_required(self) -> None:
        """Leave the timer: to cancel it and to set it again would take longer than to parse a request."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # not at once: of a request that is parsed, the body comes after this
        self.loop.call_soon(Exchange(cycle, app).go_on)


def _is_unlike(name: bytes, value: bytes) -> bool:
    """Return whether a header says more than one of a request that is read by its length and followed by others."""
    return name in UNLIKE or (name == b"connection" and value.lower() != b"keep-alive")
