"""Batches the rows of waiting requests into one call of the graph."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from nightshift.http.errors import OverloadedError
from nightshift.http.futures import resolve
from nightshift.models.tensors import Tensors, concatenate, row_count
from nightshift.serving.errors import NoScoreError

Scores = npt.NDArray[np.float32]
Score = Callable[[Tensors], Scores]
Field = Callable[[int], str]

QUICK_SECONDS = 0.001  # shorter calls run in the event loop: a thread's hand-over takes about as long


@dataclass(frozen=True)
class ServerLimits:
    """The load that a server accepts.

    Attributes:
        rows: most rows of one call of the graph, and of a request.
        queue: most rows that wait for a call; a request beyond it is refused as overload.
        delay: seconds that a call may wait for more rows; 0: only rows that wait already are batched.
        body: most bytes of a request.
        reasons_ms: milliseconds that the reasons of a request may take.
    """

    rows: int = 1024
    queue: int = 8192
    delay: float = 0.0
    body: int = 8 * 2**20
    reasons_ms: float = 100.0


@dataclass
class Statistics:
    """Counts of a batcher.

    Attributes:
        requests: answered requests.
        rows: rows of these requests.
        calls: calls of the graph.
        failed: requests whose call failed.
        queue_ns: total time of requests before their call, nanoseconds.
        compute_ns: total time of requests in their call, nanoseconds.
        last_ms: time of the last answer, milliseconds since 1970; 0 before the first.
    """

    requests: int = 0
    rows: int = 0
    calls: int = 0
    failed: int = 0
    queue_ns: int = 0
    compute_ns: int = 0
    last_ms: int = 0

    @classmethod
    def total(cls, parts: "Sequence[Statistics]") -> "Statistics":
        """Return the sums of some counts, and the time of the last answer."""
        sums = {name: sum(getattr(part, name) for part in parts) for name in vars(parts[0])}
        return cls(**sums | {"last_ms": max(part.last_ms for part in parts)})


class _Waiting(msgspec.Struct):
    inputs: Tensors
    rows: int
    scores: "asyncio.Future[Scores]"
    field: Field
    since: int = msgspec.field(default_factory=time.perf_counter_ns)


class Batcher:
    """Calls one graph with the rows of many requests, in their order of arrival.

    One call runs at a time; later requests wait for the next. All but the call belongs to one event loop.
    """

    def __init__(self, score: Score, example: Tensors, limits: ServerLimits) -> None:
        """Time a call of the graph: slow ones run in a thread.

        Args:
            score: n rows -> (n,) or (n, classes).
            example: inputs of one row.
            limits: most rows of a call and of the queue.
        """
        self.statistics = Statistics()
        self._score, self._limits = score, limits
        self._queue: deque[_Waiting] = deque()
        self._queued = 0  # rows
        self._next: asyncio.Handle | None = None
        self._thread = None if _time_call(score, example) < QUICK_SECONDS else ThreadPoolExecutor(1, "graph")
        self._is_calling = False

    def score(self, inputs: Tensors, field: Field = "instances[{}]".format) -> "asyncio.Future[Scores]":
        """Score rows in a batch with those of other requests.

        Args:
            inputs: n rows, at most `ServerLimits.rows`.
            field: a row's index -> its name in the request.

        Returns:
            their scores, finite, (n,) or (n, classes), to be awaited; raises NoScoreError for a row without one.

        Raises:
            OverloadedError: when too many rows wait.
        """
        rows = row_count(inputs)
        if self._queued + rows > self._limits.queue:
            raise OverloadedError(f"{self._queued} rows wait already; try again later")
        scores: asyncio.Future[Scores] = self._loop.create_future()
        self._queue.append(_Waiting(inputs, rows, scores, field))
        self._queued += rows
        self._schedule()
        return scores

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # once: up to Python 3.11 that is a system call

    def _schedule(self) -> None:
        """Schedule the next call: at the end of this turn of the loop or, while the batch has room, after the delay."""
        if self._is_calling or not self._queue:
            return
        waits = self._limits.delay > 0 and self._queued < self._limits.rows
        if self._next is None:
            delay = self._limits.delay
            self._next = self._loop.call_later(delay, self._call) if waits else self._loop.call_soon(self._call)
        elif self._limits.delay and not waits:
            self._next.cancel()
            self._next = self._loop.call_soon(self._call)

    def _call(self) -> None:
        self._next, self._is_calling = None, True
        batch, began = self._pop_batch(), time.perf_counter_ns()
        if self._thread:
            call = self._loop.run_in_executor(self._thread, _try, self._score, batch)
            call.add_done_callback(lambda call: self._answer(batch, began, call.result()))
        else:
            self._answer(batch, began, _try(self._score, batch))

    def _pop_batch(self) -> list[_Waiting]:
        """Remove the oldest requests whose rows fit into a call, at least one, from the queue."""
        batch = [self._queue.popleft()]
        size = batch[0].rows
        while self._queue and size + self._queue[0].rows <= self._limits.rows:
            batch.append(self._queue.popleft())
            size += batch[-1].rows
        self._queued -= size
        return batch

    def _answer(self, batch: list[_Waiting], began: int, outcome: Scores | Exception) -> None:
        self._is_calling = False
        self._count(batch, began, isinstance(outcome, Exception))
        first, is_finite = 0, not isinstance(outcome, Exception) and bool(np.isfinite(outcome).all())
        for waiting in batch:
            last = first + waiting.rows
            if isinstance(outcome, Exception):
                resolve(waiting.scores, outcome)
            else:
                scores = outcome[first:last]
                resolve(waiting.scores, scores if is_finite else _check_finite(scores, waiting.field))
            first = last
        self._schedule()

    def _count(self, batch: list[_Waiting], began: int, has_failed: bool) -> None:
        counts, size = self.statistics, len(batch)
        if has_failed:
            counts.failed += size
            return
        counts.requests += size
        counts.calls += 1
        counts.rows += sum(waiting.rows for waiting in batch)
        counts.queue_ns += size * began - sum(waiting.since for waiting in batch)
        counts.compute_ns += size * (time.perf_counter_ns() - began)
        counts.last_ms = time.time_ns() // 1_000_000


def _check_finite(scores: Scores, field: Field) -> Scores | NoScoreError:
    """Return scores, or the error of the first row without one: neither JSON nor a metric can hold it."""
    wrong = np.flatnonzero(~np.isfinite(scores.reshape(len(scores), -1)).all(axis=1))
    if not len(wrong):
        return scores
    name = field(int(wrong[0]))
    return NoScoreError(f"{name} has no finite score; send values nearer to those seen in training", field=name)


def _try(score: Score, batch: list[_Waiting]) -> Scores | Exception:
    try:
        return score(concatenate([waiting.inputs for waiting in batch]))
    except Exception as error:  # fails the requests of this batch, not the next one
        return error


def _time_call(score: Score, example: Tensors) -> float:
    """Return the seconds of a warm call with one row."""
    score(example)
    started = time.perf_counter()
    score(example)
    return time.perf_counter() - started
