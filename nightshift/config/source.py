"""Where the events come from: files, columns, or the embedded simulator."""

import re
from datetime import date, timedelta
from typing import Annotated, Literal, Self, get_args
from zoneinfo import ZoneInfo

import annotated_types
from pydantic import AfterValidator, Field, field_validator, model_validator

from nightshift.config.section import CLASSES, DaysOrNone, Factor, Kind, Section, Seed, Share, only
from nightshift.dates import parse_date

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class Source(Section):
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


class Columns(Section):
    """The user's column name for each role."""

    event_id: str = Field(description="id of an event, which no other has on whatever day")
    event_time: str = Field(description="when it happened: timestamps, or ISO 8601 text")
    customer: str | None = only(
        Kind.TABULAR,
        description="whose events they are: of a person, an account, a machine; without it each stands alone",
    )
    terminal: str | None = only(Kind.TABULAR, description="where they happen: at a shop, a device, a site")
    amount: str | None = only(Kind.TABULAR, description="what an event is worth; not negative")
    image: str | None = only(
        Kind.IMAGES, description="a file's bytes, its path below the data's folder, or its s3:// or gs:// URI"
    )
    text: str | None = only(Kind.TEXTS, description="text, or its bytes in UTF-8")
    group: str | None = only(
        *CLASSES, description="what belongs together, such as a patient or an author: never trained on and tested on"
    )
    label: str = Field(description="what is to be predicted: 0, 1, true or false; a class, where task has classes")
    numeric: list[str] = only(
        Kind.TABULAR, default=[], description="further numeric columns, used as model inputs as they are"
    )
    categorical: list[str] = only(Kind.TABULAR, default=[], description="further categorical columns, one-hot encoded")

    @model_validator(mode="after")
    def _no_column_twice(self) -> Self:
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise ValueError(f"column {twice[0]!r} is given more than one role; give each column one")
        ours = [name for name in (*self.numeric, *self.categorical) if name in ROLES or MADE.fullmatch(name)]
        if ours:
            raise ValueError(f"further column {ours[0]!r} has a name that is used inside the pipeline; rename it")
        return self

    @property
    def roles(self) -> dict[str, str]:
        """Canonical role -> the user's column name, of the roles that are given; without the extra columns."""
        return {role: name for role in ROLES if (name := getattr(self, role)) is not None}

    @property
    def names(self) -> list[str]:
        """The user's names of all columns that are read."""
        return [*self.roles.values(), *self.numeric, *self.categorical]

    @property
    def content(self) -> str | None:
        """The role of what an event holds as a whole, `image` or `text`; None where it is a row of a table."""
        return next((role for role in ("image", "text") if role in self.roles), None)


ROLES = ("event_id", "event_time", "customer", "terminal", "amount", "image", "text", "group", "label")
Entities = Annotated[int, annotated_types.Interval(ge=1, le=10_000_000)]
# columns that the features step and the scoring add
MADE = re.compile(r"score|during_(weekend|night)|(customer|terminal)_(count|mean_amount|risk)_\d+d")


def _checked_date(text: str) -> str:
    return str(parse_date(text))


class Simulator(Section):
    """The embedded data: the world's size, its seed, and what to spoil in it on purpose."""

    seed: Seed = 0
    customers: Entities = only(Kind.TABULAR, default=5000)
    terminals: Entities = only(Kind.TABULAR, default=10000)
    items: Entities = only(*CLASSES, default=200, description="images or texts a day")
    drift_from: Annotated[str, AfterValidator(_checked_date)] | None = Field(
        None, description="first day (YYYY-MM-DD) on which the drifts below apply"
    )
    volume_factor: Factor = Field(1.0, description="on counts, from drift_from")
    amount_factor: Factor = only(Kind.TABULAR, default=1.0, description="on amounts, from drift_from")
    night_fraud: bool = only(
        Kind.TABULAR,
        default=False,
        description="from drift_from, positives move to the night (00:00-06:59), and stolen cards buy as usual",
    )
    new_terminals: Share = only(
        Kind.TABULAR, default=0.0, description="share of terminals that new ones replace on drift_from"
    )
    new_scenario: Share = only(
        Kind.TABULAR,
        default=0.0,
        description="share of transactions that are, from drift_from, small purchases with copied cards: fraud",
    )
    digits: bool = only(
        Kind.IMAGES,
        default=False,
        description="true: scikit-learn's handwritten digits, each on one day in so many that all are used once; "
        "false: drawn shapes",
    )
    brightness_factor: Factor = only(Kind.IMAGES, default=1.0, description="on pixels, from drift_from")
    blur: Annotated[float, annotated_types.Interval(ge=0, le=16)] = only(
        Kind.IMAGES, default=0.0, description="radius in pixels, from drift_from"
    )
    new_class: Share = only(
        *CLASSES, default=0.0, description="share of items that are, from drift_from, of a class nobody has seen"
    )
    length_factor: Factor = only(Kind.TEXTS, default=1.0, description="on words of a text, from drift_from")
    new_words: Share = only(
        Kind.TEXTS, default=0.0, description="share of words that are, from drift_from, others than before"
    )
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
