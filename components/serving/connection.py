"""HTTP connections as uvicorn has them, for answers that are whole: one write each, since a write wakes the client."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

Message = Any  # of ASGI: uvicorn has a type for each


class Exchange:
    """A request whose answer is sent whole, with its length among the headers."""

    __slots__ = ("_cycle", "_start")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._start: Message = None

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


class Connection(HttpToolsProtocol):  # type: ignore[misc] # uvicorn is not read
    """A connection with one timer for all its requests, which looks now and then for how long nothing has come."""

    _active = 0.0  # when the last answer went out, in seconds of the event loop

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
        exchange = Exchange(cycle)
        super()._start_asgi_task(cycle, lambda scope, *_: app(scope, exchange.receive, exchange.send))
