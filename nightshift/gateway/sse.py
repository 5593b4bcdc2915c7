"""Streams of server-sent events: whole events in, whole events out, and the usage that they report."""

import re

import msgspec

from nightshift.gateway.answers import AnswerOpening
from nightshift.gateway.completions import StreamOptions
from nightshift.gateway.errors import DECODE_ERRORS, describe_error
from nightshift.gateway.ledger import TokenUsage
from nightshift.gateway.upstream import InvalidAnswerError, UpstreamConnection, UpstreamError

END_OF_EVENT = re.compile(rb"\r?\n\r?\n")
DONE = b"data: [DONE]\n\n"
MAX_EVENT = 16 * 1024 * 1024  # bytes
FIELDS = (b":", b"data", b"event", b"id", b"retry")  # beginnings of an event's lines
INTERRUPTED = "the replica has failed in the middle of the stream; its text is incomplete; send the request again"


class Chunk(msgspec.Struct):
    """The fields of a completion chunk that the gateway reads."""

    usage: TokenUsage | None = None
    choices: list[msgspec.Raw] = []


class SseReader:
    """Reads the events of a completion.

    Attributes:
        usage: last reported usage; None before the first.
        opening: opening of the answer.
        is_done: whether the stream ended regularly.
    """

    def __init__(self, connection: UpstreamConnection, options: StreamOptions, completions: int = 1) -> None:
        """Begin a stream.

        Args:
            connection: connection with the response.
            options: the client's stream options; usage that it did not request is stripped.
            completions: completions in the stream; the usage beside a word counts only one of them.
        """
        self._connection, self._options, self._completions = connection, options, completions
        self._rest = bytearray()
        self._has_data = False  # comments before the first data only keep the connection alive
        self.usage: TokenUsage | None = None
        self.opening = AnswerOpening()
        self.is_done = False

    async def read(self) -> bytes:
        """Return the events that have arrived, without the final `[DONE]`; empty after the last one.

        Raises:
            UpstreamError: when the stream ends without `[DONE]`.
            InvalidAnswerError: when it is no stream of events, or one of them is too large.
        """
        events = b""
        while not events and not self.is_done:
            piece = await self._connection.read()
            events = b"".join(map(self._convert, self._split(piece) if piece else [bytes(self._rest)]))
            if not piece and not self.is_done:
                raise UpstreamError("the stream has ended without [DONE]")
        return events

    def _split(self, piece: bytes) -> list[bytes]:
        scanned = max(len(self._rest) - 3, 0)  # an end may have begun before
        self._rest += piece
        events, start = [], 0
        for end in END_OF_EVENT.finditer(self._rest, scanned):
            events.append(bytes(self._rest[start : end.start()]))
            start = end.end()
        del self._rest[:start]
        if len(self._rest) > MAX_EVENT:
            raise InvalidAnswerError(f"an event has more than {MAX_EVENT} bytes")
        return events

    def _convert(self, event: bytes) -> bytes:
        """Return an event for the client; empty to drop it."""
        lines = event.splitlines()
        data = b"\n".join([line[5:].strip() for line in lines if line.startswith(b"data:")])
        if data == b"[DONE]":
            self.is_done = True
            return b""
        self._has_data = self._has_data or bool(data)
        if not self._has_data:
            _check_fields(lines)
            return b""
        self.opening.add(data)
        if b'"usage"' in data:
            event = self._read_usage(event, data)
        return event + b"\n\n" if event else b""

    def _read_usage(self, event: bytes, data: bytes) -> bytes:
        try:
            chunk = msgspec.json.decode(data, type=Chunk)
            fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        except DECODE_ERRORS:  # a text that quotes the word
            return event
        is_last = not chunk.choices
        if is_last or self._completions == 1:
            self.usage = chunk.usage or self.usage
        if not chunk.usage or (self._options.include_usage if is_last else self._options.continuous_usage_stats):
            return event
        return b"" if is_last else _without_usage(event, fields)


def _check_fields(lines: list[bytes]) -> None:
    """Refuse a page or an object in place of events.

    Raises:
        InvalidAnswerError: with the beginning of the first line that no event has.
    """
    if odd := [line for line in lines if line and not line.startswith(FIELDS)]:
        raise InvalidAnswerError(f"it answers no stream of events: {odd[0][:200].decode(errors='replace')}")


def _without_usage(event: bytes, fields: dict[str, msgspec.Raw]) -> bytes:
    others = [line for line in event.splitlines() if not line.startswith(b"data:")]
    del fields["usage"]
    return b"\n".join([*others, b"data: " + msgspec.json.encode(fields)])


def encode_interruption() -> bytes:
    """Return the event that ends an interrupted stream, in place of `[DONE]`."""
    return b"data: " + msgspec.json.encode({"error": describe_error(502, INTERRUPTED, "stream_interrupted")}) + b"\n\n"
