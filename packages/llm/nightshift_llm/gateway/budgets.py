"""The budget of a key: a state machine without clock, files or threads.

A request reserves its worst case before it starts, and is settled with its actual usage. So `spent + reserved <= limit`
always holds, and no budget is overspent however many requests run at once. A request that will fit once others are
settled waits for them. It is refused only if it exceeds the budget without their reservations.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

DAY, MINUTE = 86_400, 60  # seconds
MINUTES_AHEAD = 5  # a rate further ahead came from a wrong clock; less is a clock set back
KEPT_DAYS = 7  # days whose usage is kept after their last request


class Amount(NamedTuple):
    """The actual or maximum usage of a request.

    Attributes:
        tokens: tokens of the prompt and the completion.
        nanodollars: their cost in 1e-9 dollars; an integer, so that sums are exact.
    """

    tokens: int
    nanodollars: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum."""
        return Amount(self.tokens + other.tokens, self.nanodollars + other.nanodollars)

    def minus(self, other: "Amount") -> "Amount":
        """Return the difference."""
        return Amount(self.tokens - other.tokens, self.nanodollars - other.nanodollars)

    def exceeds(self, other: "Amount") -> bool:
        """Return whether it is more than another one, in tokens or in money."""
        return self.tokens > other.tokens or self.nanodollars > other.nanodollars


NOTHING = Amount(0)
UNLIMITED = 10**30  # more than any sum of a day
ALL = Amount(UNLIMITED, UNLIMITED)


@dataclass(frozen=True)
class Limits:
    """Limits of a key.

    Attributes:
        per_day: tokens and money per UTC day.
        requests_per_minute: requests admitted per calendar minute; None: unlimited.
    """

    per_day: Amount = ALL
    requests_per_minute: int | None = None


class Outcome(StrEnum):
    """The outcome of a request for admission."""

    ADMITTED = "admitted"
    WAITING = "waiting"
    OVER_BUDGET = "over budget"
    OVER_RATE = "over rate"


@dataclass
class DayUsage:
    """The usage of a key on a day.

    Attributes:
        spent: usage of settled requests.
        reserved: reservations of requests in progress.
    """

    spent: Amount = NOTHING
    reserved: Amount = NOTHING


@dataclass
class KeyBudget:
    """The usage of a key by day, and in the current minute, all counted from 1970 in UTC.

    A day begins with what the ledger has for it: the clock may return to a day, or may have jumped to it before.

    Attributes:
        read_spent: day -> its usage in the ledger; called for a day without requests in progress.
        day: current day.
        requests: requests admitted in the minute.
    """

    read_spent: Callable[[int], Amount] = lambda _: NOTHING
    day: int = 0
    minute: int = 0
    requests: int = 0
    _days: dict[int, DayUsage] = field(default_factory=dict)

    @property
    def today(self) -> DayUsage:
        """The usage of the current day."""
        return self._days[self.day]

    def admit(self, limits: Limits, amount: Amount, now: float) -> Outcome:
        """Reserve a request's worst case if it is admitted.

        Args:
            limits: limits of the key.
            amount: maximum usage of the request.
            now: seconds since 1970.
        """
        self.turn_to(now)
        outcome = self._decide(limits, amount)
        if outcome is Outcome.ADMITTED:
            self.today.reserved = self.today.reserved.plus(amount)
            self.requests += 1
        return outcome

    def settle(self, day: int, reserved: Amount, used: Amount) -> None:
        """Replace a day's reservation by the actual usage."""
        usage = self._days[day]
        usage.reserved = usage.reserved.minus(reserved)
        usage.spent = usage.spent.plus(used)

    def remaining(self, limits: Limits) -> Amount:
        """Return today's remaining budget, without reservations."""
        return limits.per_day.minus(self.today.spent)

    def turn_to(self, now: float) -> None:
        """Change to the day and the minute of a time in seconds since 1970."""
        day, minute = int(now // DAY), int(now // MINUTE)
        if day not in self._days:
            idle = [known for known, usage in self._days.items() if usage.reserved == NOTHING]
            for known in idle[:-KEPT_DAYS]:
                del self._days[known]
            self._days[day] = DayUsage(self.read_spent(day))
        self.day = day
        if not minute <= self.minute <= minute + MINUTES_AHEAD:
            self.minute, self.requests = minute, 0

    def _decide(self, limits: Limits, amount: Amount) -> Outcome:
        remaining = self.remaining(limits)
        if amount.exceeds(remaining):
            return Outcome.OVER_BUDGET
        if limits.requests_per_minute is not None and self.requests >= limits.requests_per_minute:
            return Outcome.OVER_RATE
        if amount.exceeds(remaining.minus(self.today.reserved)):
            return Outcome.WAITING
        return Outcome.ADMITTED
