"""Sends requests on schedule and records when each chunk of their streams arrives.

Each has a connection of its own, so that none waits for another's; its latencies count from when it was due, not from
when it was sent, so that a stall is seen by all that were due meanwhile (coordinated omission).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec

from nightshift.http.client import ExchangeError, ServerAddress, encode_request
from nightshift.http.pool import connect
from nightshift.http.sse import DONE, SseReader, read_data
from nightshift_llm.streams.workload import PlannedRequest

PATIENCE = 60.0  # seconds after which a stream without another byte is an error
CLOSE = {"connection": "close"}


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

    def add(self, data: bytes) -> None:
        """Note the data of an event that has arrived; nothing of a comment, which has none.

        Raises:
            ValueError: when the event reports an error.
            msgspec.DecodeError: when it is not an event.
        """
        if not data:
            return
        event = msgspec.json.decode(data, type=StreamEvent)
        if event.error is not None:
            raise ValueError("the server reports an error")
        if any(choice.has_text for choice in event.choices):
            self.pieces.append(self.ended)
        self.usage = event.usage or self.usage


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
    def address(self) -> ServerAddress:
        """The address of the server."""
        return ServerAddress.from_url(self.url)

    def encode(self, body: bytes) -> bytes:
        """Return a request over a connection of its own."""
        return encode_request("POST", self.path, self.address.authority, body, self.token or "", CLOSE)


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
    except TimeoutError:
        record.error = "unanswered"
    except (msgspec.DecodeError, ValueError):
        record.error = "error"
    except ExchangeError:
        record.error = "cut" if record.pieces else "connection"
    record.ended = record.ended or loop.time()
    return record


async def _stream(target: Target, body: bytes, record: StreamRecord, patience: float) -> None:
    loop = asyncio.get_running_loop()
    connection, reader = await connect(target.address, patience), SseReader()
    record.sent = loop.time()
    try:
        async with asyncio.timeout(patience):
            await connection.send(target.encode(body))
        if connection.status != HTTPStatus.OK:
            record.error = str(connection.status)
            return
        piece = None
        while piece != b"":
            async with asyncio.timeout(patience):
                piece = await connection.read()
            record.ended = loop.time()
            for data in map(read_data, reader.feed(piece)):
                if data == DONE:
                    return
                record.add(data)
        record.error = "cut"
    finally:
        connection.close()
