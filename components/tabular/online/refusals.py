"""What a store refuses, in the same words whichever store it is."""

from datetime import date

from components.common.errors import UserError
from components.tabular.online.event import Event


def too_old(event: Event, last: date) -> UserError:
    """An event of a day whose windows reach back further than the snapshot that ends with `last`."""
    return UserError(
        f"event {event.event_id!r} is of a day before {last}, the first whose windows the state covers; "
        "send newer events"
    )


def too_large(event: Event) -> UserError:
    """An amount with which sums would no longer be exact."""
    return UserError(f"amount {event.amount:g} is too large to be summed exactly; check its unit")


def another(event: Event) -> UserError:
    """An event whose id another one of its day has."""
    return UserError(
        f"event {event.event_id!r} is known with another time, customer, terminal or amount; an event does not change, "
        "and another one needs an id of its own"
    )


def earlier(last: date, present: date) -> UserError:
    """A snapshot that ends with `last`, before the present one."""
    return UserError(f"the snapshot ends on {last}, the state's on {present}; train for that date or later")
