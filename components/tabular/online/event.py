"""Raw events: JSON values under the user's column names, checked and turned into what the state counts."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from components.common.contracts.online import Events
from components.common.errors import UserError, nearest
from components.tabular.windows import DAY

Id = int | str
LARGEST_ID = 2**63
LARGEST = sys.float_info.max
EPOCH_DAYS = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event that has been checked.

    Attributes:
        event_id: unique within its UTC day.
        time: microseconds since 1970, UTC.
        customer: None in a use case without customers.
        terminal: None in a use case without terminals.
        amount: 0 in a use case without amounts.
        numeric: the user's further numeric columns, in their order.
    """

    event_id: Id
    time: int
    customer: Id | None = None
    terminal: Id | None = None
    amount: float = 0.0
    numeric: tuple[float, ...] = ()


class Reader:
    """Reads raw events of one use case."""

    def __init__(self, events: Events) -> None:
        roles = events.columns
        self._event_id, self._time = roles["event_id"], roles["event_time"]
        self._customer, self._terminal, self._amount = roles.get("customer"), roles.get("terminal"), roles.get("amount")
        self._numeric, self._categorical, self._timezone = events.numeric, events.categorical, events.timezone
        self._integers = frozenset(roles[role] for role in events.integers if role in roles)
        self._expected = [*roles.values(), *events.numeric, *events.categorical]

    def read(self, raw: Mapping[str, Any]) -> Event:
        """Check an event.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        return Event(
            self._id(raw, self._event_id),
            self._moment(raw),
            self._id(raw, self._customer) if self._customer else None,
            self._id(raw, self._terminal) if self._terminal else None,
            self._not_negative(raw, self._amount) if self._amount else 0.0,
            tuple([self._number(raw, name) for name in self._numeric]) if self._numeric else (),
        )

    def label(self, raw: Mapping[str, Any]) -> tuple[Id, int, int]:
        """Check a label: the event's id and time under the columns' names, and `label`, which is 0 or 1.

        Returns:
            the id, the time in microseconds since 1970, UTC, and the label.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        value = raw.get("label")
        if isinstance(value, bool) or value not in (0, 1):
            raise UserError(f"label is {value!r}; give 0 or 1")
        return self._id(raw, self._event_id), self._moment(raw), int(value)

    def categories(self, raw: Mapping[str, Any]) -> dict[str, str]:
        """Return an event's categorical columns as the features table has them: text, empty where there is nothing."""
        if not self._categorical:
            return {}
        values = {name: self._value(raw, name) for name in self._categorical}
        return {name: "" if value is None else str(value) for name, value in values.items()}

    def _value(self, raw: Mapping[str, Any], name: str) -> Any:
        try:
            return raw[name]
        except KeyError:
            raise UserError(f"{name}: missing; an event has {', '.join(self._expected)}{nearest(name, raw)}") from None

    def _id(self, raw: Mapping[str, Any], name: str) -> Id:
        value: Any = raw.get(name)
        if name in self._integers:
            if type(value) is int and -LARGEST_ID <= value < LARGEST_ID:
                return value
            allowed = "a whole number of at most 63 bits"
        else:
            if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
                return str(value)
            allowed = "text that is not empty"
        raise UserError(f"{name} is {self._value(raw, name)!r}; give {allowed}")

    def _moment(self, raw: Mapping[str, Any]) -> int:
        name = self._time
        return moment(self._value(raw, name), name, self._timezone)

    def _number(self, raw: Mapping[str, Any], name: str) -> float:
        value: Any = raw.get(name)
        # True is an int to Python, and of another type
        if type(value) in (int, float) and -LARGEST <= value <= LARGEST:
            return float(value)
        raise UserError(f"{name} is {self._value(raw, name)!r}; give a finite number")

    def _not_negative(self, raw: Mapping[str, Any], name: str) -> float:
        value = self._number(raw, name)
        if value < 0:
            raise UserError(f"{name} is {value!r}; an amount is not negative")
        return value


def moment(value: Any, name: str, timezone: str = "UTC") -> int:
    """Return a time in microseconds since 1970, UTC.

    Args:
        value: ISO 8601 text or a datetime.
        name: of its column, for the message.
        timezone: the zone of a time that carries none; clock changes are read as ingestion reads them.

    Raises:
        UserError: when it is no time.
    """
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        if time.tzinfo is not None:
            time = time.astimezone(UTC)
        elif timezone != "UTC":
            time = _localized(time, timezone)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name} is {value!r}; give ISO 8601 text such as 2018-08-14T09:30:00Z") from None
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return (time.toordinal() - EPOCH_DAYS) * DAY + seconds * 1_000_000 + time.microsecond


def _localized(wall: datetime, timezone: str) -> datetime:
    """Return a local time in UTC: the second one of an hour that repeats; of a gap, its end."""
    import pandas as pd

    local = pd.Timestamp(wall).tz_localize(timezone, ambiguous=False, nonexistent="shift_forward")
    found: datetime = local.tz_convert("UTC").to_pydatetime()
    return found
