"""What a key may use: a state machine without clock, files or threads.

A request reserves the most that it can use before it starts, and is settled by what it has used. So
`spent + reserved <= limit` holds at every moment, and nothing is overspent however many requests run at once. A request
that fits as soon as others are settled waits for them. Only one that exceeds what is left without them is refused.
"""

from dataclasses import dataclass
from enum import StrEnum

DAY, MINUTE = 86_400, 60  # seconds
DAYS_AHEAD, MINUTES_AHEAD = 1, 5  # of the clock, beyond which it was wrong before; less is a clock that is set back


@dataclass(frozen=True)
class Limits:
    """Limits of a key; None: there is none.

    Attributes:
        tokens_per_day: prompt and completion tokens of a UTC day.
        requests_per_minute: requests admitted in a minute of the clock.
    """

    tokens_per_day: int | None = None
    requests_per_minute: int | None = None


class Outcome(StrEnum):
    """The outcome of a request for admission."""

    ADMITTED = "admitted"
    WAITING = "waiting"
    OVER_BUDGET = "over budget"
    OVER_RATE = "over rate"


@dataclass
class KeyBudget:
    """What a key has used: in the current minute and day, both counted from 1970 in UTC.

    Attributes:
        spent: tokens that settled requests of the day have used.
        reserved: tokens held by the day's requests in progress.
        requests: requests admitted in the minute.
    """

    day: int = 0
    spent: int = 0
    reserved: int = 0
    minute: int = 0
    requests: int = 0

    def admit(self, limits: Limits, tokens: int, now: float) -> Outcome:
        """Reserve a request's tokens if it is admitted.

        Args:
            limits: limits of the key.
            tokens: the most that the request can use.
            now: seconds since 1970.
        """
        self._turn_to(now)
        outcome = self._decide(limits, tokens)
        if outcome is Outcome.ADMITTED:
            self.reserved += tokens
            self.requests += 1
        return outcome

    def settle(self, day: int, reserved: int, used: int) -> None:
        """Replace a reservation of a day by the tokens that were used."""
        if day == self.day:
            self.reserved -= reserved
            self.spent += used

    def remaining(self, limits: Limits) -> int | None:
        """Return the tokens left today if all that is reserved were returned; None without a limit."""
        return None if limits.tokens_per_day is None else limits.tokens_per_day - self.spent

    def _turn_to(self, now: float) -> None:
        day, minute = int(now // DAY), int(now // MINUTE)
        if not day <= self.day <= day + DAYS_AHEAD:
            self.day, self.spent, self.reserved = day, 0, 0
        if not minute <= self.minute <= minute + MINUTES_AHEAD:
            self.minute, self.requests = minute, 0

    def _decide(self, limits: Limits, tokens: int) -> Outcome:
        remaining = self.remaining(limits)
        if remaining is not None and tokens > remaining:
            return Outcome.OVER_BUDGET
        if limits.requests_per_minute is not None and self.requests >= limits.requests_per_minute:
            return Outcome.OVER_RATE
        if remaining is not None and tokens > remaining - self.reserved:
            return Outcome.WAITING
        return Outcome.ADMITTED
