"""The config that a table suggests: its days fitted into windows of training and test."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from nightshift.data.guessing import class_proposal, feature_proposal, lengths, number_proposal
from nightshift.data.guessing.daily_counts import DailyCounts, EmptyDays
from nightshift.data.guessing.feature_proposal import NO_FEATURES, ProposedFeatures
from nightshift.data.guessing.numbers import ENOUGH
from nightshift.data.guessing.roles import Choices, Roles
from nightshift.data.splits import Days

Config = dict[str, Any]
LABEL_DELAY_DAYS = 7  # the schema's default
FEW_ROWS = 500  # a day, with which chance exceeds the usual limits of drift
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
        costs: of the lines of `features`; none where they are the schema's own.
    """

    config: dict[str, Any]
    notes: dict[str, list[str]]
    days: Days
    last: date
    costs: list[str] = field(default_factory=list)


def propose(name: str, source: dict[str, Any], roles: Roles, choices: Choices, notes: list[str]) -> Proposal:
    """Return the config for a table.

    Args:
        name: of the use case.
        source: how the files lie and are written.
        roles: what the columns are for.
        choices: what a person has said.
        notes: sentences about `source`.

    Raises:
        UserError: when the table has too few days, or lacks some that have rows otherwise.
    """
    counts = DailyCounts.from_roles(roles)
    days = counts.span
    counts, partial_note = counts.complete(roles.event_time.max(), choices.timezone).without_partial()
    delays = _list_delays(counts, roles, choices)
    timezone: dict[str, Any] = {} if choices.timezone == "UTC" else {"timezone": choices.timezone}
    target = NUMBER if roles.is_number else CLASSES if roles.classes else BINARY
    config: dict[str, Any] = {
        "name": name,
        "label_delay_days": max(delays),
        "source": source | timezone,
        "columns": roles.columns,
        **({"limits": roles.limits} if roles.limits else {}),
        "task": target.describe_task(roles),
    }
    config, protocol_note = target.fit_windows([config | {"label_delay_days": delay} for delay in delays], counts)
    needed = lengths.list_days(config, counts.span.last).events
    features = target.propose_features(config, roles)
    config |= {"features": features.lines} if features.lines else {}
    empty_days, empty_note = EmptyDays.find(counts).describe(needed, choices.empty_days)
    config["source"] |= empty_days
    config["evaluation"] = config.get("evaluation", {}) | target.set_limits(counts, roles)
    config |= (drift := _drift(counts))
    return Proposal(
        config,
        {
            "label_delay_days": [delays[config["label_delay_days"]]],
            "source": [*notes, *([] if timezone else [UTC_NOTE]), *partial_note, *empty_note],
            "columns": [*roles.notes, *(f"Left out: {column!r}, {why}." for column, why in roles.left_out.items())],
            "features": [features.reason] if features.lines else [],
            "protocol": protocol_note,
            "evaluation": [target.cost_note],
            "drift": ["With few rows a day, chance alone exceeds the usual limits."] if drift else [],
        },
        days,
        counts.span.last,
        features.costs,
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


@dataclass(frozen=True)
class TargetProposal:
    """What a config says by the kind of what is predicted.

    Attributes:
        describe_task: returns the section `task`, of roles.
        fit_windows: returns the first config that the days suffice for, with windows, and sentences about them.
        propose_features: returns lines of the section `features`, of a config with windows.
        set_limits: returns keys of `evaluation`.
        cost_note: a sentence about `evaluation`.
    """

    describe_task: Callable[[Roles], Config]
    fit_windows: Callable[[list[Config], DailyCounts], tuple[Config, list[str]]]
    propose_features: Callable[[Config, Roles], ProposedFeatures]
    set_limits: Callable[[DailyCounts, Roles], Config]
    cost_note: str


BINARY = TargetProposal(
    lambda roles: {"kind": "tabular", "candidates": CANDIDATES, "amount_decimals": roles.decimals},
    lengths.fit_first,
    feature_proposal.propose,
    lambda counts, _: _evaluation(counts),
    "What it costs to check an event, and to miss a positive, only you know.",
)
NUMBER = TargetProposal(
    lambda roles: {"kind": "tabular-regression", "candidates": number_proposal.list_candidates(roles)},
    number_proposal.fit_first,
    lambda *_: NO_FEATURES,
    lambda *_: {"cost_over": 1, "cost_under": 1},
    "What a unit too many costs, and one too few, only you know.",
)


CLASSES = TargetProposal(
    lambda roles: class_proposal.describe_task(roles, CANDIDATES),
    class_proposal.fit_first,
    lambda *_: NO_FEATURES,
    lambda _, roles: class_proposal.set_limits(roles),
    "At least the share of the most frequent class; what more it takes, only you know.",
)


def _drift(counts: DailyCounts) -> dict[str, Any]:
    """Return wider limits for few rows."""
    few = counts.rows.sum() / (counts.rows > 0).sum() < FEW_ROWS
    return {"drift": {"window_days": 14, "psi": 0.25, "wasserstein": 0.25}} if few else {}
