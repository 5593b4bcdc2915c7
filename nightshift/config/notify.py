"""Who is notified of a night, of what, and when."""

import re
from datetime import datetime, time
from enum import StrEnum
from typing import Annotated, Self

import annotated_types
from pydantic import AfterValidator, Field, model_validator

from nightshift.config.section import ConfigSection, TimeZone

PREFIX = "NIGHTSHIFT_NOTIFY"  # of the variables, by which they reach a step's container
_CLOCK = "([01][0-9]|2[0-3]):([0-5][0-9])"
_HOURS = re.compile(f"{_CLOCK}-{_CLOCK}")


class NightEvent(StrEnum):
    """What a person may have to know of a night."""

    FAILED = "failed"  # a step has no result
    HELD = "held"  # the gate is undecided, or a version waits for an approval
    REFUSED = "refused"  # the gate has failed, or too many events are flagged
    DRIFT = "drift"
    ROLLED_BACK = "rolled_back"  # the release of a version
    BUDGET = "budget"  # it is used up
    LATE = "late"  # data or labels


URGENT = frozenset({NightEvent.FAILED, NightEvent.ROLLED_BACK, NightEvent.BUDGET})


def _checked_hours(hours: str) -> str:
    start, _, end = hours.partition("-")
    if not _HOURS.fullmatch(hours) or start == end:
        raise ValueError("takes two different times of day, such as '22:00-07:00'")
    return hours


class Receiver(ConfigSection):
    """One who is notified."""

    variable: str = Field(
        pattern=f"^{PREFIX}(_[A-Z0-9]+)*$",
        max_length=100,
        description="environment variable that holds the receiver's URL, which is a secret: https://..., "
        "slack+https://..., pagerduty+https://KEY@..., smtps://...",
    )
    events: list[NightEvent] = Field(list(NightEvent), min_length=1, description="what is reported; default: all")
    quiet_hours: Annotated[str, AfterValidator(_checked_hours)] | None = Field(
        None,
        description="when only what is urgent is sent (failed, rolled_back, budget), in notify.timezone: '22:00-07:00'",
    )
    digest_minutes: Annotated[int, annotated_types.Interval(ge=0, le=10_080)] = Field(
        60, description="shortest time between two messages; what happens meanwhile is in the next one"
    )

    def is_quiet(self, moment: datetime) -> bool:
        """Return whether a time, by the clock of the quiet hours, is within them."""
        if self.quiet_hours is None:
            return False
        start, end = (time.fromisoformat(clock) for clock in self.quiet_hours.split("-"))
        now = moment.time()
        return start <= now < end if start < end else not end <= now < start


class Notify(ConfigSection):
    """Who is notified of a night. See `nightshift/notify/`."""

    receivers: list[Receiver] = Field([], description="who is notified, each by a variable of its own")
    timezone: TimeZone = Field("UTC", description="IANA name of the zone of quiet hours; UTC is the schedule's")
    base_url: str = Field(
        "", pattern=r"^(https?://\S+)?$", description="URL of `nightshift ui`; default: messages link to the report"
    )

    @model_validator(mode="after")
    def _variables_differ(self) -> Self:
        names = [receiver.variable for receiver in self.receivers]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"'receivers' has {repeated} twice; give each receiver a variable of its own")
        return self
