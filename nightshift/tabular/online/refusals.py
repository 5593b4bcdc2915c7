"""What a store refuses, in the same words whichever store it is."""

from collections.abc import Sequence
from datetime import date

from nightshift.contracts.online import Snapshot
from nightshift.runtime.errors import UserError
from nightshift.tabular.online.event import Event, Id


class RefusedEventError(UserError):
    """One of a request's events is refused, so none of them is taken in.

    Attributes:
        index: which of them, from 0 on.
    """

    def __init__(self, index: int, error: UserError) -> None:
        super().__init__(str(error))
        self.index = index


def too_old(event: Event, snapshot: Snapshot) -> UserError:
    """An event of a day whose windows reach back further than the snapshot."""
    return UserError(
        f"event {event.event_id!r} is of a day before {snapshot.last}, the first whose windows the state covers; "
        "send newer events"
    )


def another(event_id: Id, columns: Sequence[str]) -> UserError:
    """An event whose id another one of its day has; the columns that are kept of events."""
    *further, last = ["time", *columns]
    return UserError(
        f"event {event_id!r} is known with another {', '.join(further)} or {last}; an event does not change, "
        "and another one needs an id of its own"
    )


def earlier(last: date, present: date) -> UserError:
    """A snapshot that ends with `last`, before the present one."""
    return UserError(f"the snapshot ends on {last}, the state's on {present}; train for that date or later")
