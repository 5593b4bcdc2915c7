import asyncio
import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.runtime.errors import UserError
from nightshift_llm.streams.client import StreamRecord, StreamUsage, Target, run_open_loop
from nightshift_llm.streams.summary import StreamLimits, first_token_seconds, seconds_per_token, summarize
from nightshift_llm.streams.workload import Endpoint, Lengths, PlannedRequest, Workload
from nightshift_testkit.engines.stream_servers import (
    HEAD,
    Behavior,
    Write,
    chunk,
    event,
    piece,
    stream,
    streaming,
    usage,
)

CHAT = "/v1/chat/completions"
LIMITS = StreamLimits(first_token=100, per_token=20)


def run(behavior: Behavior, due: Sequence[float] = (0.0,), patience: float = 30.0) -> list[StreamRecord]:
    with streaming(behavior) as url:
        return asyncio.run(run_open_loop(Target(url, CHAT), [PlannedRequest(time, b"{}") for time in due], patience))


def test_tokens_are_timed_as_they_come() -> None:
    async def behavior(write: Write, number: int) -> None:
        await stream(write, 5, first=0.1, later=0.05)

    (record,) = run(behavior)
    assert (record.error, record.usage.completion_tokens, record.usage.prompt_tokens) == (None, 5, 7)
    assert len(record.pieces) == 5
    assert first_token_seconds(record) >= 0.1
    assert record.pieces[-1] - record.due >= 0.1 + 4 * 0.05
    assert seconds_per_token(record) == pytest.approx((record.pieces[-1] - record.pieces[0]) / 4)
    assert record.ended >= record.pieces[-1]


def test_a_stream_is_read_whole_wherever_it_is_cut_into_packets() -> None:
    text = piece("a") + piece("b\n\ndata: [DONE]") + usage(2) + "data: [DONE]\n\n"

    async def behavior(write: Write, number: int) -> None:
        await write(HEAD)
        for letter in text:
            await chunk(write, letter)
        await write("0\r\n\r\n")

    (record,) = run(behavior)
    assert (record.error, len(record.pieces), record.usage.completion_tokens) == (None, 2, 2)


def test_a_stall_is_seen_by_all_that_were_due_meanwhile() -> None:
    """A client that waits for its answers, or counts from when it sends, sees one slow stream."""
    lock = asyncio.Lock()

    async def behavior(write: Write, number: int) -> None:
        async with lock:
            await stream(write, 1, first=0.5 if number == 0 else 0.0)

    due = [0.01 * number for number in range(20)]
    records = run(behavior, due)
    assert all(first_token_seconds(record) >= 0.5 - 0.01 * number - 0.05 for number, record in enumerate(records))


def test_no_request_is_sent_before_it_is_due() -> None:
    async def behavior(write: Write, number: int) -> None:
        await stream(write, 1)

    due = [0.0, 0.1, 0.4]
    records = run(behavior, due)
    assert all(record.sent >= record.due for record in records)
    assert [record.due - records[0].due for record in records] == pytest.approx(due)


async def refuse(write: Write, number: int) -> None:
    await write("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}")


async def vanish(write: Write, number: int) -> None:
    pass


async def cut(write: Write, number: int) -> None:
    await write(HEAD)
    await chunk(write, piece("word"))


async def end_early(write: Write, number: int) -> None:
    await write(HEAD)
    await chunk(write, piece("word"))
    await write("0\r\n\r\n")


async def report_error(write: Write, number: int) -> None:
    await write(HEAD)
    await chunk(write, piece("word") + event({"error": {"message": "replica lost"}}))
    await write("0\r\n\r\n")


async def babble(write: Write, number: int) -> None:
    await write(HEAD)
    await chunk(write, "data: {\n\n")


async def stall(write: Write, number: int) -> None:
    await write(HEAD)
    await chunk(write, piece("word"))
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("behavior", "error"),
    [
        (refuse, "429"),
        (vanish, "connection"),
        (cut, "cut"),
        (end_early, "cut"),
        (report_error, "error"),
        (babble, "error"),
        (stall, "unanswered"),
    ],
)
def test_what_goes_wrong_is_counted_by_kind(behavior: Behavior, error: str) -> None:
    records = run(behavior, patience=0.3)
    assert [record.error for record in records] == [error]
    point = summarize(records, 1.0, LIMITS)
    assert (point.completed, point.errors, point.goodput, point.first_token_ms.p50) == (0, {error: 1}, 0.0, None)


def test_nobody_there_is_an_error_of_the_connection() -> None:
    with streaming(vanish) as url:
        pass
    (record,) = asyncio.run(run_open_loop(Target(url, CHAT), [PlannedRequest(0.0, b"{}")]))
    assert record.error == "connection"
    assert record.ended >= record.due


def record(due: float, first: float, gap: float, tokens: int, error: str | None = None) -> StreamRecord:
    pieces = [due + first + gap * number for number in range(tokens)]
    return StreamRecord(due, due, pieces, pieces[-1], StreamUsage(3, tokens), error)


def test_goodput_counts_what_kept_both_limits() -> None:
    good = record(0.0, first=0.05, gap=0.01, tokens=11)
    late = record(1.0, first=0.2, gap=0.01, tokens=11)
    slow = record(2.0, first=0.05, gap=0.03, tokens=11)
    single = record(3.0, first=0.05, gap=9.0, tokens=1)
    failed = record(3.5, first=0.01, gap=0.01, tokens=50, error="cut")
    point = summarize([good, late, slow, single, failed], 1.0, LIMITS)
    assert point.seconds == pytest.approx(4.0)
    assert point.goodput == pytest.approx(2 / 4)
    assert (point.sent, point.completed, point.errors) == (5, 4, {"cut": 1})
    assert (point.prompt_tokens, point.output_tokens) == (12, 34)
    assert point.output_tokens_per_second == pytest.approx(34 / 4)
    assert point.first_token_ms.p50 == pytest.approx(50)
    assert point.per_token_ms.p99 == pytest.approx(30)


def test_a_request_that_the_client_sends_late_has_waited_since_it_was_due() -> None:
    late = StreamRecord(due=0.0, sent=0.5, pieces=[1.0], ended=1.0, usage=StreamUsage(1, 1))
    point = summarize([late], 1.0, LIMITS)
    assert point.first_token_ms.p50 == point.total_ms.p50 == pytest.approx(1000)
    assert point.late_ms.p50 == pytest.approx(500)


def test_a_piece_of_several_tokens_counts_as_several() -> None:
    both = StreamRecord(0.0, 0.0, [1.0, 2.0], 2.0, StreamUsage(1, 5))
    assert seconds_per_token(both) == pytest.approx(0.25)


@given(low=st.integers(1, 50), more=st.integers(0, 50), seed=st.integers(0, 5))
def test_uniform_lengths_lie_between_their_bounds(low: int, more: int, seed: int) -> None:
    lengths = Lengths.parse("prompts", f"uniform:{low},{low + more}").draw(np.random.default_rng(seed), 200)
    assert low <= lengths.min() <= lengths.max() <= low + more


def test_lognormal_lengths_have_the_median_and_the_spread_that_they_are_named_by() -> None:
    lengths = Lengths.parse("outputs", "lognormal:200,0.5").draw(np.random.default_rng(0), 20_000)
    assert np.median(lengths) == pytest.approx(200, rel=0.03)
    assert np.log(lengths).std() == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize("text", ["0", "-3", "x", "uniform:5,2", "uniform:5", "lognormal:0,1", "lognormal:5,x", "5.5"])
def test_a_distribution_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=rf"^outputs is '{text}'; (allowed are N, uniform|give lengths)"):
        Lengths.parse("outputs", text)


def test_the_same_seed_sends_the_same_requests_and_another_one_others() -> None:
    def plan(seed: int) -> list[PlannedRequest]:
        lengths = Lengths.parse("prompts", "uniform:3,9")
        return Workload(Endpoint(CHAT, "m"), lengths, lengths, seed).plan(50, 1)

    assert plan(1) == plan(1) != plan(2)
    body = json.loads(plan(1)[0].body)
    assert 3 <= len(body["messages"][0]["content"].split()) <= 9
    assert 3 <= body["max_tokens"] <= 9
    assert (body["stream"], body["ignore_eos"], body["stream_options"]) == (True, True, {"include_usage": True})


def test_completions_get_a_prompt() -> None:
    assert json.loads(Endpoint("/v1/completions", "m").encode("hello", 4))["prompt"] == "hello"


def test_no_stream_waits_for_the_end_of_another() -> None:
    streams = 300
    barrier = asyncio.Event()

    async def behavior(write: Write, number: int) -> None:
        if number == streams - 1:
            barrier.set()
        await barrier.wait()
        await stream(write, 1)

    records = run(behavior, [0.0] * streams)
    assert {record.error for record in records} == {None}
