"""Streams of events for the online state, and what the batch kernel says of them."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.config import Config, parse
from nightshift.data.splits import Days
from nightshift.tabular import frames
from nightshift.tabular.online import snapshot
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.embedded import newest
from nightshift.tabular.online.log import commits
from nightshift.tabular.online.state import Label, OnlineState
from nightshift.tabular.windows import DAY
from nightshift.tasks.tabular.features import core

CPU = frames.backend("cpu")
FIRST = date(2024, 3, 1)
START = FIRST.toordinal() - date(1970, 1, 1).toordinal()
ROLES = ("customer", "terminal", "amount")
Lines = tuple[dict[str, Any], ...]


def config(
    roles=ROLES, windows=(1, 2), delay=1, limits: dict[str, Any] | None = None, declared: Lines = (), **extra: Any
) -> Config:
    columns = {role: role for role in ("event_id", "event_time", *roles, "label")} | extra
    task = {"kind": "tabular", "candidates": {"a": {"kind": "xgboost"}}}
    preset = {"preset": "payments", "windows": [f"{days}d" for days in windows]}
    features = {"features": [preset, *declared] if windows else [{"calendar": ["is_weekend", "is_night"]}]}
    raw = {"name": "tiny", "label_delay_days": delay, "source": {"table": "t.csv"}, "columns": columns, "task": task}
    return parse(raw | {"limits": limits or {}} | features)


class Labeled(NamedTuple):
    """An event, and the label that it gets."""

    event_id: int | str
    time: int
    customer: int | str | None
    terminal: int | str | None
    amount: float
    numeric: tuple[float, ...]
    label: int | None


def event(row: tuple[Any, ...], number: int, chosen: Config) -> Labeled:
    """An event of (microseconds after the start, customer, terminal, cents, label)."""
    time, customer, terminal, cents, label = row
    has = chosen.columns.roles
    return Labeled(
        number,
        START * DAY + time,
        customer if "customer" in has else None,
        terminal if "terminal" in has else None,
        cents / 100 if "amount" in has else 0.0,
        tuple(float(cents + i) for i, _ in enumerate(chosen.columns.numeric)),
        label,
    )


def taken(state: OnlineState, event: Labeled) -> list[float]:
    """Have a state take an event in, and its label if there is one."""
    row, _ = state.take(event)
    if event.label is not None:
        assert state.label(Label(event.event_id, event.time, event.label))
    return row


def frame(events: list[Labeled], chosen: Config) -> pd.DataFrame:
    """Canonical events, in the order given."""
    ids = [role for role in ("event_id", "customer", "terminal") if role in chosen.columns.roles]
    table = {role: _ids([getattr(event, role) for event in events]) for role in ids}
    table["event_time"] = pd.Series(np.array([event.time for event in events], "datetime64[us]"))
    table["amount"] = pd.Series([event.amount for event in events], dtype="float64")
    table["label"] = pd.Series(pd.array([event.label for event in events], dtype="Int8"))
    for i, name in enumerate(chosen.columns.numeric):
        table[name] = pd.Series([event.numeric[i] for event in events], dtype="float64")
    return pd.DataFrame(table)[[*chosen.columns.roles, *chosen.columns.numeric]]


def offline(events: list[Labeled], chosen: Config) -> list[list[float]]:
    """The batch kernel's numeric inputs of events in order of time."""
    if not events:
        return []
    return core.features(frame(events, chosen), chosen, CPU)[core.numeric_inputs(chosen)].to_numpy().tolist()


def base(events: list[Labeled], chosen: Config, days: int) -> Base:
    """A snapshot of the events of the first days, of the types of all."""
    until = (START + days) * DAY
    rows = frame(events, chosen)
    known = rows[np.array([event.time < until for event in events], dtype=bool)]
    return snapshot.in_memory(chosen, Days(FIRST, FIRST + timedelta(days=days - 1)), known.reset_index(drop=True))


def stored(events: list[Labeled], chosen: Config, days: int, folder: str) -> Base:
    """The same, written to a file and mapped."""
    return snapshot.map_file(written(events, chosen, days, folder), folder)


def written(events: list[Labeled], chosen: Config, days: int, folder: str) -> str:
    """The same, written to a file; its URI."""
    manifest = base(events, chosen, days).snapshot
    known = [event for event in events if event.time < (START + days) * DAY]
    uri = f"{folder}/{storage.fingerprint([known, days])}.state"
    snapshot.write(uri, snapshot.arrays(frame(known, chosen), manifest.features), manifest)
    return uri


def _ids(values: list[Any]) -> pd.Series:
    return pd.Series(values, dtype="str" if any(isinstance(value, str) for value in values) else "int64")


def acknowledged(folder: Path) -> list[Any]:
    """Return the events and labels that were acknowledged and that no snapshot covers, in their order."""
    path = newest(folder)
    return [record for commit in commits(path) for record in commit.records] if path else []
