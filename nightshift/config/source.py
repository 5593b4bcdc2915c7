"""Where the events come from: files, a database, or the embedded simulator."""

import codecs
import re
from datetime import date, timedelta
from string import Formatter
from typing import Annotated, Any, Literal, Self, get_args

import annotated_types
from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from nightshift.config.section import ConfigSection, DaysOrNone, Factor, Seed, Share, TimeZone
from nightshift.data.dates import parse_date

# the end of what ingestion says where a day has not arrived, by which a late delivery is known from other failures
EMPTY_DAYS = "set source.empty_days in the config if such days are right"
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


Epoch = Literal["epoch_seconds", "epoch_milliseconds", "epoch_microseconds", "epoch_nanoseconds"]
OTHER_DAYS = (date(2024, 1, 2), date(2024, 1, 3), date(2024, 2, 2), date(2025, 1, 2))  # in day, month or year
DIRECTIVES = "aAbBdfHImMpSyYzZ"  # strptime's directives, as far as pandas reads them; Z names a zone
ALTERNATIVES = ("d", "bBm", "yY", "HI", "zZ")  # a time has one of each, at most


def _checked_pattern(pattern: str) -> str:
    directives = re.findall("%(.?)", pattern)
    if not set(directives) <= set(DIRECTIVES) or not all(set(directives) & set(part) for part in ("d", "bBm", "yY")):
        raise ValueError(
            f"not a spelling of times; give one of {', '.join(get_args(Epoch))}, or a pattern with day, month and "
            f"year such as '%d.%m.%Y %H:%M', of %{', %'.join(DIRECTIVES)}"
        )
    for fields in (*ALTERNATIVES, *DIRECTIVES):
        if sum(directive in fields for directive in directives) > 1:
            raise ValueError(f"has more than one of %{', %'.join(fields)}; keep the one that times are spelled with")
    if ("I" in directives) != ("p" in directives):
        raise ValueError("has one of %I and %p; write both for 02:30 PM, and %H alone for 14:30")
    return pattern


TimePattern = Annotated[str, AfterValidator(_checked_pattern), StringConstraints(max_length=100)]


def _names_days(template: str) -> bool:
    """Return whether a template gives each day a name of its own."""
    try:
        fields = {field for _, field, _, _ in Formatter().parse(template)} - {None}
        return fields == {"date"} and len({template.format(date=day) for day in OTHER_DAYS}) == len(OTHER_DAYS)
    except ValueError:  # a brace without its other
        return False


class FileFormat(ConfigSection):
    """How values are spelled in the files; the defaults are what `nightshift` writes itself.

    What a file is, and whether it is compressed with gzip or zip, is told by its name and its content.
    """

    encoding: str = Field("utf-8", description="of CSV: 'utf-16', 'cp1252'")
    separator: str = Field(",", min_length=1, max_length=1, description="between the fields of CSV: ';', '|', a tab")
    quote: Literal['"', "'"] = Field('"', description="around fields of CSV that hold a separator")
    escape: Literal["", "\\"] = Field(
        "", description="before a quote in a quoted field of CSV: a backslash; default: the quote is written twice"
    )
    sheet: str | None = Field(None, description="of an Excel workbook; default: the first")
    preamble_lines: Annotated[int, annotated_types.Interval(ge=0, le=1000)] = Field(
        0, description="lines of CSV, or rows of Excel, before the header"
    )
    skip_rows: list[str] = Field(
        [], description="rows whose first field is one of these are left out: 'Total', or a header that is repeated"
    )
    missing: list[str] = Field([], description="texts that stand for no value, beside the empty one: 'n/a', '-'")
    decimal: Literal[".", ","] = Field(".", description="mark before the decimals of a number")
    thousands: Literal["", ".", ",", " ", "'"] = Field("", description="mark between groups of digits of a number")
    units: list[Annotated[str, StringConstraints(min_length=1, max_length=20)]] = Field(
        [], description="texts before or after a number that are left out: '€', 'EUR', '%'"
    )
    times: list[Epoch | TimePattern] = Field(
        [],
        description="spellings of event times, the first that fits counts: '%d.%m.%Y %H:%M' as for strptime, or "
        "epoch_milliseconds; default: ISO 8601",
    )

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, name: str) -> str:
        try:
            "".encode(name)  # which a codec of bytes, such as base64, refuses
            return codecs.lookup(name).name
        except (LookupError, ValueError):
            raise ValueError("not an encoding of text; give one of Python's, such as 'cp1252' or 'utf-16'") from None

    @model_validator(mode="after")
    def _marks_differ(self) -> Self:
        if self.decimal == self.thousands:
            raise ValueError(f"'decimal' and 'thousands' are both {self.decimal!r}; give different marks")
        return self


# what may tell a time of day
HOURS_OF_DAY: tuple[set[str], ...] = (set(), {"time"}, {"hour"}, {"hour", "minute"}, {"hour", "minute", "second"})
LAYOUTS = {
    "files": "by day",
    "table": "all days in one",
    "query": "of a database",
    "delta": "a Delta Lake table",
    "iceberg": "an Iceberg table",
    "topic": "of Kafka",
}


def _checked_query(query: str) -> str:
    if re.search(r"""['"]\{(next_)?date\}""", query):
        raise ValueError("{date} is bound as a value, not pasted as text; write it without quotes")
    return query.strip().removesuffix(";").rstrip()


Query = Annotated[str, AfterValidator(_checked_query), StringConstraints(min_length=1)]


class DerivedColumn(ConfigSection):
    """A column made of others as files are read: a row's number, a time of its parts, an outcome, or another name."""

    row_number: bool = Field(
        False, description="true, or the text row_number: the row's place in its file, from 1, beside the file's name"
    )
    date: str | None = Field(None, description="of a time: the column of its date, spelled as source.format.times says")
    year: str | None = Field(None, description="of a time: the column of its year; with month and day, without date")
    month: str | None = Field(None, description="of a time: the column of its month, 1 to 12")
    day: str | None = Field(None, description="of a time: the column of its day of the month")
    time: str | None = Field(None, description="of a time: the column of its time of day, such as 14:30 or 2:30 PM")
    hour: str | None = Field(None, description="of a time: the column of its hour, 0 to 23; without time")
    minute: str | None = Field(None, description="of a time: the column of its minute, with hour")
    second: str | None = Field(None, description="of a time: the column of its second, with minute")
    column: str | None = Field(
        None, description="the column that gets another name; or of an outcome, with one of the next three"
    )
    is_null: bool | None = Field(None, description="of an outcome: true: 1 where no value is; false: where one is")
    equals: str | int | float | bool | None = Field(None, description="of an outcome: 1 where this is the value")
    above: float | None = Field(None, description="of an outcome: 1 where the column's number is larger than this")

    @model_validator(mode="before")
    @classmethod
    def _named_by_a_word(cls, value: Any) -> Any:
        return {"row_number": True} if value == "row_number" else value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        keys = {*self.model_dump(exclude_defaults=True)}
        outcomes = [{"column", how} for how in ("is_null", "equals", "above")]
        dated, timed = keys & {"date", "year", "month", "day"}, keys & {"time", "hour", "minute", "second"}
        is_time = dated in ({"date"}, {"year", "month", "day"}) and timed in HOURS_OF_DAY and keys == dated | timed
        if not (keys in ({"row_number"}, {"column"}, *outcomes) or is_time):
            raise ValueError(
                "takes row_number, {column: ...} alone or with is_null:, equals: or above:, or a time: {date: ...} or "
                "{year:, month:, day:}, with time: or with hour:, minute: and second: where there are such columns"
            )
        return self

    @property
    def is_renamed(self) -> bool:
        """Whether a column only gets another name."""
        return self.model_dump(exclude_defaults=True).keys() == {"column"}

    @property
    def parts(self) -> dict[str, str]:
        """Part -> the file's column that it is made of."""
        names = {"date", "year", "month", "day", "time", "hour", "minute", "second", "column"}
        return self.model_dump(include=names, exclude_none=True)


class Source(ConfigSection):
    """How the data lies where the data URI says: files by day, one table that holds all days, a query or a topic."""

    files: str | None = Field(
        None,
        description="name of a day's file, with {date}: '{date}.parquet', or '{date:%Y%m%d}.csv' for 20251231.csv; of "
        "several, with *: '{date}-*.tar'",
    )
    table: str | None = Field(None, description="name of one table with all days: 'transactions.csv'")
    query: Query | None = Field(
        None,
        description="SQL that returns a day's rows, with {date} and {next_date} where the dates are bound: "
        "'select * from bookings where booked_at >= {date} and booked_at < {next_date}'",
    )
    version: Query | None = Field(
        None,
        description="SQL whose answer changes whenever a day's rows do, so that they are read only then: "
        "'select count(*), max(updated_at) from bookings where ...'; default: the rows are read to see",
    )
    delta: str | None = Field(None, description="folder of a Delta Lake table below the data URI: 'events'")
    iceberg: str | None = Field(
        None,
        description="an Apache Iceberg table: its folder below the data URI, or its name in the catalog that the data "
        "URI names, as in 'sales.events' of 'iceberg://prod'",
    )
    topic: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,249}$",
        description="a Kafka topic of JSON objects; the data URI names its brokers: 'kafka://host:9092'",
    )
    format: FileFormat = Field(FileFormat(), description="how values are spelled; `nightshift config guess` finds it")
    columns: dict[str, DerivedColumn] = Field(
        {},
        description="name -> a column that the files lack, made of others; `columns` and requests name it as any",
    )
    timezone: TimeZone = Field(
        "UTC", description="IANA name of the zone of times that carry none, and by whose clock nights and weekends are"
    )
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
        if sum(getattr(self, name) is not None for name in LAYOUTS) != 1:
            allowed = ", ".join(f"{name!r} ({meaning})" for name, meaning in LAYOUTS.items())
            raise ValueError(f"give exactly one of {allowed}")
        if self.files is not None and not _names_days(self.files):
            raise ValueError(
                f"'files' is {self.files!r} but must contain {{date}}, as in '{{date}}.parquet', or a spelling of day, "
                "month and year, as in '{date:%Y%m%d}.csv'; no other braces"
            )
        return self

    @model_validator(mode="after")
    def _derived_of_files(self) -> Self:
        if self.columns and not (self.files or self.table):
            raise ValueError(
                f"'columns' derives {', '.join(self.columns)}, which only 'files' and 'table' take; write it where the "
                "rows come from, such as in the query"
            )
        return self

    @model_validator(mode="after")
    def _query_of_a_day(self) -> Self:
        if self.query is not None and "{date}" not in self.query:
            raise ValueError("'query' must contain {date}, as in 'where booked_at >= {date}'")
        if self.version is not None and self.query is None:
            raise ValueError("'version' belongs to 'query'; a file's version is its hash")
        return self

    def is_closed(self, day: date) -> bool:
        """Return whether nothing is expected of a UTC day, not even a file."""
        return isinstance(self.empty_days, list) and get_args(Weekday)[day.weekday()] in self.empty_days

    def may_be_empty(self, day: date) -> bool:
        """Return whether a UTC day may have no rows."""
        return self.empty_days == "allowed" or self.is_closed(day)

    @property
    def pattern(self) -> str:
        """The layout in use where that is files or a query: the daily template, the table's name or the query."""
        return self.files or self.table or self.query or ""


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
