"""Which column is the id, the time, the label, whose events they are, and what is left for a model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from nightshift.config.multiclass import MulticlassColumns
from nightshift.config.regression import RegressionColumns
from nightshift.config.tabular import TabularColumns
from nightshift.data.guessing import class_roles, labels, leaks, number_roles, words
from nightshift.data.guessing.numbers import ENOUGH
from nightshift.data.guessing.profiles import MOST_CATEGORIES, ColumnProfile
from nightshift.runtime.errors import UserError, check_names

Profiles = Mapping[str, ColumnProfile]
FEWEST_EVENTS = 2  # an entity has on average, or its windows are empty
MIN_ENTITIES = 20  # half as many customers or places: fewer are categories
ALLOWED_MISSING = 0.005  # share of the amounts, whose rows are quarantined
MOST_DECIMALS = 6
IN_ORDER = 0.9  # correlation of times with the numbers of their rows
FEATURE_ROLES = ("event_id", "customer", "terminal", "amount")
TIME_OF_DAY = re.compile("[0-2]?[0-9]:[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?( ?[AaPp][Mm])?")
OPEN_END = pd.Timestamp(2100, 1, 1)  # from which on a time stands for none, as 9999-12-31 does


@dataclass(frozen=True)
class Choices:
    """What a person has said about a table; None where the data is to show it."""

    label: str | None = None
    positive: tuple[str, ...] = ()
    event_time: str | None = None
    event_id: str | None = None
    day_first: bool | None = None
    timezone: str = "UTC"
    label_delay_days: int | None = None
    empty_days: bool = False  # whether nothing is lost on days without rows


@dataclass
class Roles:
    """What the columns of a table are for.

    Attributes:
        columns: as in the config's section.
        limits: as in the config's section.
        settings: of `source.format`: spellings of times and labels.
        label: 1 and 0, numbers, or those of classes, as float64, NaN where it is not known.
        event_time: naive UTC, NaT for open ends.
        decimals: of amounts.
        delays: column of times after the event -> days from the event to each, those there are.
        notes: sentences that say what was assumed, and why.
        left_out: column -> why it is in no role.
        is_number: whether the label is a number, and not one of two.
        classes: of a label that is one of several; [] of any other.
        events: column `event_time`, and those of roles and categories that features are made of.
    """

    label: pd.Series
    event_time: pd.Series
    columns: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    decimals: int = 2
    delays: dict[str, pd.Series] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    is_number: bool = False
    classes: list[str] = field(default_factory=list)
    events: pd.DataFrame = field(default_factory=pd.DataFrame)


def assign(profiles: Profiles, choices: Choices) -> Roles:
    """Return what the columns are for.

    Raises:
        UserError: when no column can be the id, the time or the label, or several can, with the flag that says which.
    """
    for flag, name in (("--label", choices.label), ("--time", choices.event_time), ("--id", choices.event_id)):
        check_names(flag, [name] if name else [], profiles)
    event_time, time_note = _find_time(profiles, choices)
    event_id, id_note = _find_id(profiles, choices)
    label = choices.label or labels.find(
        {name: column for name, column in profiles.items() if name not in (event_time, event_id)}
    )
    _require_order(profiles[event_time])
    is_number = labels.is_number(profiles[label]) and not choices.positive
    classes = [] if choices.positive or is_number else labels.list_classes(profiles[label])
    if classes:
        outcome = labels.BinaryLabel(labels.number_classes(profiles[label], classes), [], [])
    elif is_number:
        outcome = labels.BinaryLabel(profiles[label].typed, [], [])
    else:
        outcome = labels.read(profiles[label], choices.positive)
    times = profiles[event_time].typed
    times = times.mask(times >= OPEN_END)
    roles = Roles(outcome.known, times, {"event_id": event_id, "event_time": event_time}, is_number=is_number)
    roles.classes = classes
    spelled = profiles[event_time].spelled
    roles.settings = {"times": spelled.times if spelled else []} | outcome.settings
    roles.notes += [
        *([spelled.reason] if spelled and spelled.reason else []),
        *time_note,
        *id_note,
        _describe_target(profiles[label], outcome, roles, profiles),
    ]
    others = {name: column for name, column in profiles.items() if name not in (event_id, event_time, label)}
    rest = _without_leaks(others, roles)
    entities: dict[str, Any] = (
        {"series": number_roles.find_series(rest)} if is_number else {**_find_entities(rest, roles)}
    )
    roles.columns |= {role: names for role, names in entities.items() if names} | {"label": label}
    named = {*entities.get("series", []), *(name for name in roles.columns.values() if isinstance(name, str))}
    _sort_inputs({name: column for name, column in rest.items() if name not in named}, roles)
    roles.notes.append(f"The columns: {_list_roles(roles.columns)}.")
    roles.events = _collect_events(profiles, roles)
    return roles


def _collect_events(profiles: Profiles, roles: Roles) -> pd.DataFrame:
    """Return what features are made of: identifiers as they are ingested, amounts, categories."""
    categories = {name: name for name in roles.columns.get("categorical", [])}
    names = {role: roles.columns[role] for role in FEATURE_ROLES if role in roles.columns} | categories
    values = {role: profiles[name].typed for role, name in names.items()}
    whole = [role for role, name in names.items() if role != "amount" and profiles[name].kind == "whole"]
    return pd.DataFrame({"event_time": roles.event_time, "label": roles.label, **values}).astype(
        dict.fromkeys(whole, "Int64")
    )


def _list_roles(columns: Mapping[str, Any]) -> str:
    names = {role: ", ".join(named) if isinstance(named, list) else named for role, named in columns.items()}
    return "; ".join(f"{role} is {name}" for role, name in names.items())


def _describe_target(column: ColumnProfile, outcome: labels.BinaryLabel, roles: Roles, profiles: Profiles) -> str:
    if roles.is_number:
        return _describe_number(column, profiles)
    return class_roles.describe(column, roles.classes) if roles.classes else _describe(column.name, outcome, profiles)


def _describe(label: str, outcome: labels.BinaryLabel, profiles: Profiles) -> str:
    rows = f"{int(outcome.known.sum()):,} of {len(outcome.known):,} rows are positive"
    negative = f"; {', '.join(outcome.negative)[:100]} {'is' if len(outcome.negative) == 1 else 'are'} negative"
    spelled = f" ({', '.join(outcome.positive)}{negative})" if outcome.positive else ""
    others = [name for name, column in profiles.items() if column.distinct == 2 and name != label]
    hint = f" --label takes another column, such as {', '.join(others)}." if others else ""
    return f"{label!r} is what is predicted: {rows}{spelled}.{hint}"


def _describe_number(column: ColumnProfile, profiles: Profiles) -> str:
    others = [name for name, other in profiles.items() if other.distinct == 2]
    hint = f" --label takes another column, such as {', '.join(others)}." if others else ""
    low, high = column.typed.min(), column.typed.max()
    return f"{column.name!r} is what is predicted: a number, {low:g} to {high:g} ({column.distinct:,} values).{hint}"


def _find_time(profiles: Profiles, choices: Choices) -> tuple[str, list[str]]:
    """Return the column of times that is earliest on most rows, and a sentence where there are others.

    The others are of what came of the event; those before it, such as a date of birth, are in no order of rows.
    """
    times = {name: column for name, column in profiles.items() if column.kind == "time" and column.missing < 1 - ENOUGH}
    if choices.event_time:
        if profiles[choices.event_time].kind != "time":
            raise UserError(_no_time(profiles, f"column {choices.event_time!r} holds no times that can be read"))
        return choices.event_time, []
    if not times:
        raise UserError(_no_time(profiles, "no column holds times that can be read"))
    ordered = [name for name, column in times.items() if _follows_rows(column.typed)] or [*times]
    earliest = min(ordered, key=lambda name: (times[name].typed.astype("int64").median(), ordered.index(name)))
    others = ", ".join(name for name in times if name != earliest)
    return earliest, [f"{earliest!r} is the event's time; --time takes another, such as {others}."] if others else []


def _follows_rows(moments: pd.Series) -> bool:
    """Return whether times rise or fall from row to row, on the whole."""
    is_constant = bool(moments.min() == moments.max())  # which correlates with nothing
    return not is_constant and abs(moments.rank().corr(pd.Series(moments.index))) > IN_ORDER


def _no_time(profiles: Profiles, fault: str) -> str:
    firsts = [f"{name}={column.first[:30]}" for name, column in profiles.items() if column.first]
    return (
        f"{fault}; its first row is {', '.join(firsts)[:300]}; write times such as 2025-12-31 14:30 or "
        "31.12.2025 14:30, with numbers or English names of months, in one column"
    )


def _find_id(profiles: Profiles, choices: Choices) -> tuple[str, list[str]]:
    """Return the column that has another value on each row, and a sentence where some rows share one, or by chance."""
    columns = {name: column for name, column in profiles.items() if column.kind in ("whole", "text")}
    if choices.event_id:
        columns = {choices.event_id: profiles[choices.event_id]}
    named = [name for name in columns if words.has_any(name, words.IDENTIFIER)]
    unique = [name for name, column in columns.items() if column.is_unique]
    if best := [name for name in unique if name in named]:
        return best[0], []
    if unique:
        return unique[0], [f"{unique[0]!r} is taken for the id, since each row has another value; --id takes another."]
    nearest = max(named or columns, key=lambda name: columns[name].distinct, default="")
    if not nearest or (columns[nearest].distinct < ENOUGH * len(columns[nearest].typed) and not choices.event_id):
        count = f"{nearest!r} comes nearest, with {columns[nearest].distinct:,} different values" if nearest else ""
        raise UserError(
            f"no column has an id of its own for each row{'; ' if count else ''}{count}; number the rows where the "
            "file is written, so that a row keeps its number, or give --id COLUMN if repeated rows may be left out"
        )
    repeated = len(columns[nearest].typed) - columns[nearest].distinct
    return nearest, [
        f"{repeated:,} rows repeat an id or have none: of one id the first row stays, the others are left out."
    ]


def _require_order(column: ColumnProfile) -> None:
    """Check that days and months of the event's time cannot be taken for each other.

    Raises:
        UserError: when they can.
    """
    if column.spelled and column.spelled.swapped:
        raise UserError(
            f"column {column.name!r} can be read with days first ({', '.join(column.spelled.times)}) or months first "
            f"({', '.join(column.spelled.swapped)}): no day is above 12; give --day-first or --month-first"
        )


def _without_leaks(columns: Profiles, roles: Roles) -> dict[str, ColumnProfile]:
    """Return the columns that a model may see, and note the others."""
    rest = dict[str, ColumnProfile]()
    for name, column in columns.items():
        if reason := _find_leak(column, roles):
            roles.left_out[name] = f"since {reason}"
            if column.kind == "time":
                roles.delays[name] = leaks.count_days(column.typed, roles.event_time)
            else:
                roles.left_out[name] += f"; was it known before the outcome? Then add it to {_list_keys(column)}"
        elif column.kind == "time":
            roles.left_out[name] = "another time"
        elif column.distinct < 2:
            roles.left_out[name] = "has one value" if column.distinct else "is empty"
        elif column.kind == "whole" and (column.typed.diff().iloc[1:].abs() == 1).all():
            roles.left_out[name] = "numbers the rows"
        else:
            rest[name] = column
    return rest


def _find_leak(column: ColumnProfile, roles: Roles) -> str:
    if roles.classes:
        return class_roles.find_leak(column, roles.label, roles.event_time, roles.classes)
    find_leak = number_roles.find_leak if roles.is_number else leaks.find_leak
    return find_leak(column, roles.label, roles.event_time)


def _rises_with_time(column: ColumnProfile, event_time: pd.Series) -> bool:
    """Return whether a number never falls from an event to a later one: seconds since a day, a ticket's number."""
    if column.kind not in ("whole", "number") or column.distinct <= MOST_CATEGORIES or column.typed.isna().any():
        return False
    numbers = column.typed.to_numpy(float)
    return bool((np.diff(numbers[np.lexsort((numbers, event_time))]) >= 0).all())


def _list_keys(column: ColumnProfile) -> str:
    """Return the keys of the config that name a column which is an input."""
    if column.kind not in ("whole", "number"):
        return "columns.categorical"
    return "columns.numeric and limits.nullable" if column.missing else "columns.numeric"


def _find_entities(columns: Profiles, roles: Roles) -> dict[str, str]:
    """Return the columns that say whose an event is, where it was and what it is worth, as far as their names do."""
    entities = dict[str, str]()
    for role, hints in (("customer", words.CUSTOMER), ("terminal", words.TERMINAL)):
        for name in sorted(columns, key=partial(words.count_others, words=hints)):
            column = columns[name]
            is_entity = (
                column.kind in ("whole", "text") and words.has_any(name, hints) and column.missing <= ALLOWED_MISSING
            )
            # a few values, such as kinds of devices, say what an event is like, not whose it is
            if is_entity and MIN_ENTITIES < column.distinct * FEWEST_EVENTS <= len(column.typed):
                entities.setdefault(role, name)
    amounts = [name for name, column in columns.items() if words.has_any(name, words.AMOUNT) and _is_amount(column)]
    if amounts and amounts[0] not in entities.values():
        entities["amount"] = amounts[0]
        roles.decimals = _count_decimals(columns[amounts[0]].typed)
        if negative := int((columns[amounts[0]].typed < 0).sum()):
            roles.limits["negative_amounts"] = True
            roles.notes.append(f"{negative:,} amounts are below 0; they are kept, as refunds.")
    return entities


def _is_amount(column: ColumnProfile) -> bool:
    is_number = column.kind in ("whole", "number") and column.missing <= ALLOWED_MISSING
    return is_number and column.distinct > 2 and _count_decimals(column.typed) <= MOST_DECIMALS


def _count_decimals(numbers: pd.Series) -> int:
    """Return the least decimals that are exact for all numbers, at least the usual two."""
    known = numbers.dropna()
    exact = (decimals for decimals in range(2, MOST_DECIMALS + 1) if (known.round(decimals) == known).all())
    return next(exact, MOST_DECIMALS + 1)


def _sort_inputs(columns: Profiles, roles: Roles) -> None:
    """Add what a model may use of the further columns, and note why others are left out."""
    section = RegressionColumns if roles.is_number else MulticlassColumns if roles.classes else TabularColumns
    for name, column in columns.items():
        is_key = column.kind == "whole" and words.has_any(name, words.KEY)
        if section.is_reserved(name):
            roles.left_out[name] = "its name is used inside the pipeline; rename it if a model is to see it"
        elif _rises_with_time(column, roles.event_time):
            roles.left_out[name] = "it only rises with the event's time; add it to columns.numeric if it says more"
        elif column.kind in ("whole", "number") and not is_key:
            roles.columns.setdefault("numeric", []).append(name)
            if column.missing:
                roles.limits.setdefault("nullable", []).append(name)
                share = f"{column.missing:.1%} of the numbers of {name!r} are missing"
                roles.notes.append(f"{share}; models take them as such.")
        elif column.kind == "text" and _completes(column, roles.event_time):
            roles.left_out[name] = (
                f"the time of day, which belongs in {roles.columns['event_time']!r}; write both there"
            )
        elif column.distinct <= MOST_CATEGORIES:
            roles.columns.setdefault("categorical", []).append(name)
        else:
            kind = "key" if is_key else "text"
            roles.left_out[name] = f"a {kind} with {column.distinct:,} values is no category"


def _completes(column: ColumnProfile, event_time: pd.Series) -> bool:
    """Return whether a column has the times of day of events whose times are dates."""
    hours = event_time.dropna() - event_time.dropna().dt.floor("D")
    # midnight of a zone with clock changes has two
    return hours.nunique() <= 2 and bool(column.typed.dropna().str.fullmatch(TIME_OF_DAY).all())
