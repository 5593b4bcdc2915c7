"""Streams of events, cut anywhere."""

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.http.client import ExchangeError
from nightshift_llm.gateway.completion_stream import CompletionStream, encode_interruption
from nightshift_llm.gateway.completions import StreamOptions
from nightshift_llm.gateway.ledger import TokenUsage

USAGE = {"prompt_tokens": 7, "completion_tokens": 2}
WORDS = [{"choices": [{"text": word}], "usage": None} for word in ("one", 'say "usage"')]
LAST = {"choices": [], "usage": USAGE}


class Pieces:
    """A response that arrives in pieces."""

    def __init__(self, body: bytes, sizes: list[int]) -> None:
        self.body, self.sizes, self.start = body, sizes, 0

    async def read(self) -> bytes:
        size = self.sizes.pop(0) if self.sizes else len(self.body)
        self.start += size
        return self.body[self.start - size : self.start]


def encode(*chunks: dict[str, Any], newline: str = "\n", done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(chunk)}" for chunk in chunks] + ["data: [DONE]"] * done
    return "".join(f"{line}{newline * 2}" for line in lines).encode()


def read(body: bytes, sizes: list[int] | None = None, **options: bool) -> tuple[list[Any], CompletionStream]:
    """Read a stream to its end; return the events that the client sees, and the reader."""
    reader = CompletionStream(Pieces(body, sizes or []), StreamOptions(**options))

    async def run() -> bytes:
        text = b""
        while events := await reader.read():
            text += events
        return text

    text = asyncio.run(run()).decode()
    return [json.loads(event.removeprefix("data: ")) for event in text.split("\n\n")[:-1]], reader


@given(st.lists(st.integers(1, 40), max_size=60), st.sampled_from(["\n", "\r\n"]))
def test_events_arrive_whole_and_once_wherever_a_stream_is_cut(sizes, newline) -> None:
    events, reader = read(encode(*WORDS, LAST, newline=newline), sizes, include_usage=True)
    assert (events, reader.is_done, reader.usage) == ([*WORDS, LAST], True, TokenUsage(7, 2))


def test_the_usage_is_left_out_for_a_client_that_has_not_asked_for_it() -> None:
    running = [chunk | {"usage": USAGE} for chunk in WORDS]
    bare = [{"choices": chunk["choices"]} for chunk in WORDS]
    for options, events in (
        ({}, bare),
        ({"include_usage": True}, [*bare, LAST]),
        ({"continuous_usage_stats": True}, running),
        ({"include_usage": True, "continuous_usage_stats": True}, [*running, LAST]),
    ):
        seen, reader = read(encode(*running, LAST), **options)
        assert (seen, reader.usage) == (events, TokenUsage(7, 2))


def test_a_stream_without_its_end_is_an_error_and_its_last_usage_is_known() -> None:
    reader = CompletionStream(
        Pieces(encode(WORDS[0] | {"usage": USAGE}, done=False) + b'data: {"cho', []), StreamOptions()
    )
    assert b"one" in asyncio.run(reader.read())
    with pytest.raises(ExchangeError, match="without"):
        asyncio.run(reader.read())
    assert (reader.is_done, reader.usage) == (False, TokenUsage(7, 2))


def test_an_event_that_is_no_json_is_passed_on_as_it_is() -> None:
    body = b'data: one\n\n: "usage" ping\n\ndata: "usage"\n\n'
    assert read_once(body + b"data: [DONE]\n\n")[0] == body


def read_once(body: bytes, sizes: list[int] | None = None) -> tuple[bytes, CompletionStream]:
    reader = CompletionStream(Pieces(body, sizes or []), StreamOptions())
    return asyncio.run(reader.read()), reader


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (
            b'id: 1\nevent: chunk\ndata: {"usage": %b, "choices": [1]}',
            b'id: 1\nevent: chunk\ndata: {"choices":[1]}\n\n',
        ),
        (b': ping\ndata:{"choices": [1],\ndata: "usage": %b}', b': ping\ndata: {"choices":[1]}\n\n'),
        (b'data: {"choices": [], "usage": %b}\nid: 2', b""),
    ],
)
def test_data_is_read_wherever_it_is_in_an_event(body, seen) -> None:
    events, reader = read_once(body % json.dumps(USAGE).encode() + b"\n\nid: 3\ndata: [DONE]\n\n")
    assert (events, reader.usage, reader.is_done) == (seen, TokenUsage(7, 2), True)


def test_the_last_event_may_lack_its_empty_line() -> None:
    for end in (b"", b"\n", b"\r\n"):
        events, reader = read(encode(*WORDS, done=False) + b"data: [DONE]" + end, [9] * 20)
        assert (events, reader.is_done) == (WORDS, True)


def test_a_comment_before_the_first_data_is_no_first_byte() -> None:
    reader = CompletionStream(Pieces(b": ping\n\n: ping\n\n", [8]), StreamOptions())
    with pytest.raises(ExchangeError):
        asyncio.run(reader.read())


def test_a_large_event_in_small_pieces_is_scanned_once() -> None:
    body = b"data: " + b"x" * 4_000_000
    started = time.process_time()
    events, _ = read_once(body + b"\n\ndata: [DONE]\n\n", [1000] * 5000)
    assert events == body + b"\n\n"
    assert time.process_time() - started < 5


def test_an_interruption_is_an_error_that_openai_clients_raise() -> None:
    error = json.loads(encode_interruption().removeprefix(b"data: "))["error"]
    assert (error["type"], error["code"]) == ("server_error", "stream_interrupted")
