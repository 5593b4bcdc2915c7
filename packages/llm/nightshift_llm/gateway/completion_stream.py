"""A completion's stream: whole events in, whole events out, and the usage that they report."""

import msgspec

from nightshift.http.client import ExchangeError, InvalidResponseError
from nightshift.http.pool import HttpConnection
from nightshift.http.sse import DONE, SseReader, read_data
from nightshift_llm.gateway.answers import AnswerOpening
from nightshift_llm.gateway.completions import StreamOptions
from nightshift_llm.gateway.errors import DECODE_ERRORS, describe_error
from nightshift_llm.gateway.ledger import TokenUsage

LAST_EVENT = b"data: %b\n\n" % DONE
FIELDS = (b":", b"data", b"event", b"id", b"retry")  # beginnings of an event's lines
INTERRUPTED = "the replica has failed in the middle of the stream; its text is incomplete; send the request again"


class Chunk(msgspec.Struct):
    """The fields of a completion chunk that the gateway reads."""

    usage: TokenUsage | None = None
    choices: list[msgspec.Raw] = []


class CompletionStream:
    """Reads the events of a completion.

    Attributes:
        usage: last reported usage; None before the first.
        opening: opening of the answer.
        is_done: whether the stream ended regularly.
    """

    def __init__(self, connection: HttpConnection, options: StreamOptions, completions: int = 1) -> None:
        """Begin a stream.

        Args:
            connection: connection with the response.
            options: the client's stream options; usage that it did not request is stripped.
            completions: completions in the stream; the usage beside a word counts only one of them.
        """
        self._connection, self._options, self._completions = connection, options, completions
        self._reader = SseReader()
        self._has_data = False  # comments before the first data only keep the connection alive
        self.usage: TokenUsage | None = None
        self.opening = AnswerOpening()
        self.is_done = False

    async def read(self) -> bytes:
        """Return the events that have arrived, without the final `[DONE]`; empty after the last one.

        Raises:
            ExchangeError: when the stream ends without `[DONE]`.
            InvalidResponseError: when it is not a stream of events, or one of them is too large.
        """
        events = b""
        while not events and not self.is_done:
            piece = await self._connection.read()
            events = b"".join(map(self._convert, self._split(piece)))
            if not piece and not self.is_done:
                raise ExchangeError("the stream has ended without [DONE]")
        return events

    def _split(self, piece: bytes) -> list[bytes]:
        try:
            return self._reader.feed(piece)
        except ValueError as error:
            raise InvalidResponseError(str(error)) from None

    def _convert(self, event: bytes) -> bytes:
        """Return an event for the client; empty to drop it."""
        data = read_data(event)
        if data == DONE:
            self.is_done = True
            return b""
        self._has_data = self._has_data or bool(data)
        if not self._has_data:
            _check_fields(event)
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


def _check_fields(event: bytes) -> None:
    """Refuse a page or an object in place of events.

    Raises:
        InvalidResponseError: with the beginning of the first line that is not a field.
    """
    if odd := [line for line in event.splitlines() if line and not line.startswith(FIELDS)]:
        raise InvalidResponseError(f"it answers no stream of events: {odd[0][:200].decode(errors='replace')}")


def _without_usage(event: bytes, fields: dict[str, msgspec.Raw]) -> bytes:
    others = [line for line in event.splitlines() if not line.startswith(b"data:")]
    del fields["usage"]
    return b"\n".join([*others, b"data: " + msgspec.json.encode(fields)])


def encode_interruption() -> bytes:
    """Return the event that ends an interrupted stream, in place of `[DONE]`."""
    return b"data: " + msgspec.json.encode({"error": describe_error(502, INTERRUPTED, "stream_interrupted")}) + b"\n\n"
