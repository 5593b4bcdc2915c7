"""Raw events in a server: what takes them in, and when they may be answered."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

from components.common.contracts.online import Events
from components.common.contracts.package import Windows
from components.tabular.online.base import Base
from components.tabular.online.event import Event, Reader
from components.tabular.online.state import Label
from components.tabular.online.store import Store


class Online:
    """The online state of what is served."""

    def __init__(self, store: Store) -> None:
        self._store, self._commits = store, Commits(store.commit)
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

    def take(self, events: Sequence[Event]) -> tuple[list[list[float]], Base]:
        """Take events in; return their numeric inputs and the snapshot over which these were computed.

        Raises:
            UserError: when one is refused.
            UnavailableError: when the store does not answer.
        """
        while True:
            base = self._store.base
            rows = self._store.take(events)
            # swapped meanwhile: what is taken in a second time changes nothing
            if self._store.base is base:
                return rows, base

    def label(self, raw: Mapping[str, Any]) -> bool:
        """Take a label in; return whether its event is known.

        Raises:
            UserError: naming the column, its value and what is allowed.
            UnavailableError: when the store does not answer.
        """
        return self._store.label(Label(*self._reader.label(raw)))

    def committed(self) -> "asyncio.Future[None]":
        """Return a future that is done when all that was taken in before is durable."""
        return self._commits.after_now()

    def swap(self, base: Base) -> None:
        """Change to another snapshot; what it does not cover stays."""
        self._store.swap(base)
        self._reader = Reader(base.snapshot.events)

    def close(self) -> None:
        """Commit, and let go of the store."""
        self._store.close()


class Commits:
    """Commits in a thread, one at a time; what comes meanwhile shares the next one."""

    def __init__(self, commit: Callable[[], None]) -> None:
        self._commit, self._thread = commit, ThreadPoolExecutor(1, "commit")
        self._next: asyncio.Future[None] | None = None
        self._is_busy = False

    def after_now(self) -> "asyncio.Future[None]":
        """Return a future of a commit that begins after this call."""
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.create_future()
            if not self._is_busy:
                # after all that this turn of the loop takes in
                loop.call_soon(self._begin)
        return self._next

    def _begin(self) -> None:
        waiting, self._next, self._is_busy = self._next, None, True
        assert waiting is not None, "somebody has asked"
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._commit)
        done.add_done_callback(lambda done: self._end(waiting, done.exception()))

    def _end(self, waiting: "asyncio.Future[None]", error: BaseException | None) -> None:
        self._is_busy = False
        if not waiting.cancelled():
            waiting.set_exception(error) if error else waiting.set_result(None)
        if self._next is not None:
            self._begin()
