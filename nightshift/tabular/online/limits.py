"""What one event may be, so that none costs the others: see `config.limits`."""

import time
from collections.abc import Callable
from datetime import timedelta

from nightshift.contracts.online import Snapshot
from nightshift.data.times import EPOCH_UTC
from nightshift.runtime.errors import UserError
from nightshift.tabular.online.event import EPOCH_DAYS, Event
from nightshift.tabular.windows import DAY

SHOWN = 40  # characters of a value

Clock = Callable[[], float]  # seconds since 1970
NOW: Clock = time.time


class EventGuard:
    """The limits of events that come in over a snapshot.

    Args:
        snapshot: which names them.
        clock: says what time it is; asked only about an event of a day that the snapshot does not announce.
    """

    def __init__(self, snapshot: Snapshot, clock: Clock = NOW) -> None:
        events = snapshot.events
        self._limits, self._columns, self._last, self._clock = snapshot.limits, events.columns, snapshot.last, clock
        self._largest, self._longest = snapshot.limits.largest_amount, snapshot.limits.longest_id
        self._ahead = snapshot.limits.days_ahead * DAY
        self._announced = (snapshot.last.toordinal() + 1 - EPOCH_DAYS) * DAY + self._ahead
        self._texts = [role for role in ("event_id", "customer", "terminal") if self._is_text(role, events.integers)]

    def check(self, event: Event) -> None:
        """Check an event.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        if abs(event.amount) > self._largest:
            raise self._refusal("amount", repr(event.amount), f"at most {self._largest:,.15g} (limits.largest_amount)")
        if event.time >= self._announced and event.time > self._clock() * 1e6 + self._ahead:
            moment = (EPOCH_UTC + timedelta(microseconds=event.time)).isoformat()
            until = f"at most {self._limits.days_ahead} days after now and after {self._last}, the snapshot's last day"
            raise self._refusal("event_time", moment, f"{until} (limits.days_ahead)")
        for role in self._texts:
            if len(value := getattr(event, role)) > self._longest:
                shown = f"{value[:SHOWN]!r}..., {len(value):,} characters"
                raise self._refusal(role, shown, f"at most {self._longest} characters (limits.longest_id)")

    def _is_text(self, role: str, integers: list[str]) -> bool:
        return role in self._columns and role not in integers

    def _refusal(self, role: str, value: str, allowed: str) -> UserError:
        return UserError(f"{self._columns[role]} is {value}; give {allowed}")
