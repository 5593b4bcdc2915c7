"""Sends requests on schedule and records when each chunk of their streams arrives.

Each has a connection of its own, so that none waits for another's; its latencies count from when it was due, not from
when it was sent, so that a stall is seen by all that were due meanwhile (coordinated omission).
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

import httptools
import msgspec

from nightshift.language.streams.workload import PlannedRequest

PATIENCE = 60.0  # seconds after which a stream without another byte is an error
DATA, DONE = b"data:", b"[DONE]"


class StreamDelta(msgspec.Struct):
    """A piece of a chat's answer."""

    content: str | None = None


class StreamChoice(msgspec.Struct):
    """A piece of an answer."""

    text: str | None = None
    delta: StreamDelta | None = None

    @property
    def has_text(self) -> bool:
        """Whether it holds at least a part of a token."""
        return bool(self.text or (self.delta and self.delta.content))


class StreamUsage(msgspec.Struct):
    """Tokens, as the server counts them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class StreamEvent(msgspec.Struct):
    """An event of a stream."""

    choices: list[StreamChoice] = []
    usage: StreamUsage | None = None
    error: msgspec.Raw | None = None


@dataclass
class StreamRecord:
    """The timing and outcome of a request; times are seconds of the event loop's clock.

    Attributes:
        due: scheduled time.
        sent: time of sending; None without a connection.
        pieces: arrival time of each event with text.
        ended: time of the last byte or of the error.
        usage: token counts; zeros if the server reports none.
        error: None for a completed stream; else its HTTP status, `connection`, `error`, `cut` or `unanswered`.
    """

    due: float
    sent: float | None = None
    pieces: list[float] = field(default_factory=list)
    ended: float = 0.0
    usage: StreamUsage = field(default_factory=StreamUsage)
    error: str | None = None


@dataclass(frozen=True)
class Target:
    """The API to send requests to.

    Attributes:
        url: URL of the server, without a path.
        path: path of the API.
        token: bearer token; None without one.
    """

    url: str
    path: str
    token: str | None = None

    @property
    def address(self) -> tuple[str, int, ssl.SSLContext | None]:
        """Host, port, and TLS where the URL asks for it."""
        parts = urlsplit(self.url)
        is_tls = parts.scheme == "https"
        return (
            parts.hostname or "",
            parts.port or (443 if is_tls else 80),
            ssl.create_default_context() if is_tls else None,
        )

    def head(self, length: int) -> bytes:
        """Return the head of a request with a body of some bytes."""
        lines = [f"POST {self.path} HTTP/1.1", f"Host: {urlsplit(self.url).netloc}", "Content-Type: application/json"]
        lines += [f"Authorization: Bearer {self.token}"] if self.token else []
        return "\r\n".join([*lines, f"Content-Length: {length}", "Connection: close", "", ""]).encode()


class StreamProtocol(asyncio.Protocol):
    """Reads one answer."""

    def __init__(self, record: StreamRecord) -> None:
        self.record, self.finished = record, asyncio.get_running_loop().create_future()
        self._loop, self._parser, self._rest = asyncio.get_running_loop(), httptools.HttpResponseParser(self), b""
        self._is_done = False

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self.record.ended = self._loop.time()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, msgspec.DecodeError):
            self.end("error")

    def on_body(self, data: bytes) -> None:
        """Read the lines that are complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(DATA):
                self._read_event(line[len(DATA) :].strip())

    def on_message_complete(self) -> None:
        """End at the end of the body, whether or not the connection stays."""
        status = self._parser.get_status_code()
        if status != HTTPStatus.OK:
            self.end(str(status))
        else:
            self.end(None if self._is_done else "cut")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """End a stream that has not ended; one without a length ends so."""
        self.end(None if self._is_done else "cut" if self.record.pieces else "connection")

    def end(self, error: str | None) -> None:
        """End the record, once."""
        if not self.finished.done():
            self.record.error = error
            self.finished.set_result(None)

    def _read_event(self, data: bytes) -> None:
        if data == DONE:
            self._is_done = True
            return
        event = msgspec.json.decode(data, type=StreamEvent)
        if event.error is not None:
            self.end("error")
        if any(choice.has_text for choice in event.choices):
            self.record.pieces.append(self.record.ended)
        self.record.usage = event.usage or self.record.usage


async def run_open_loop(
    target: Target, requests: Sequence[PlannedRequest], patience: float = PATIENCE
) -> list[StreamRecord]:
    """Send each request when it is due, and wait for all streams; return a record each, with times from the start."""
    started = asyncio.get_running_loop().time()
    tasks = [asyncio.create_task(_send_at(target, request, started, patience)) for request in requests]
    return [await task for task in tasks]


async def _send_at(target: Target, request: PlannedRequest, started: float, patience: float) -> StreamRecord:
    record = StreamRecord(due=started + request.due)
    loop = asyncio.get_running_loop()
    await asyncio.sleep(record.due - loop.time())
    try:
        await _stream(target, request.body, record, patience)
    except OSError:
        record.error = "connection"
    record.ended = record.ended or loop.time()
    return record


async def _stream(target: Target, body: bytes, record: StreamRecord, patience: float) -> None:
    loop = asyncio.get_running_loop()
    host, port, tls = target.address
    transport, protocol = await loop.create_connection(lambda: StreamProtocol(record), host, port, ssl=tls)
    record.sent = loop.time()
    transport.write(target.head(len(body)) + body)
    try:
        while not protocol.finished.done():
            before = record.ended
            await asyncio.wait([protocol.finished], timeout=patience)
            if record.ended == before:
                protocol.end("unanswered")
    finally:
        transport.close()
