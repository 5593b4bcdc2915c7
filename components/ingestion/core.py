"""One day's rows: under canonical names and types, the good parted from the bad, the good held to a schema."""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa

from components.common.config import Config
from components.common.config.source import Columns
from components.ingestion import columns as read

IDS = ("event_id", "customer", "terminal")
REASON = "quarantine_reason"


@dataclass(frozen=True)
class Split:
    """A day's rows after the rules.

    Attributes:
        good: the events partition, sorted by event_time and event_id.
        bad: the rejected rows, every column of the user's as text, and `quarantine_reason`, the rule that rejected it.
        id_types: `integer` or `text` for each of event_id, customer and terminal that is given.
    """

    good: pd.DataFrame
    bad: pd.DataFrame
    id_types: dict[str, str]

    @property
    def quarantined(self) -> dict[str, int]:
        """Rule -> rows it rejected, without rules that rejected none."""
        return {str(rule): int(rows) for rule, rows in self.bad[REASON].value_counts().sort_index().items()}


def split(raw: pd.DataFrame, config: Config, day: date, labels_due: bool, text_ids: Collection[str] = ()) -> Split:
    """Part a day's good rows from its bad ones; no row is lost.

    Args:
        raw: the day's rows under the user's column names, any dtypes.
        config: the use case.
        day: the UTC day that the rows are said to be of.
        labels_due: whether a missing label is an error by now.
        text_ids: which of event_id, customer and terminal stay text, even when all are numbers.

    Raises:
        UserError: when there are no rows, columns are missing, or a column holds nothing of its type.
    """
    read.require(raw, config.columns)
    typed = _typed(raw, config, text_ids)
    _check_types(raw, typed, config.columns, labels_due)
    reasons = _reasons(raw, typed, config.columns, day, labels_due)
    types = {role: "integer" if typed[role].dtype == "Int64" else "text" for role in _ids(config.columns)}
    bad = raw.loc[reasons.notna()]
    bad = pd.DataFrame({column: read.texts(bad[column]) for column in bad})
    bad[REASON] = reasons.dropna().astype(str)
    good = _good(typed.loc[reasons.isna()], types)
    return Split(schema(config.columns, types, labels_due).validate(good), bad.reset_index(drop=True), types)


def schema(columns: Columns, id_types: dict[str, str], labels_due: bool) -> pa.DataFrameSchema:
    """Return the contract of an events partition: these columns, in this order, and no others."""
    ids = {role: pa.Column("int64" if kind == "integer" else str) for role, kind in id_types.items()}
    finite = pa.Check(np.isfinite, name="finite")
    # pandera takes one unit of time for another
    microseconds = pa.Check(lambda times: times.dtype == "datetime64[us]", name="microseconds")
    roles = ids | {
        "event_time": pa.Column("datetime64[us]", microseconds),
        "amount": pa.Column("float64", [pa.Check.ge(0), finite]),
        "label": pa.Column("Int8", pa.Check.isin((0, 1)), nullable=not labels_due),
    }
    return pa.DataFrameSchema(
        {role: roles[role] for role in columns.roles}
        | {name: pa.Column("float64", finite) for name in columns.numeric}
        | {name: pa.Column(str) for name in columns.categorical},
        strict=True,
        ordered=True,
        unique=["event_id"],
    )


def examples(bad: Iterable[pd.DataFrame], columns: Columns, rule: str) -> list[str]:
    """Return the first three rows that a rule rejected, one text a row, identifiers masked.

    Args:
        bad: frames as in `Split.bad`.
        columns: the user's names.
        rule: the rule.
    """
    masked = {columns.roles[role] for role in _ids(columns)}
    rejected = pd.concat([frame[frame[REASON] == rule] for frame in bad])
    # further numbers are many, and of interest where one of them is at fault
    shown = [*columns.roles.values(), *(columns.numeric if rule == "bad_number" else [])]
    rows = rejected[shown].head(3).astype(object)
    return [
        ", ".join(f"{name}={_mask(value) if name in masked else _shown(value)}" for name, value in row.items())
        for row in rows.to_dict("records")
    ]


def _mask(value: Any) -> str:
    return _shown(value) if pd.isna(value) else f"{str(value)[: len(str(value)) // 2]}***"


def _shown(value: Any) -> str:
    return "(missing)" if pd.isna(value) else str(value)[:40]


def _typed(raw: pd.DataFrame, config: Config, text_ids: Collection[str]) -> pd.DataFrame:
    """Return the canonical columns, null where a value cannot be read."""
    readers: dict[str, Callable[[pd.Series], pd.Series]] = {
        **{role: partial(read.ids, as_text=role in text_ids) for role in IDS},
        "event_time": partial(read.times, timezone=config.source.timezone),
        "amount": read.numbers,
        "label": read.labels,
    }
    frame = pd.DataFrame(index=raw.index)
    for role, name in config.columns.roles.items():
        frame[role] = readers[role](raw[name])
    for name in config.columns.numeric:
        frame[name] = read.numbers(raw[name])
    for name in config.columns.categorical:
        # nothing is a category too, and its name is the empty text, as in a CSV file
        frame[name] = read.texts(raw[name]).fillna("").astype(str)
    return frame


def _check_types(raw: pd.DataFrame, typed: pd.DataFrame, columns: Columns, labels_due: bool) -> None:
    read.require_some(raw[columns.event_time], typed["event_time"], read.TIME)
    if labels_due:  # before, a few bad labels may be the only ones
        read.require_some(raw[columns.label], typed["label"], read.LABEL)
    if columns.amount:
        read.require_some(raw[columns.amount], typed["amount"], read.NUMBER)
    for name in columns.numeric:
        read.require_some(raw[name], typed[name], read.NUMBER)


def _reasons(raw: pd.DataFrame, typed: pd.DataFrame, columns: Columns, day: date, labels_due: bool) -> pd.Series:
    """Return for each row the first rule that rejects it, or null."""
    labelled = read.given(raw[columns.label])
    broken = {
        "missing_key": typed[_ids(columns)].isna().any(axis=1),
        "unparsable_time": typed["event_time"].isna(),
        "outside_day": typed["event_time"].dt.floor("D") != pd.Timestamp(day),
        "bad_amount": _bad_amounts(typed),
        "bad_number": ~np.isfinite(typed[columns.numeric]).all(axis=1),
        "unknown_label": labelled & typed["label"].isna(),
        "missing_label": ~labelled & labels_due,
    }
    reasons = pd.Series(None, typed.index, dtype=object)
    for rule, rows in reversed(broken.items()):
        reasons[rows] = rule
    # of rows that share an id the first good one stays
    repeated = typed.loc[reasons.isna(), "event_id"].duplicated()
    reasons[repeated.index[repeated]] = "duplicate_id"
    return reasons


def _bad_amounts(typed: pd.DataFrame) -> pd.Series:
    if "amount" not in typed:
        return pd.Series(False, typed.index)
    bad: pd.Series = ~(np.isfinite(typed["amount"]) & (typed["amount"] >= 0))
    return bad


def _ids(columns: Columns) -> list[str]:
    """Return the identifiers that the use case has."""
    return [role for role in IDS if role in columns.roles]


def _good(typed: pd.DataFrame, id_types: dict[str, str]) -> pd.DataFrame:
    dtypes: dict[Hashable, Any] = {role: "int64" if kind == "integer" else str for role, kind in id_types.items()}
    return typed.astype(dtypes).sort_values(["event_time", "event_id"], kind="stable", ignore_index=True)
