"""Rows of many requests in few calls."""

import asyncio
import time

import numpy as np
import pytest

from nightshift.http.errors import OverloadedError
from nightshift.models.tensors import Tensors, by_name, row_count
from nightshift.serving.batching import Batcher, Scores, ServerLimits
from nightshift.serving.errors import NoScoreError


class Graph:
    """Doubles the only column, and notes the size of each call after the two that measure it."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.all, self.broken = seconds, [], False

    def __call__(self, inputs: Tensors) -> Scores:
        time.sleep(self.seconds)
        self.all.append(row_count(inputs))
        if self.broken:
            raise ZeroDivisionError
        return inputs["inputs"][:, 0] * 2

    @property
    def calls(self) -> list[int]:
        return self.all[2:]


def rows(*values: float) -> Tensors:
    return by_name(np.array(values, np.float32).reshape(-1, 1))


def together(graph: Graph, limits: ServerLimits, *requests: Tensors) -> tuple[list[list[float]], Batcher]:
    """Have requests come in one turn of the loop; return their answers."""

    async def ask() -> tuple[list[list[float]], Batcher]:
        batcher = Batcher(graph, rows(0), limits)
        scores = await asyncio.gather(*(batcher.score(batch) for batch in requests))
        return [row.tolist() for row in scores], batcher

    return asyncio.run(ask())


@pytest.fixture(params=[0.0, 0.005], ids=["in the loop", "in a thread"])
def graph(request) -> Graph:
    return Graph(request.param)


def test_what_comes_at_once_is_one_call_and_each_gets_its_own(graph) -> None:
    scores, batcher = together(graph, ServerLimits(), rows(1, 2), rows(3), rows(4, 5, 6))

    assert scores == [[2, 4], [6], [8, 10, 12]]
    assert graph.calls == [6]
    counts = batcher.statistics
    assert (counts.requests, counts.rows, counts.calls, counts.failed) == (3, 6, 1, 0)
    assert counts.queue_ns > 0
    assert counts.compute_ns > 0


def test_a_call_has_no_more_rows_than_allowed_and_the_order_is_kept(graph) -> None:
    scores, _ = together(graph, ServerLimits(rows=4), rows(1, 2, 3), rows(4, 5), rows(6), rows(7, 8, 9, 10))

    assert scores == [[2, 4, 6], [8, 10], [12], [14, 16, 18, 20]]
    assert graph.calls == [3, 3, 4]


def test_what_would_wait_too_long_is_told_to_come_again(graph) -> None:
    async def ask() -> None:
        batcher = Batcher(graph, rows(0), ServerLimits(rows=4, queue=5))
        first = batcher.score(rows(1, 2, 3, 4))
        with pytest.raises(OverloadedError, match="4 rows wait already; try again later"):
            batcher.score(rows(5, 6))
        assert (await first).tolist() == [2, 4, 6, 8]
        assert (await batcher.score(rows(5, 6))).tolist() == [10, 12]

    asyncio.run(ask())


def test_a_call_waits_for_more_rows_until_it_is_full_or_the_delay_is_over() -> None:
    graph = Graph()

    async def ask() -> None:
        batcher = Batcher(graph, rows(0), ServerLimits(rows=3, delay=600))
        first = batcher.score(rows(1))
        await asyncio.sleep(0.01)
        assert not graph.calls
        await asyncio.gather(first, batcher.score(rows(2, 3)))
        short = Batcher(graph, rows(0), ServerLimits(rows=3, delay=0.001))
        assert (await short.score(rows(4))).tolist() == [8]

    asyncio.run(ask())
    assert graph.calls[0] == 3


def test_a_call_that_fails_is_told_to_each_of_its_requests_and_the_next_one_is_made(graph) -> None:
    async def ask() -> None:
        batcher = Batcher(graph, rows(0), ServerLimits())
        graph.broken = True
        outcomes = await asyncio.gather(batcher.score(rows(1)), batcher.score(rows(2)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError] * 2
        graph.broken = False
        assert (await batcher.score(rows(3))).tolist() == [6]
        assert batcher.statistics.failed == 2

    asyncio.run(ask())


def test_inputs_that_cannot_be_joined_fail_their_requests_and_not_the_next(graph) -> None:
    async def ask() -> None:
        batcher = Batcher(graph, rows(0), ServerLimits())
        other = {"another": rows(2)["inputs"]}
        outcomes = await asyncio.gather(batcher.score(rows(1)), batcher.score(other), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [KeyError] * 2
        assert (await batcher.score(rows(3))).tolist() == [6]

    asyncio.run(ask())


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_row_without_a_finite_score_is_named_and_the_requests_beside_it_are_answered(graph, wrong) -> None:
    async def ask() -> None:
        batcher = Batcher(graph, rows(0), ServerLimits())
        bad, good = batcher.score(rows(1, wrong), "events[{}]".format), batcher.score(rows(2))
        error, scores = await asyncio.gather(bad, good, return_exceptions=True)
        assert (type(error), error.details, scores.tolist()) == (NoScoreError, {"field": "events[1]"}, [4])

    asyncio.run(ask())


def test_a_client_that_has_gone_takes_nothing_from_the_others(graph) -> None:
    async def ask() -> None:
        batcher = Batcher(graph, rows(0), ServerLimits())
        gone, stays = asyncio.ensure_future(batcher.score(rows(1))), batcher.score(rows(2))
        await asyncio.sleep(0)
        gone.cancel()
        assert (await stays).tolist() == [4]

    asyncio.run(ask())


def test_requests_that_come_during_a_slow_call_are_joined_in_the_next_one() -> None:
    graph = Graph(0.05)

    async def ask() -> None:
        batcher = Batcher(graph, rows(0), ServerLimits())
        first = batcher.score(rows(1))
        while not batcher._is_calling:
            await asyncio.sleep(0)
        await asyncio.gather(first, *(batcher.score(rows(value)) for value in (2, 3, 4)))

    asyncio.run(ask())
    assert graph.calls == [1, 3]
