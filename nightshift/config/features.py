"""The section `features`: which inputs a table's models get of the events before, a line for each group of them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import annotated_types
from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from nightshift.config.columns import Holds
from nightshift.config.section import ConfigSection
from nightshift.contracts.preprocessing import DAY, Calendar, Feature, FeatureSpec
from nightshift.data.aggregations import HALF_LIVES, Aggregation, Argument, Call, Reads, aggregations, parse_call
from nightshift.runtime.errors import nearest

UNITS = {"m": DAY // 1440, "h": DAY // 24, "d": DAY}  # microseconds
LONGEST = 3650 * DAY
MOST_EVENTS = 1000  # that a window of events may hold: an event that comes online reads them one by one
MOST_FEATURES = 200

DURATION = r"^[1-9]\d{0,6}[mhd]$"
WINDOW = r"^(last [1-9]\d{0,3} of )?[1-9]\d{0,6}[mhd]$"


def _check_duration(text: str) -> str:
    parse_duration(text)
    return text


def _check_window(text: str) -> str:
    if not re.fullmatch(WINDOW, text):
        raise ValueError("is no window; give minutes, hours or days such as 30m, 6h, 7d, or last 10 of 30d")
    return text


# the schema has the patterns, for editors; messages say it in words
Duration = Annotated[str, AfterValidator(_check_duration), Field(json_schema_extra={"pattern": DURATION})]
WindowText = Annotated[str, AfterValidator(_check_window), Field(json_schema_extra={"pattern": WINDOW})]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class FeatureLine(ConfigSection):
    """One line of the declaration: a preset, functions of an entity's events, a reference to them, or the calendar."""

    preset: Literal["payments"] | None = Field(
        None,
        description="payments: weekend and night, count and mean amount by customer, count and share of positives by "
        "terminal; of what the columns have",
    )
    entity: str | list[str] | None = Field(
        None, description="column by whose values events belong together, or up to three: roles, or names of columns"
    )
    functions: Annotated[list[str], annotated_types.Len(1, 50)] | None = Field(
        None, description="of the entity's events in each window; see docs/guides/features.md"
    )
    column: str | None = Field(None, description="amount or a numeric column; with distinct, any other column")
    windows: Annotated[list[WindowText], annotated_types.Len(1, 20)] | None = Field(
        None, description="lengths: 30m, 6h, 7d; or the newest events of one: last 10 of 30d"
    )
    offset: Duration | None = Field(None, description="how long before the event its windows end")
    with_event: bool = Field(True, description="false: windows leave the event itself out")
    name: Name | None = Field(None, description="what the names of the line's features begin with; default: the entity")
    ratio: str | None = Field(None, description="column to divide by the mean named in `to`, without the event itself")
    difference: str | None = Field(None, description="column from which the mean named in `to` is subtracted")
    zscore: str | None = Field(None, description="likewise, in standard deviations of the same window")
    to: str | None = Field(None, description="name of a mean that another line declares")
    calendar: list[Calendar] | None = Field(None, description="what a clock and a calendar of source.timezone show")

    @property
    def kind(self) -> str:
        """The key that says what the line is."""
        return next(key for key in KEYS if getattr(self, key) is not None)

    @property
    def entities(self) -> list[str]:
        """The columns of its entity."""
        return [self.entity] if isinstance(self.entity, str) else self.entity or []

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        kinds = [key for key in KEYS if getattr(self, key) is not None]
        if len(kinds) != 1:
            raise ValueError(f"a line has one of {', '.join(KEYS)}, this one {' and '.join(kinds) or 'none'}")
        allowed = ALLOWED[kinds[0]]
        changed = {name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default}
        if others := sorted(changed - {kinds[0], *allowed}):
            raise ValueError(f"{others[0]!r} does not go with {kinds[0]!r}; allowed: {', '.join(allowed) or 'nothing'}")
        for name in REQUIRED.get(kinds[0], ()):
            if getattr(self, name) is None:
                raise ValueError(f"{name!r} is missing, which goes with {kinds[0]!r}")
        return self

    @field_validator("windows", "functions", "calendar")
    @classmethod
    def _nothing_twice(cls, values: list[str] | None) -> list[str] | None:
        twice = next((value for value in values or [] if (values or []).count(value) > 1), None)
        if twice:
            raise ValueError(f"{str(twice)!r} is listed twice; give it once")
        return values


KEYS = ("preset", "entity", "ratio", "difference", "zscore", "calendar")
ALLOWED = {
    "preset": ("windows",),
    "entity": ("functions", "column", "windows", "offset", "with_event", "name"),
    "ratio": ("to",),
    "difference": ("to",),
    "zscore": ("to",),
    "calendar": (),
}
REQUIRED = {"entity": ("functions",), "ratio": ("to",), "difference": ("to",), "zscore": ("to",)}


@dataclass(frozen=True)
class TableColumns:
    """The columns that a declaration may name: name inside the pipeline -> what it holds.

    Attributes:
        holds: of every column that is read but the id, the time and the label.
        names: the user's name -> the one inside the pipeline.
        nullable: columns whose numbers may be missing.
    """

    holds: Mapping[str, Holds]
    names: Mapping[str, str]
    nullable: Sequence[str]

    def find(self, key: str, name: str, *kinds: Holds) -> str:
        """Return the name inside the pipeline of the column that a line has under a key.

        Raises:
            ValueError: when there is none that holds one of these kinds.
        """
        named: dict[str, str] = {**{own: own for own in self.holds}, **self.names}
        allowed = [text for text, own in named.items() if self.holds.get(own) in kinds]
        if name not in allowed:
            listed = ", ".join(allowed) or "nothing, since the table has no such column"
            raise ValueError(f"{key}: {name!r} cannot stand here; allowed: {listed}{nearest(name, allowed)}")
        return named[name]


def declare(
    lines: Sequence[FeatureLine], columns: TableColumns, decimals: int, delay_days: int, timezone: str
) -> FeatureSpec:
    """Return the features that some lines declare.

    Args:
        lines: of the config.
        columns: of the table.
        decimals: at which amounts are summed.
        delay_days: until a label is known.
        timezone: of the calendar.

    Raises:
        ValueError: naming the line and what to write.
    """
    features: dict[str, Feature] = {}
    calendar: list[Calendar] = []
    for number, line in enumerate(lines):
        try:
            calendar += _parse_calendar(line)
            for feature in _parse_line(line, columns, features):
                if feature.name in {*features, *Calendar}:
                    raise ValueError(f"the name {feature.name!r} is taken; give the line another 'name' to begin with")
                if feature.name in columns.holds:
                    raise ValueError(f"a feature and a column are called {feature.name!r}; rename the column in source")
                features[feature.name] = feature
            if len(features) > MOST_FEATURES:
                raise ValueError(f"more than {MOST_FEATURES} features in all; leave functions or windows out")
        except ValueError as error:
            raise ValueError(f"features.{number}: {error}") from None
    _check_calendar(calendar, columns)
    return FeatureSpec(
        features=list(features.values()),
        calendar=calendar,
        has_amount="amount" in columns.holds,
        amount_decimals=decimals,
        label_delay_days=delay_days,
        timezone=timezone,
    )


def _check_calendar(calendar: Sequence[Calendar], columns: TableColumns) -> None:
    for part in calendar:
        if calendar.count(part) > 1:
            raise ValueError(f"features: {part.value!r} is in two calendars; keep one")
        if part in columns.holds:
            raise ValueError(f"features: a calendar and a column have {part.value!r}; rename the column in source")


def _parse_calendar(line: FeatureLine) -> list[Calendar]:
    if line.kind == "preset":
        return [Calendar.IS_WEEKEND, Calendar.IS_NIGHT]
    return line.calendar or []


def _parse_line(line: FeatureLine, columns: TableColumns, features: Mapping[str, Feature]) -> Iterator[Feature]:
    if line.kind == "preset":
        for part in _expand_payments(line, columns):
            yield from _parse_entity(part, columns)
    elif line.kind == "entity":
        yield from _parse_entity(line, columns)
    elif line.kind != "calendar":
        yield _parse_reference(line, columns, features)


def _expand_payments(line: FeatureLine, columns: TableColumns) -> Iterator[FeatureLine]:
    windows = line.windows or ["1d", "7d", "30d"]
    if "customer" in columns.holds:
        mean = {"functions": ["count", "mean"], "column": "amount"} if "amount" in columns.holds else {}
        yield FeatureLine(**({"entity": "customer", "functions": ["count"], "windows": windows} | mean))
    if "terminal" in columns.holds:
        yield FeatureLine(entity="terminal", functions=["count", "positive_rate"], windows=windows)


def _parse_entity(line: FeatureLine, columns: TableColumns) -> Iterator[Feature]:
    if not 1 <= len(line.entities) <= 3 or len(set(line.entities)) < len(line.entities):
        raise ValueError(f"entity: has {len(line.entities)} columns; give one to three different ones")
    entity = [columns.find("entity", name, Holds.IDENTIFIER, Holds.CATEGORY) for name in line.entities]
    calls = [_parse_function(text) for text in line.functions or []]
    reads_labels = any(function.reads is Reads.LABEL for _, function in calls)
    if reads_labels and not line.with_event:
        raise ValueError("with_event: is false, and windows of labels end before the event anyway; leave it out")
    prefix = line.name or "_".join(line.entities)
    without_window = [call for call in calls if call[1].argument is Argument.HALF_LIFE]
    if line.windows is None and len(without_window) < len(calls):
        raise ValueError("windows: is missing; give lengths such as [1h, 7d, 30d]")
    for window in line.windows or []:
        for call, function in calls:
            if function.argument is not Argument.HALF_LIFE:
                yield _build_feature(line, (prefix, entity), call, function, columns, window, reads_labels)
    for call, function in without_window:
        yield _build_feature(line, (prefix, entity), call, function, columns, call.argument, reads_labels)


def _build_feature(
    line: FeatureLine,
    names: tuple[str, list[str]],
    call: Call,
    function: Aggregation,
    columns: TableColumns,
    window: str,
    reads_labels: bool,
) -> Feature:
    prefix, entity = names
    column = _find_column(line, call, function, columns)
    length, newest = parse_window(window)
    if newest and reads_labels:
        raise ValueError(f"windows: {window!r} counts events, and labels become known by time; give a length")
    argument = _parse_argument(call, function)
    if function.argument is Argument.HALF_LIFE:
        length *= HALF_LIVES
    parts = [prefix, call.name, call.argument, line.column if column else "", _shorten(window, call, line)]
    with_event = line.with_event and function.with_event and not reads_labels
    offset = parse_duration(line.offset) if line.offset else 0
    feature = Feature(
        name="_".join(filter(None, parts)),
        function=call.name,
        argument=argument,
        entity=entity,
        column=column,
        length=length,
        newest=newest,
        offset=offset,
        reads_labels=reads_labels,
        with_event=with_event,
        nullable=is_nullable(function, with_event, reads_labels, offset),
    )
    if feature.length + feature.offset > LONGEST:
        raise ValueError(f"{feature.name} reaches back more than {LONGEST // DAY} days; give shorter windows")
    return feature


def _shorten(window: str, call: Call, line: FeatureLine) -> str:
    """Return a window as names have it: 30d, last_10_of_30d; nothing where the function's argument says it."""
    length = "" if window == call.argument else window.replace(" ", "_")
    return "_".join(filter(None, [length, f"before_{line.offset}" if line.offset else ""]))


def is_nullable(function: Aggregation, with_event: bool, reads_labels: bool, offset: int) -> bool:
    """Return whether a feature may be missing: where its window can be empty, and nothing is said of no events."""
    may_be_empty = (not with_event or offset > 0) and not reads_labels
    return function.nullable or (may_be_empty and function.reads is Reads.NUMBER)


def _parse_function(text: str) -> tuple[Call, Aggregation]:
    call, known = parse_call(text), aggregations()
    function = known.get(call.name) if call else None
    if call is None or function is None:
        raise ValueError(f"functions: {text!r} is none; allowed: {', '.join(known)}{nearest(text, known)}")
    if bool(call.argument) != (function.argument is not Argument.NONE):
        wanted = f"{call.name}({function.argument.value})" if function.argument else f"{call.name} without parentheses"
        raise ValueError(f"functions: {text!r} is not complete; give {wanted}")
    return call, function


def _parse_argument(call: Call, function: Aggregation) -> int:
    if function.argument is Argument.COUNT:
        if not (call.argument.isdecimal() and 1 <= int(call.argument) <= MOST_EVENTS):
            raise ValueError(f"functions: {call.name}({call.argument}) takes 1 to {MOST_EVENTS} events")
        return int(call.argument)
    return parse_duration(call.argument) if call.argument else 0


def _find_column(line: FeatureLine, call: Call, function: Aggregation, columns: TableColumns) -> str | None:
    if function.reads in (Reads.NOTHING, Reads.LABEL):
        return None
    if line.column is None:
        raise ValueError(f"column: is missing, and {call.name} reads {function.reads}")
    if function.reads is Reads.VALUE:
        return columns.find("column", line.column, Holds.IDENTIFIER, Holds.CATEGORY)
    column = columns.find("column", line.column, Holds.AMOUNT, Holds.NUMBER)
    if column in columns.nullable:
        raise ValueError(f"column: numbers of {line.column!r} may be missing (limits.nullable); name another column")
    return column


def _parse_reference(line: FeatureLine, columns: TableColumns, features: Mapping[str, Feature]) -> Feature:
    column = columns.find(line.kind, getattr(line, line.kind), Holds.AMOUNT, Holds.NUMBER)
    means = [name for name, feature in features.items() if (feature.function, feature.column) == ("mean", column)]
    if line.to not in means:
        raise ValueError(
            f"to: {line.to!r} is no mean of {column!r} that a line above declares; these are: "
            f"{', '.join(means) or 'none'}{nearest(line.to or '', means)}"
        )
    update = {"name": f"{line.to}_{line.kind}", "function": line.kind, "with_event": False, "nullable": True}
    return features[line.to].model_copy(update=update)


def parse_window(text: str) -> tuple[int, int | None]:
    """Return a window's length in microseconds, and of how many newest events it is; None: all."""
    match = re.fullmatch(r"(?:last (\d+) of )?(\w+)", text)
    assert match, "the section sees to it"
    newest = int(match[1]) if match[1] else None
    if newest and newest > MOST_EVENTS:
        raise ValueError(f"windows: {text!r} holds {newest} events; give at most {MOST_EVENTS}")
    return parse_duration(match[2]), newest


def parse_duration(text: str) -> int:
    """Return how long `30m`, `6h` or `7d` is, in microseconds.

    Raises:
        ValueError: when it is spelled otherwise.
    """
    if not re.fullmatch(DURATION, text):
        raise ValueError(f"{text!r} is no duration; give minutes, hours or days such as 30m, 6h, 7d")
    return int(text[:-1]) * UNITS[text[-1]]
