"""Raw events in a server: what takes them in, and when they may be answered."""

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

QUICK_EVENTS = 128  # a group with as many holds the event loop up for about two milliseconds
FULL = 64  # requests of a group that waits for no more


class Taken(msgspec.Struct):
    """The numeric inputs of a request's events, and the snapshot over which they were computed."""

    rows: list[list[float]]
    base: Base


class Online:
    """The online state of what is served.

    Attributes:
        follower: moves it to newer snapshots.
    """

    def __init__(self, follower: Follower) -> None:
        self.follower, self._store = follower, follower.store
        self._commits = GroupCommit(self._commit, self._is_quick)

    @property
    def events(self) -> Events:
        """What a raw event looks like."""
        return self._store.base.snapshot.events

    @property
    def last(self) -> date:
        """The last day of the snapshot that it lies over."""
        return self._store.base.snapshot.last

    @property
    def problem(self) -> str | None:
        """Why it takes nothing in at present; None when it does."""
        return self._store.problem

    def probe(self) -> None:
        """Look whether the store takes events in again, if it did not the last time."""
        self._store.probe()

    def read(self, raw: Mapping[str, Any]) -> tuple[Event, dict[str, str]]:
        """Check a raw event; return it with its categorical columns.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        reader = self.follower.reader
        return reader.read(raw), reader.categories(raw)

    def take(self, events: Sequence[Event]) -> "asyncio.Future[Taken]":
        """Take events in, so that they are durable.

        Raises, when it is awaited:
            UserError: when one is refused.
            UnavailableError: when the store does not answer.
        """
        return self._commits.ask(events)

    def read_label(self, raw: Mapping[str, Any]) -> Label:
        """Check a label.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        return Label(*self.follower.reader.label(raw))

    def label(self, label: Label) -> "asyncio.Future[bool]":
        """Take a label in, so that it is durable; return whether its event is known.

        Raises, when it is awaited:
            UnavailableError: when the store does not answer.
        """
        return self._commits.ask(label)

    def close(self) -> None:
        """Commit, and let go of the store."""
        self._store.close()

    def _commit(self, asked: "Sequence[Sequence[Event] | Label]") -> list[Any]:
        """Take in what has come in, make it durable, and return what is answered: `Taken`, bool or an exception."""
        events = [each for each in asked if not isinstance(each, Label)]
        found = self._taken(events) if events else []
        for place, each in enumerate(asked):
            if isinstance(each, Label):
                found.insert(place, self._store.label(each))
        self._store.commit()
        return found

    def _is_quick(self, asked: "Sequence[Sequence[Event] | Label]") -> bool:
        # a label counts as three
        return self._store.is_quick and sum(map(len, asked)) <= QUICK_EVENTS

    def _taken(self, requests: Sequence[Sequence[Event]]) -> list[Any]:
        while True:
            base = self._store.base
            found = self._store.take_all(requests)
            # swapped meanwhile: what is taken in a second time changes nothing
            if self._store.base is base:
                return [each if isinstance(each, Exception) else Taken(each, base) for each in found]


class GroupCommit:
    """Does at once what several requests have asked for; what is asked for meanwhile is the next group's.

    A commit costs a sync, or a message, whatever its size, so it begins only when nothing more comes in. One that is
    quick is done in the event loop: handing it to a thread and back would take as long.
    """

    def __init__(self, work: Callable[[list[Any]], list[Any]], is_quick: Callable[[list[Any]], bool]) -> None:
        """Wait for the first one.

        Args:
            work: what was asked for -> an answer each, or the exception that answers it.
            is_quick: whether the event loop may wait for that.
        """
        self._work, self._is_quick = work, is_quick
        self._thread = ThreadPoolExecutor(1, "online")
        self._asked: list[tuple[Any, asyncio.Future[Any]]] = []
        self._is_busy = False

    def ask(self, what: Any) -> "asyncio.Future[Any]":
        """Return the answer to come."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._asked.append((what, answer))
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._begin, 0)  # what was read in this turn asks in the next one
        return answer

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # once: up to Python 3.11 that is a system call

    def _begin(self, before: int) -> None:
        """Begin with the next group, unless the loop has read more than there was before."""
        if before < len(self._asked) < FULL:
            self._loop.call_soon(self._begin, len(self._asked))
            return
        asked, self._asked = self._asked, []
        what, waiting = [each for each, _ in asked], [answer for _, answer in asked]
        if self._is_quick(what):
            self._end(waiting, _tried(self._work, what))
        else:
            done = self._loop.run_in_executor(self._thread, _tried, self._work, what)
            done.add_done_callback(lambda done: self._end(waiting, done.result()))

    def _end(self, waiting: "list[asyncio.Future[Any]]", answers: Sequence[Any]) -> None:
        for future, answer in zip(waiting, answers, strict=True):
            resolve(future, answer)
        self._is_busy = bool(self._asked)
        if self._is_busy:
            self._loop.call_soon(self._begin, len(self._asked))


def _tried(work: Callable[[list[Any]], list[Any]], asked: list[Any]) -> list[Any]:
    """Return an answer each; what fails as a whole has failed for each."""
    try:
        return work(asked)
    except Exception as error:
        return [error] * len(asked)
