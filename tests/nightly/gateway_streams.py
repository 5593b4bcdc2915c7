"""Streams that are checked word by word, as a client reads them."""

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from benchmarks.gateway.load import StreamChunk
from nightshift.http.client import ExchangeError, ServerAddress, encode_request
from nightshift.http.pool import ConnectionPool
from nightshift.http.sse import SseReader, read_data


class StreamEnd(StrEnum):
    """How a stream has ended for its client."""

    DONE = "complete"
    ERROR = "an error event"
    BROKEN = "a broken connection"
    SILENT = "cut silently"
    REFUSED = "refused"


@dataclass
class CheckedStream:
    """A stream: its words, whether one came twice or is missing, its tokens, and its end."""

    words: list[str] = field(default_factory=list)
    tokens: int = 0
    end: StreamEnd = StreamEnd.SILENT
    refusal: bytes = b""

    @property
    def is_repeated(self) -> bool:
        """Whether the words are other than w0, w1, w2 and so on."""
        return self.words != [f"w{number}" for number in range(len(self.words))]

    def add(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.end = StreamEnd.DONE
        elif b'"error"' in data:
            self.end = StreamEnd.ERROR
        elif data:
            chunk = msgspec.json.decode(data, type=StreamChunk)
            self.words += "".join(choice.delta.content or "" for choice in chunk.choices).split()
            self.tokens = chunk.usage.total_tokens if chunk.usage else self.tokens


async def read_stream(pool: ConnectionPool, prompt: str, tokens: int, key: str = "") -> CheckedStream:
    """Ask for a stream, and read it to its end."""
    stream, reader = CheckedStream(), SseReader()
    body = {"model": "tiny", "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "stream": True}
    content = msgspec.json.encode(body | {"stream_options": {"include_usage": True}})
    request = encode_request("POST", "/v1/chat/completions", "router", content, key)
    connection = None
    try:
        connection = await pool.acquire()
        await connection.send(request)
        if connection.status != 200:
            stream.end, stream.refusal = StreamEnd.REFUSED, await connection.read_all()
            return stream
        while piece := await connection.read():
            for event in reader.feed(piece):
                stream.add(read_data(event))
    except ExchangeError:
        stream.end = StreamEnd.BROKEN
    finally:
        if connection:
            pool.release(connection)
    return stream


async def read_streams(port: int, number: int, tokens: int, clients: int) -> list[CheckedStream]:
    """Read streams by so many clients at a time."""
    pool, prompts = ConnectionPool(ServerAddress("127.0.0.1", port)), iter(range(number))
    streams: list[CheckedStream] = []

    async def work() -> None:
        streams.extend([await read_stream(pool, f"stream {prompt}", tokens) for prompt in prompts])

    await asyncio.gather(*(work() for _ in range(clients)))
    pool.close()
    return streams
