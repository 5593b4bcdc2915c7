"""Raw events in a server: they are checked, stored, and answered once they are durable."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import cached_property
from typing import Any

import msgspec

from nightshift.contracts.online import Events
from nightshift.serving.futures import resolve
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.follower import Follower
from nightshift.tabular.online.state import Label

QUICK_EVENTS = 128  # a group of as many blocks the event loop for about two milliseconds
FULL = 64  # requests of a group that is committed at once


class EventRows(msgspec.Struct):
    """The numeric inputs of a request's events, and the snapshot behind them."""

    rows: list[list[float]]
    base: Base


class Online:
    """The online state of the served model.

    Attributes:
        follower: moves the state to newer snapshots.
    """

    def __init__(self, follower: Follower) -> None:
        self.follower, self._store = follower, follower.store
        self._commits = GroupCommit(self._commit, self._is_quick)

    @property
    def events(self) -> Events:
        """Columns of a raw event."""
        return self._store.base.snapshot.events

    @property
    def last(self) -> date:
        """Last day of the snapshot below the state."""
        return self._store.base.snapshot.last

    @property
    def problem(self) -> str | None:
        """Why the state accepts nothing at present; None while it does."""
        return self._store.problem

    def probe(self) -> None:
        """Try a store again that has failed."""
        self._store.probe()

    def read(self, raw: Mapping[str, Any]) -> tuple[Event, dict[str, str]]:
        """Check a raw event; return it with its categorical columns.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        reader = self.follower.reader
        return reader.read(raw), reader.categories(raw)

    def take(self, events: Sequence[Event]) -> "asyncio.Future[EventRows]":
        """Store events durably, and return their numeric inputs.

        Raises, when it is awaited:
            UserError: when an event is refused.
            UnavailableError: when the store does not answer.
        """
        return self._commits.submit(events)

    def read_label(self, raw: Mapping[str, Any]) -> Label:
        """Check a label.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        return Label(*self.follower.reader.label(raw))

    def label(self, label: Label) -> "asyncio.Future[bool]":
        """Store a label durably; return whether its event is known.

        Raises, when it is awaited:
            UnavailableError: when the store does not answer.
        """
        return self._commits.submit(label)

    def close(self) -> None:
        """Commit, and close the store."""
        self._store.close()

    def _commit(self, group: "Sequence[Sequence[Event] | Label]") -> list[Any]:
        """Store a group durably; return an answer for each entry: `EventRows`, bool or an exception."""
        requests = [entry for entry in group if not isinstance(entry, Label)]
        answers = self._take_events(requests) if requests else []
        for index, entry in enumerate(group):
            if isinstance(entry, Label):
                answers.insert(index, self._store.label(entry))
        self._store.commit()
        return answers

    def _is_quick(self, group: "Sequence[Sequence[Event] | Label]") -> bool:
        # a label counts as three
        return self._store.is_quick and sum(map(len, group)) <= QUICK_EVENTS

    def _take_events(self, requests: Sequence[Sequence[Event]]) -> list[Any]:
        while True:
            base = self._store.base
            rows = self._store.take_all(requests)
            # after a swap again: storing an event twice changes nothing
            if self._store.base is base:
                return [entry if isinstance(entry, Exception) else EventRows(entry, base) for entry in rows]


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
        self._thread = ThreadPoolExecutor(1, "online")
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
