"""What a server keeps the online state in."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from nightshift.tabular.online.base import Base
from nightshift.tabular.online.event import Event, Id
from nightshift.tabular.online.state import Label


class Store(Protocol):
    """The online state of one use case; safe for threads."""

    @property
    def base(self) -> Base:
        """The snapshot that it lies over."""

    @property
    def problem(self) -> str | None:
        """Why it takes nothing in at present; None when it does, as far as it knows."""

    def probe(self) -> None:
        """Look whether it takes something in again, if it did not the last time; `problem` says what came of it."""

    @property
    def is_quick(self) -> bool:
        """Whether an event loop may wait for it: at present it takes some events in, and commits, in a millisecond."""

    def take(self, events: Sequence[Event]) -> list[list[float]]:
        """Take a request's events in.

        Args:
            events: in order of time, or else they are taken in order of time and id.

        Returns:
            per event its numeric inputs, in the order of `windows.numeric_inputs`.

        Raises:
            UserError: when one is refused; then none of the request is in the state.
            UnavailableError: when the store does not answer.
        """

    def take_all(self, requests: Sequence[Sequence[Event]]) -> "list[list[list[float]] | Exception]":
        """Take several requests in, one after the other; return each one's inputs, or why it was refused; see `take`.

        Raises:
            UnavailableError: when the store does not answer.
        """

    def label(self, label: Label) -> bool:
        """Take a label in; return whether its event is known.

        Raises:
            UnavailableError: when the store does not answer.
        """

    def commit(self) -> None:
        """Make durable what was taken in before: then it may be acknowledged.

        Raises:
            UnavailableError: when the disk or the store does not take it.
        """

    def swap(self, base: Base) -> None:
        """Change to another snapshot, between two requests; what it does not cover stays.

        Raises:
            UserError: when it ends earlier than the present one.
        """

    def close(self) -> None:
        """Commit, and let go of files and connections."""


def in_order(events: Sequence[Event]) -> list[int]:
    """Return the indices of a request's events in the order in which they are taken in."""
    if len(events) == 1:
        return [0]
    times = [event.time for event in events]
    if all(before <= after for before, after in pairwise(times)):
        return list(range(len(events)))

    def key(index: int) -> tuple[int, Id]:
        return events[index].time, events[index].event_id

    return sorted(range(len(events)), key=key)
