"""The work of several requests, done together: one sync, or one message, for all of them."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from nightshift.http.futures import resolve

FULL = 64  # requests of a group that is committed at once


class GroupCommit:
    """Does the work of several requests together; later requests join the next group.

    A commit costs one sync, or one message, whatever its size, so it waits until no further request arrives. Quick
    work runs in the event loop: a thread's hand-over takes as long.
    """

    def __init__(self, work: Callable[[list[Any]], list[Any]], is_quick: Callable[[list[Any]], bool]) -> None:
        """Wait for the first request.

        Args:
            work: a group's requests -> for each its answer, or an exception.
            is_quick: whether the event loop may do a group's work.
        """
        self._work, self._is_quick = work, is_quick
        self._thread = ThreadPoolExecutor(1, "commits")
        self._pending: list[tuple[Any, asyncio.Future[Any]]] = []
        self._is_busy = False

    def submit(self, request: Any) -> "asyncio.Future[Any]":
        """Add a request to the next group; return its future answer."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._pending.append((request, answer))
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._commit_when_idle, 0)  # requests read in this turn are submitted in the next
        return answer

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # once: up to Python 3.11 that is a system call

    def _commit_when_idle(self, before: int) -> None:
        """Start the next group's work, unless more requests have arrived since the last look."""
        if before < len(self._pending) < FULL:
            self._loop.call_soon(self._commit_when_idle, len(self._pending))
            return
        pending, self._pending = self._pending, []
        group, futures = [request for request, _ in pending], [future for _, future in pending]
        if self._is_quick(group):
            self._resolve(futures, _try(self._work, group))
        else:
            call = self._loop.run_in_executor(self._thread, _try, self._work, group)
            call.add_done_callback(lambda call: self._resolve(futures, call.result()))

    def _resolve(self, futures: "list[asyncio.Future[Any]]", answers: Sequence[Any]) -> None:
        for future, answer in zip(futures, answers, strict=True):
            resolve(future, answer)
        self._is_busy = bool(self._pending)
        if self._is_busy:
            self._loop.call_soon(self._commit_when_idle, len(self._pending))


def _try(work: Callable[[list[Any]], list[Any]], group: list[Any]) -> list[Any]:
    """Return an answer for each request; an exception of the whole answers each."""
    try:
        return work(group)
    except Exception as error:
        return [error] * len(group)
