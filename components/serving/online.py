"""Raw events in a server: what takes them in, and when they may be answered."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any, NamedTuple

from components.common.contracts.online import Events
from components.common.contracts.package import Windows
from components.tabular.online.base import Base
from components.tabular.online.event import Event, Reader
from components.tabular.online.state import Label
from components.tabular.online.store import Store


class Taken(NamedTuple):
    """The numeric inputs of a request's events, and the snapshot over which they were computed."""

    rows: list[list[float]]
    base: Base


class Online:
    """The online state of what is served."""

    def __init__(self, store: Store) -> None:
        self._store, self._turns = store, Turns(self._turn)
        self._reader = Reader(store.base.snapshot.events)

    @property
    def events(self) -> Events:
        """What a raw event looks like."""
        return self._store.base.snapshot.events

    @property
    def windows(self) -> Windows:
        """Which windows it computes."""
        return self._store.base.snapshot.windows

    @property
    def last(self) -> date:
        """The last day of the snapshot that it lies over."""
        return self._store.base.snapshot.last

    @property
    def problem(self) -> str | None:
        """Why it takes nothing in at present; None when it does."""
        return self._store.problem

    def read(self, raw: Mapping[str, Any]) -> tuple[Event, dict[str, str]]:
        """Check a raw event; return it with its categorical columns.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        return self._reader.read(raw), self._reader.categories(raw)

    def take(self, events: Sequence[Event]) -> "asyncio.Future[Taken]":
        """Take events in, so that they are durable.

        Raises, when it is awaited:
            UserError: when one is refused.
            UnavailableError: when the store does not answer.
        """
        return self._turns.ask(events)

    def label(self, raw: Mapping[str, Any]) -> "asyncio.Future[bool]":
        """Take a label in, so that it is durable; return whether its event is known.

        Raises:
            UserError: naming the column, its value and what is allowed.
            UnavailableError: when it is awaited, and the store does not answer.
        """
        return self._turns.ask(Label(*self._reader.label(raw)))

    def swap(self, base: Base) -> None:
        """Change to another snapshot; what it does not cover stays."""
        self._store.swap(base)
        self._reader = Reader(base.snapshot.events)

    def close(self) -> None:
        """Commit, and let go of the store."""
        self._store.close()

    def _turn(self, asked: "Sequence[Sequence[Event] | Label]") -> list[Any]:
        """Take in what has come in, make it durable, and return what is answered: `Taken`, bool or an exception."""
        requests = [each for each in asked if not isinstance(each, Label)]
        taken = iter(self._taken(requests) if requests else ())
        found = [self._store.label(each) if isinstance(each, Label) else next(taken) for each in asked]
        self._store.commit()
        return found

    def _taken(self, requests: Sequence[Sequence[Event]]) -> list[Any]:
        while True:
            base = self._store.base
            found = self._store.take_all(requests)
            # swapped meanwhile: what is taken in a second time changes nothing
            if self._store.base is base:
                return [each if isinstance(each, Exception) else Taken(each, base) for each in found]


class Turns:
    """Does in a thread what has been asked for; what is asked for meanwhile is the next turn's."""

    def __init__(self, work: Callable[[list[Any]], list[Any]]) -> None:
        """Wait for the first one.

        Args:
            work: what was asked for -> an answer each, or the exception that answers it.
        """
        self._work, self._thread = work, ThreadPoolExecutor(1, "online")
        self._asked: list[tuple[Any, asyncio.Future[Any]]] = []
        self._is_busy = False

    def ask(self, what: Any) -> "asyncio.Future[Any]":
        """Return a future of the answer."""
        loop = asyncio.get_running_loop()
        self._asked.append((what, loop.create_future()))
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._begin)  # after all that this turn of the loop reads
        return self._asked[-1][1]

    def _begin(self) -> None:
        asked, self._asked = self._asked, []
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._work, [what for what, _ in asked])
        done.add_done_callback(lambda done: self._end([answer for _, answer in asked], done))

    def _end(self, waiting: "list[asyncio.Future[Any]]", done: "asyncio.Future[list[Any]]") -> None:
        error = done.exception()
        answers = [error] * len(waiting) if error else done.result()
        for each, answer in zip(waiting, answers, strict=True):
            if each.cancelled():  # the client has gone
                continue
            each.set_exception(answer) if isinstance(answer, BaseException) else each.set_result(answer)
        self._is_busy = bool(self._asked)
        if self._asked:
            self._begin()
