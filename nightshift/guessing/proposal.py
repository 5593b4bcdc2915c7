"""The config that a table suggests: its days fitted into windows of training and test."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from nightshift.config import parse
from nightshift.errors import UserError
from nightshift.guessing.numbers import ENOUGH
from nightshift.guessing.roles import Choices, Roles
from nightshift.splits import Days, lookback, plan

LABEL_DELAY_DAYS = 7  # the schema's default
MIN_POSITIVES = 50  # of test days, which decide; the schema's default
FEWEST_POSITIVES = 20
WINDOWS: list[list[int]] = [[1, 7, 30], [1, 7, 14], [1, 7], [1]]
LENGTHS = ((14, 7), (14, 14), (21, 21), (28, 28), (7, 7))  # days of training and of test, the usual ones first
MOST_WEEKDAYS = 3  # without rows in a week that has some
FEW_ROWS = 500  # a day, with which chance exceeds the usual limits of drift
DAY = pd.Timedelta(days=1)
UTC_NOTE = "Times without a zone are taken for UTC; --timezone Europe/Berlin says otherwise."
CANDIDATES = {
    "xgboost": {
        "kind": "xgboost",
        "parameters": {
            "n_estimators": 100,
            "learning_rate": 0.1,
            "max_depth": 3,
            "tree_method": "hist",
            "max_bin": 1024,
        },
    },
    "logistic_regression": {"kind": "logistic_regression"},
}


@dataclass(frozen=True)
class Proposal:
    """A config and what it rests on.

    Attributes:
        config: as in a YAML file.
        notes: section -> sentences for its comment.
        days: the first and the last day that have rows.
        last: the last of them that is complete, the logical date of a first run.
    """

    config: dict[str, Any]
    notes: dict[str, list[str]]
    days: Days
    last: date


@dataclass(frozen=True)
class DailyCounts:
    """Rows, positives and rows without a label, by UTC day; index: all days from the first to the last, datetime64."""

    rows: pd.Series
    positives: pd.Series
    unlabeled: pd.Series

    @classmethod
    def from_roles(cls, roles: Roles) -> "DailyCounts":
        """Count rows by their days."""
        frame = pd.DataFrame({"rows": 1.0, "positive": roles.label, "unlabeled": roles.label.isna()})
        days = frame.groupby(roles.event_time.dt.floor("D").to_numpy()).sum().asfreq("D", fill_value=0)
        return cls(days["rows"], days["positive"], days["unlabeled"])

    def complete(self, newest: pd.Timestamp, timezone: str) -> "DailyCounts":
        """Return the days that have ended: the newest event's local day is taken to be whole.

        Args:
            newest: time of the newest event, naive UTC.
            timezone: zone by whose days the rows were collected.
        """
        midnight = newest.tz_localize("UTC").tz_convert(timezone).tz_localize(None).floor("D") + DAY
        end = midnight.tz_localize(timezone, ambiguous=False, nonexistent="shift_forward").tz_convert("UTC")
        last = end.tz_localize(None).floor("D") - DAY
        return DailyCounts(self.rows[:last], self.positives[:last], self.unlabeled[:last])

    @property
    def span(self) -> Days:
        """The first and the last day."""
        return Days(self.rows.index[0].date(), self.rows.index[-1].date())


def propose(name: str, source: dict[str, Any], roles: Roles, choices: Choices, notes: list[str]) -> Proposal:
    """Return the config for a table.

    Args:
        name: of the use case.
        source: how the files lie and are written.
        roles: what the columns are for.
        choices: what a person has said.
        notes: sentences about `source`.

    Raises:
        UserError: when the table has too few days.
    """
    counts = DailyCounts.from_roles(roles)
    days, counts = counts.span, counts.complete(roles.event_time.max(), choices.timezone)
    delays = _list_delays(counts, roles, choices)
    empty_days, empty_note = _settle_empty_days(counts)
    timezone: dict[str, Any] = {} if choices.timezone == "UTC" else {"timezone": choices.timezone}
    source = source | timezone | empty_days
    task: dict[str, Any] = {"kind": "tabular", "candidates": CANDIDATES, "amount_decimals": roles.decimals}
    config: dict[str, Any] = {
        "name": name,
        "label_delay_days": max(delays),
        "source": source,
        "columns": roles.columns,
        **({"limits": roles.limits} if roles.limits else {}),
        "task": task,
    }
    config, protocol_note = _fit_first([config | {"label_delay_days": delay} for delay in delays], counts)
    config["evaluation"] |= _evaluation(counts)
    config |= (drift := _drift(counts))
    return Proposal(
        config,
        {
            "label_delay_days": [delays[config["label_delay_days"]]],
            "source": [*notes, *([] if timezone else [UTC_NOTE]), *empty_note],
            "columns": [*roles.notes, *(f"Left out: {column!r}, {why}." for column, why in roles.left_out.items())],
            "protocol": protocol_note,
            "evaluation": ["What it costs to check an event, and to miss a positive, only you know."],
            "drift": ["With few rows a day, chance alone exceeds the usual limits."] if drift else [],
        },
        days,
        counts.span.last,
    )


def _list_delays(counts: DailyCounts, roles: Roles, choices: Choices) -> dict[int, str]:
    """Return days until outcomes are known -> why: what a person said, or what labels and later times show.

    The best one comes first; the shorter ones serve where the table has too few days for it.
    """
    if choices.label_delay_days is not None:
        return {choices.label_delay_days: "Days until the outcome of every event is known, as you said."}
    known = np.flatnonzero(counts.unlabeled <= counts.rows / 2)
    trailing = len(counts.rows) - 1 - int(known[-1]) if len(known) else 0
    why = f"the labels of the last {trailing} days are missing, mostly" if trailing else "the file does not show it"
    least = trailing or LABEL_DELAY_DAYS
    reasons = {least: why}
    slowest = max(roles.delays, key=lambda name: _count_delay(roles.delays[name]), default="")
    if slowest and (longest := _count_delay(roles.delays[slowest])) > trailing:
        shown = f"{slowest!r} is up to {longest} days after the event"
        reasons = {longest: shown} | {
            delay: f"{shown}, within {delay} days on {(roles.delays[slowest] <= delay).mean():.0%} of its rows. The "
            "table has too few days for more, so a first model looks better than it is: bring more, and raise it"
            for delay in range(min(longest, len(counts.rows)) - 1, least - 1, -1)
        }
    return {
        days: f"The outcome is taken to be known after {days} days: {reason}. --label-delay says otherwise."
        for days, reason in reasons.items()
    }


def _count_delay(days: pd.Series) -> int:
    return int(np.ceil(days.quantile(ENOUGH)))


def _settle_empty_days(counts: DailyCounts) -> tuple[dict[str, Any], list[str]]:
    """Return the setting for days without rows, and a sentence where there are some."""
    empty = pd.DatetimeIndex(counts.rows.index[counts.rows == 0])
    if empty.empty:
        return {}, []
    weekdays = sorted(set(empty.weekday))
    names = [str(day) for day in dict.fromkeys(empty[np.argsort(empty.weekday, kind="stable")].day_name().str.lower())]
    setting = names if len(weekdays) <= MOST_WEEKDAYS else "allowed"
    sentence = f"{len(empty)} days have no rows, the first is {empty[0].date()}; if rows are lost there, bring them."
    return {"empty_days": setting}, [sentence]


def _fit_first(configs: list[dict[str, Any]], counts: DailyCounts) -> tuple[dict[str, Any], list[str]]:
    """Return the first config for which the table has enough days, fitted.

    Raises:
        UserError: when it has too few for all of them.
    """
    *preferred, last = configs
    for config in preferred:
        with suppress(UserError):
            return _fit(config, counts)
    return _fit(last, counts)


def _fit(config: dict[str, Any], counts: DailyCounts) -> tuple[dict[str, Any], list[str]]:
    """Return a config with windows that the days hold, of those with enough positives to test the longest windows."""
    best: tuple[dict[str, Any], int] | None = None
    for variant in _variants(config):
        test = _test_days(variant, counts)
        if test is None:
            continue
        positives = int(counts.positives[str(test.first) : str(test.last)].sum())
        if best is None or best[1] < min(positives, MIN_POSITIVES):
            best = variant, positives
    if best is None:
        raise UserError(_too_few(config, counts))
    variant, positives = best
    protocol = variant["protocol"]
    days = f"{protocol['train_days']} days of training and {protocol['test_days']} of test"
    note = [f"The file has room for {days}, which hold {positives:,} positives; with more days, raise them."]
    lowest = max(FEWEST_POSITIVES, positives * 3 // 4)  # other days have fewer
    if lowest >= MIN_POSITIVES:
        return variant | {"evaluation": {}}, note
    note.append(f"{lowest} positives are to decide on a promotion (evaluation.min_positives), usually {MIN_POSITIVES}.")
    return variant | {"evaluation": {"min_positives": lowest}}, note


def _variants(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    has_entities = bool({"customer", "terminal"} & config["columns"].keys())
    for windows, (train_days, test_days) in product(WINDOWS if has_entities else [[]], LENGTHS):
        protocol: dict[str, Any] = {"train_days": train_days, "test_days": test_days}
        protocol |= {"drop_compromised": False} if has_entities else {}
        yield config | {"task": config["task"] | {"windows_days": windows}, "protocol": protocol}


def _test_days(variant: dict[str, Any], counts: DailyCounts) -> Days | None:
    """Return the days on which a run for the last day tests; None where the table does not reach back so far."""
    days = plan(parse(variant), counts.span.last)
    return days.test.test if days.events.first >= counts.span.first else None


def _too_few(config: dict[str, Any], counts: DailyCounts) -> str:
    *_, smallest = sorted(_variants(config), key=_count_days, reverse=True)
    parts = " + ".join(f"{days} ({key})" for days, key in lookback(parse(smallest)))
    have = len(counts.rows)
    return (
        f"the rows are of {have} days, {counts.span}, and a run needs at least {_count_days(smallest)}: {parts}; bring "
        "more days, or give a shorter --label-delay"
    )


def _count_days(variant: dict[str, Any]) -> int:
    last = date(2024, 1, 1) + timedelta(days=3650)
    return len(list(plan(parse(variant), last).events))


def _evaluation(counts: DailyCounts) -> dict[str, Any]:
    """Return limits that suit the share of positives."""
    share = float(counts.positives.sum() / (counts.rows - counts.unlabeled).sum())
    daily = counts.rows.sum() / (counts.rows > 0).sum()
    return {
        "top_k": max(1, round(min(2 * share, 1 / 2) * daily)),
        "min_average_precision": round(min(2 * share, (1 + share) / 2), 3),
        "cost_missed_positive": 1,
        "cost_per_alert": 5,
    }


def _drift(counts: DailyCounts) -> dict[str, Any]:
    """Return wider limits for few rows."""
    few = counts.rows.sum() / (counts.rows > 0).sum() < FEW_ROWS
    return {"drift": {"window_days": 14, "psi": 0.25, "wasserstein": 0.25}} if few else {}
