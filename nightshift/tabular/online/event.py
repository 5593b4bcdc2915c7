"""Raw events: JSON values under the user's column names, checked and turned into what the state counts."""

import math
import sys
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from nightshift.contracts.online import Events
from nightshift.data import values
from nightshift.data.times import EPOCH, parse_time
from nightshift.runtime.errors import UserError

Id = int | str
LARGEST = sys.float_info.max
EPOCH_DAYS = EPOCH.toordinal()


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event that has been checked.

    Attributes:
        event_id: unique within its UTC day.
        time: microseconds since 1970, UTC.
        customer: None in a use case without customers.
        terminal: None in a use case without terminals.
        amount: 0 in a use case without amounts.
        numeric: the user's further numeric columns, in their order; NaN where a number is missing.
        categorical: the user's categorical columns, where features are made of those of earlier events.
    """

    event_id: Id
    time: int
    customer: Id | None = None
    terminal: Id | None = None
    amount: float = 0.0
    numeric: tuple[float, ...] = ()
    categorical: tuple[str, ...] = ()


class EventParser:
    """Reads raw events of one use case.

    Args:
        events: what they look like.
        keeps_categories: whether features are made of categories of earlier events.
    """

    def __init__(self, events: Events, keeps_categories: bool = False) -> None:
        self._keeps_categories = keeps_categories
        roles = events.columns
        self._event_id, self._time = roles["event_id"], roles["event_time"]
        self._customer, self._terminal, self._amount = roles.get("customer"), roles.get("terminal"), roles.get("amount")
        self._numeric, self._categorical, self._timezone = events.numeric, events.categorical, events.timezone
        self._integers = frozenset(roles[role] for role in events.integers if role in roles)
        self._nullable, self._least_amount = frozenset(events.nullable), -LARGEST if events.negative_amounts else 0.0
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
            self._parse_amount(raw, self._amount) if self._amount else 0.0,
            tuple([self._number(raw, name) for name in self._numeric]) if self._numeric else (),
            tuple(self.categories(raw).values()) if self._keeps_categories else (),
        )

    def label(self, raw: Mapping[str, Any]) -> tuple[Id, int, int]:
        """Check a label: the event's id and time under the columns' names, and `label`: 0, 1, true or false.

        Returns:
            the id, the time in microseconds since 1970, UTC, and the label.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        text = _canonical(raw.get("label"))
        if text not in values.LABELS:
            raise UserError(f"label is {raw.get('label')!r}; give 0 or 1")
        return self._id(raw, self._event_id), self._moment(raw), values.LABELS[text]

    def categories(self, raw: Mapping[str, Any]) -> dict[str, str]:
        """Return an event's categorical columns as the features table has them: text, empty where there is nothing.

        Raises:
            UserError: naming the column, its value and what is allowed.
        """
        return {name: self._category(raw, name) for name in self._categorical}

    def _value(self, raw: Mapping[str, Any], name: str) -> Any:
        try:
            return raw[name]
        except KeyError:
            unknown = next((f", and {key!r} is unknown" for key in raw if key not in self._expected), "")
            raise UserError(f"{name}: missing{unknown}; an event has {', '.join(self._expected)}") from None

    def _id(self, raw: Mapping[str, Any], name: str) -> Id:
        value: Any = raw.get(name)
        if name in self._integers and type(value) is int and value in values.INT64:
            return value
        text = _canonical(value)
        if name not in self._integers and text:
            return text
        number = values.parse_integer(text) if text else None
        if number is not None:
            return number
        allowed = "a whole number of at most 63 bits" if name in self._integers else "text that is not empty"
        raise UserError(f"{name} is {self._value(raw, name)!r}; give {allowed}")

    def _category(self, raw: Mapping[str, Any], name: str) -> str:
        value = self._value(raw, name)
        text = _canonical(value)
        if text is None:
            raise UserError(f"{name} is {value!r}; give text, true, false, null or a number below 2^53")
        return text

    def _moment(self, raw: Mapping[str, Any]) -> int:
        name = self._time
        return moment(self._value(raw, name), name, self._timezone)

    def _number(self, raw: Mapping[str, Any], name: str) -> float:
        value: Any = raw.get(name)
        # True is an int to Python, and of another type
        if type(value) in (int, float) and -LARGEST <= value <= LARGEST:
            return float(value)
        if self._value(raw, name) is None and name in self._nullable:
            return math.nan
        allowed = "a finite number or null" if name in self._nullable else "a finite number"
        raise UserError(f"{name} is {value!r}; give {allowed}")

    def _parse_amount(self, raw: Mapping[str, Any], name: str) -> float:
        value = self._number(raw, name)
        if value < self._least_amount:
            raise UserError(f"{name} is {value!r}; an amount is not negative, unless limits.negative_amounts is set")
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
    micros = parse_time(value, ZoneInfo(timezone))
    if micros is None:
        raise UserError(f"{name} is {value!r}; give ISO 8601 text such as 2018-08-14T09:30:00Z")
    return micros


def _canonical(value: Any) -> str | None:
    """Return the one spelling of a JSON value, or None where it has none, as lists and objects have none."""
    return None if isinstance(value, list | dict) else values.canonical(value)
