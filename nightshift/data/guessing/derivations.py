"""What `source.columns` makes of other columns: an id that a file lacks, a time of its parts, a name that is free."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from nightshift.config.tabular import TabularColumns, TabularSource
from nightshift.data.guessing import words
from nightshift.data.guessing.numbers import ENOUGH
from nightshift.data.guessing.profiles import ColumnProfile
from nightshift.data.guessing.roles import TIME_OF_DAY, Choices
from nightshift.tasks.derived import derive

Derivations = dict[str, Any]  # derivations by name, as in the config
NUMBER, MOMENT = "row_number", "derived_time"
# part of a time -> the least and the most of it
PARTS = {"year": (1900, 2100), "month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59), "second": (0, 59)}
DATE = ("year", "month", "day")


def find(columns: Mapping[str, ColumnProfile], choices: Choices) -> tuple[Derivations, list[str]]:
    """Return the columns to derive, and a sentence about each; none where the file has its own."""
    derived, notes = Derivations(), []
    if not choices.event_id and not any(map(_is_id, columns.values())):
        derived[NUMBER] = "row_number"
        notes.append(
            "No column has an id of its own for each row, so rows are numbered (source.columns): append new rows at "
            "the end of a file, or --id takes a column."
        )
    parts = _find_parts(columns)
    if not choices.event_time and parts and not any(_is_time(column) for column in columns.values()):
        derived[MOMENT] = parts
        notes.append(f"The event's time is made of {', '.join(parts.values())} (source.columns).")
    chosen = {choices.event_id, choices.event_time, choices.label}
    for name in (name for name in columns if name not in chosen and TabularColumns.RESERVED.fullmatch(name)):
        derived[f"input_{name}"] = {"column": name}
        notes.append(f"{name!r} is a name of the pipeline's own; the column is called 'input_{name}' (source.columns).")
    return derived, notes


def apply(frame: pd.DataFrame, derived: Derivations, spelled: Mapping[str, Any]) -> pd.DataFrame:
    """Return rows with derived columns in place of those of which they are made.

    Args:
        frame: n rows as they are in the file.
        derived: name -> derivation, as in the config.
        spelled: how values are spelled, as `source.format`.
    """
    source = TabularSource.model_validate({"table": "guessed", "columns": derived, "format": spelled})
    parts = [name for how in derived.values() if isinstance(how, dict) for name in how.values()]
    return derive(frame, source).drop(columns=parts)


def _is_id(column: ColumnProfile) -> bool:
    return column.kind in ("whole", "text") and column.distinct >= ENOUGH * len(column.typed)


def _is_time(column: ColumnProfile) -> bool:
    return column.kind == "time" and column.missing < 1 - ENOUGH


def _find_parts(columns: Mapping[str, ColumnProfile]) -> dict[str, str]:
    """Return part of a time -> the column that has it; {} without year, month and day."""
    parts = {part: name for part in PARTS if (name := _find_part(columns, part))}
    if not all(part in parts for part in DATE):
        return {}
    date = {part: parts[part] for part in DATE}
    clocks = (name for name, column in columns.items() if words.split(name) == {"time"} and _is_clock(column))
    if clock := next(clocks, ""):
        return date | {"time": clock}
    for unit in ("hour", "minute", "second"):
        if unit not in parts:
            break
        date[unit] = parts[unit]
    return date


def _find_part(columns: Mapping[str, ColumnProfile], part: str) -> str:
    """Return the column whose name is a part's, and whose numbers may be it; empty where there is none."""
    named = (name for name in columns if words.split(name) == {part})
    return next((name for name in named if _may_be(columns[name], *PARTS[part])), "")


def _may_be(column: ColumnProfile, least: int, most: int) -> bool:
    """Return whether all values are whole numbers of a range, with leading zeros or without."""
    if column.kind not in ("whole", "text"):
        return False
    return bool(pd.to_numeric(column.typed, errors="coerce").between(least, most).all())


def _is_clock(column: ColumnProfile) -> bool:
    return column.kind == "text" and bool(column.typed.dropna().str.fullmatch(TIME_OF_DAY).all())
