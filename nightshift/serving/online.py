"""Raw events in a server: they are checked, stored, and answered once they are durable."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from nightshift.contracts.online import Events
from nightshift.http.group_commit import GroupCommit
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.follower import Follower
from nightshift.tabular.online.state import Label

QUICK_EVENTS = 128  # a group of as many blocks the event loop for about two milliseconds


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
