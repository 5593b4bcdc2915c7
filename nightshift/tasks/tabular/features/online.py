"""The online state's snapshot of the logical date, and the replay of that day over the days before."""

from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.config.tabular import TableConfig
from nightshift.contracts.online import Replay, SnapshotExample
from nightshift.contracts.tables import Table
from nightshift.data.splits import Days, buffer_days, rows_of
from nightshift.runtime.step import log
from nightshift.tabular.online import sizes, skew, snapshot
from nightshift.tasks.tabular.features import core


@dataclass(frozen=True)
class Past:
    """The events that a snapshot of the logical date is made of, and those of one more day before them."""

    config: TableConfig
    day: date
    table: Table

    @property
    def days(self) -> Days:
        """What a snapshot of the logical date covers: all that the windows of its events reach back to."""
        return Days(self.day - timedelta(days=buffer_days(self.config)), self.day)

    @property
    def key(self) -> str:
        """Hash of all that a snapshot is made from."""
        settings = [
            self.config.feature_spec.model_dump(mode="json"),
            self.config.columns.model_dump(),
            self.config.source.timezone,
        ]
        settings.append(snapshot.limits(self.config).model_dump() | self.config.limits.exceptions)
        parts = [self.table.partition(day).sha256 for day in self.days]
        return storage.fingerprint([core.SCHEMA, snapshot.SCHEMA, settings, parts])

    @cached_property
    def events(self) -> pd.DataFrame:
        """The events."""
        columns = [*self.config.columns.roles, *self.config.columns.numeric, *self.config.columns.categorical]
        return self.table.read(Days(self.days.first - timedelta(days=1), self.day), columns)


def write(past: Past, lake: str, offline: pd.DataFrame) -> str:
    """Write the snapshot, if the lake lacks it; return its URI.

    Args:
        past: what it is made of.
        lake: root of the tables.
        offline: the features of the logical date.

    Raises:
        UserError: when an entity does not repeat, or the state is larger than the config allows.
    """
    config, days = past.config, past.days
    uri = snapshot.snapshot_uri(lake, config.name, past.day, past.key)
    if not snapshot.find(uri):
        events = rows_of(past.events, days)
        counts = sizes.EventCounts.from_frame(events, config.feature_spec)
        sizes.require_repeats(config, counts)
        sizes.require_room(config, counts)
        content, manifest = snapshot.build_snapshot(config, days, events)
        known = manifest.model_copy(update={"example": example(config, past.events, offline)})
        written = snapshot.write(uri, content, known)
        log.info("online state: %d events of %s, %d bytes", written.rows, days, written.size)
    return uri


def replay(past: Past, offline: pd.DataFrame) -> Replay:
    """Replay a day over the days before, and compare with its features.

    Args:
        past: the events.
        offline: the features of the day.
    """
    events, config, days = past.events, past.config, past.days
    before = Days(days.first - timedelta(days=1), days.last - timedelta(days=1))
    base = snapshot.in_memory(config, before, rows_of(events, before))
    came = skew.replay(base, rows_of(events, Days(past.day, past.day)), offline, config)
    log.info("online features of %s: %d of %d events differ from the offline ones", past.day, came.differing, came.rows)
    return came


def example(config: TableConfig, events: pd.DataFrame, offline: pd.DataFrame) -> SnapshotExample | None:
    """Return the last event of the logical date, None without one.

    Args:
        config: the use case.
        events: canonical events, that day's among them.
        offline: the features of that day.
    """
    numeric, categorical = core.numeric_inputs(config), config.columns.categorical
    if offline.empty:
        return None
    inputs = offline.iloc[-1]
    (event,) = events[(events["event_id"] == inputs["event_id"]) & (events["event_time"] == inputs["event_time"])].iloc
    roles = {name: event[role] for role, name in config.columns.roles.items() if role != "label"}
    further = {name: event[name] for name in config.columns.numeric}
    texts = {name: str(inputs[name]) for name in categorical}
    return SnapshotExample(
        event={name: _plain(value) for name, value in {**roles, **further}.items()} | texts,
        inputs={name: _plain(inputs[name]) for name in numeric} | texts,
    )


def _plain(value: Any) -> int | float | str | None:
    """Return a value of a frame as JSON has it."""
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return f"{value.isoformat()}Z"
    plain: int | float | str = value.item() if isinstance(value, np.generic) else value
    return plain
