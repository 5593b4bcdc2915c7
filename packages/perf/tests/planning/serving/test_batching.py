"""Continuous batching: what the formulas say of a queue, and a queue that is played through."""

import itertools
import math
import random
from collections import deque
from collections.abc import Iterator

import pytest

from nightshift_perf.hardware import gpu
from nightshift_perf.planning.serving.batching import RequestLength, estimate_wait_p99, operate
from nightshift_perf.planning.serving.replica import ForwardPass, ServingReplica
from nightshift_perf.planning.serving.shapes import read_shape

LLAMA = read_shape("llama3-70b")
H100 = ServingReplica(LLAMA, gpu("h100-80gb"), "fp8", 4)
CHAT = RequestLength(1024, 256)


def simulate(replica: ServingReplica, request: RequestLength, rate: float, count: int) -> Iterator[float]:
    """Yield the time to the first token of each of so many requests, which arrive at random moments."""
    moments = random.Random(0)
    arrivals = deque(itertools.accumulate(moments.expovariate(rate) for _ in range(count)))
    waiting: deque[float] = deque()
    left: list[int] = []  # tokens that each decoding request still gets
    now, context = 0.0, request.prompt + request.output / 2
    while arrivals or waiting or left:
        if not waiting and not left:
            now = max(now, arrivals[0])
        while arrivals and arrivals[0] <= now:
            waiting.append(arrivals.popleft())
        arrived = waiting.popleft() if waiting else None
        now += replica.estimate_seconds(ForwardPass(request.prompt if arrived is not None else 0, len(left), context))
        left = [tokens - 1 for tokens in left if tokens > 1]
        if arrived is not None:
            left.append(request.output - 1)
            yield now - arrived + replica.efficiency.dispatch * replica.model.layers


@pytest.mark.parametrize(
    ("replica", "length", "concurrency"),
    (
        (H100, CHAT, 4),
        (H100, CHAT, 64),
        (ServingReplica(LLAMA, gpu("b200-180gb"), "fp8", 1), CHAT, 32),
        (ServingReplica(LLAMA, gpu("h200-141gb"), "fp8", 4), RequestLength(4096, 256), 8),
        (ServingReplica(LLAMA, gpu("a100-80gb"), "bf16", 8), RequestLength(256, 64), 16),
        (ServingReplica(read_shape("llama3-8b"), gpu("h100-80gb"), "bf16", 1), RequestLength(512, 512), 128),
    ),
)
def test_a_queue_that_is_played_through_is_as_slow_as_planned_or_up_to_a_third_faster(
    replica: ServingReplica, length: RequestLength, concurrency: int
) -> None:
    point = operate(replica, length, concurrency)

    times = sorted(simulate(replica, length, point.rate, 1500))

    assert 2 / 3 < times[len(times) * 99 // 100] / point.first_token_p99 < 1.05


def test_a_lone_request_waits_for_nobody_and_then_for_its_own_tokens_only() -> None:
    alone = operate(H100, CHAT, 1)

    assert alone.first_token == pytest.approx(alone.idle_first_token)
    assert alone.token == H100.estimate_seconds(ForwardPass(0, 1, 1024 + 128))
    assert alone.rate == pytest.approx(1 / (alone.first_token + 255 * alone.token))


def test_more_requests_in_flight_give_more_tokens_and_each_of_them_later() -> None:
    points = [operate(H100, CHAT, concurrency) for concurrency in (1, 4, 16, 64, 256)]

    for figures in zip(*((point.rate, point.token, point.first_token_p99) for point in points), strict=True):
        assert list(figures) == sorted(figures)


def test_prompts_that_alone_fill_a_gpu_make_a_queue_without_an_end() -> None:
    assert estimate_wait_p99(0.1, 10) == math.inf
    assert estimate_wait_p99(0.1, 0.05) == 0  # 99 of 100 find nobody before them
    assert estimate_wait_p99(0.1, 5) == pytest.approx(0.1 * math.log(50))


def test_a_request_of_one_token_has_no_further_ones() -> None:
    assert operate(H100, RequestLength(1024, 1), 1).token == 0


def test_more_requests_than_tokens_of_an_answer_are_read_several_at_a_pass() -> None:
    short = RequestLength(128, 128)
    few, many = operate(H100, short, 128), operate(H100, short, 1024)

    assert many.rate > few.rate
    mixed = H100.estimate_seconds(ForwardPass(128, 1024 - 8, 128 + 64, 8))
    assert many.rate == pytest.approx(1024 / (128 * mixed), rel=0.05)
    assert H100.estimate_seconds(ForwardPass(128, 1016, 192, 8)) < 8 * H100.estimate_seconds(ForwardPass(128, 127, 192))
