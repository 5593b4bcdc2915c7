"""Where the events come from: files, or the embedded simulator."""

from datetime import date, timedelta
from typing import Annotated, Literal, Self, get_args
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, field_validator, model_validator

from nightshift.config.section import ConfigSection, DaysOrNone, Factor, Seed, Share
from nightshift.dates import parse_date

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class Source(ConfigSection):
    """How the data lies below the data URI: files by day, or one table that holds all days."""

    files: str | None = Field(
        None, description="name of a day's file, with {date}: '{date}.parquet'; of several, with *: '{date}-*.tar'"
    )
    table: str | None = Field(None, description="name of one table with all days: 'transactions.csv'")
    timezone: str = Field("UTC", description="IANA name of the zone of times that carry none")
    empty_days: Literal["refused", "allowed"] | list[Weekday] = Field(
        "refused",
        description="allowed: any UTC day may have no rows, in the table or in its file, which has to be there; "
        "[sunday]: these weekdays may, and need no file",
    )
    corrections: bool = Field(
        False,
        description="true: a row whose event id came on an earlier day replaces that row; false: it is quarantined",
    )

    @model_validator(mode="after")
    def _one_layout(self) -> Self:
        if (self.files is None) == (self.table is None):
            raise ValueError("give exactly one of 'files' (by day) and 'table' (all days in one)")
        if self.files is not None and "{date}" not in self.files:
            raise ValueError(f"'files' is {self.files!r} but must contain {{date}}, as in '{{date}}.parquet'")
        return self

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            return ZoneInfo(name).key
        except (KeyError, ValueError, OSError):
            raise ValueError("not a time zone; give an IANA name, such as 'Europe/Paris'") from None

    def is_closed(self, day: date) -> bool:
        """Return whether nothing is expected of a UTC day, not even a file."""
        return isinstance(self.empty_days, list) and get_args(Weekday)[day.weekday()] in self.empty_days

    def may_be_empty(self, day: date) -> bool:
        """Return whether a UTC day may have no rows."""
        return self.empty_days == "allowed" or self.is_closed(day)

    @property
    def pattern(self) -> str:
        """The layout in use: the daily template or the table's name."""
        return self.files or self.table or ""


def _checked_date(text: str) -> str:
    return str(parse_date(text))


class Simulator(ConfigSection):
    """The embedded data: its seed, and what to spoil in it on purpose; a task adds how large its world is."""

    seed: Seed = 0
    drift_from: Annotated[str, AfterValidator(_checked_date)] | None = Field(
        None, description="first day (YYYY-MM-DD) on which the drifts below apply"
    )
    volume_factor: Factor = Field(1.0, description="on counts, from drift_from")
    label_lateness_days: DaysOrNone = Field(
        0, description="days by which labels of days from drift_from arrive after the label delay"
    )
    corrupt_share: Share = Field(0.0, description="share of each day's rows that are corrupted, one rule each in turn")

    def drifts(self, on: date) -> bool:
        """Return whether the drifts apply on a day."""
        return self.drift_from is not None and str(on) >= self.drift_from

    def labels_arrived(self, on: date, labels_due: date) -> bool:
        """Return whether a day's labels are there, when those up to `labels_due` should be."""
        late = self.label_lateness_days if self.drifts(on) else 0
        return on + timedelta(days=late) <= labels_due
