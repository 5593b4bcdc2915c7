"""The online state that declared features need, and how fast it answers: measured on a day's events before a run."""

import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pandas as pd

from nightshift.config.tabular import TableConfig
from nightshift.data.splits import Days, rows_of
from nightshift.runtime.errors import UserError
from nightshift.tabular.online import sizes, skew, snapshot
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.sizes import EntitySize, EventCounts
from nightshift.tabular.online.state import OnlineState

MOST_TIMED = 20_000  # events
WARM = 0.1  # share of the events that are taken in before the clock counts


@dataclass(frozen=True)
class StatePlan:
    """What to expect of the online state of a day.

    Attributes:
        days: that a snapshot covers.
        counts: their events.
        entities: the state of each entity.
        index: bytes of the events' ids.
        event_bytes: memory of an event that came in after the snapshot.
        seconds: of CPU that each of a day's events took, float64 (n,).
    """

    days: Days
    counts: EventCounts
    entities: Sequence[EntitySize]
    index: int
    event_bytes: float
    seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]"

    @property
    def size(self) -> int:
        """Bytes of a snapshot."""
        return sum(entity.size for entity in self.entities) + self.index

    @property
    def sentences(self) -> list[str]:
        """What a person reads."""
        median, slow = np.quantile(self.seconds, (0.5, 0.99)) * 1e6
        rate = 1 / self.seconds.mean()
        return [
            f"{self.counts.events:,} events of {self.days}, {self.counts.events / len([*self.days]):,.0f} a day",
            *map(str, self.entities),
            f"ids of the events: {self.index:,} bytes",
            f"snapshot: {self.size / sizes.MEGABYTE:,.1f} MB, and {self.event_bytes:,.0f} bytes of memory for each "
            "event after it",
            f"one process takes {rate:,.0f} events per second: {median:,.0f} us of this machine's CPU each, p99 "
            f"{slow:,.0f} us, without HTTP, log and model",
        ]


def plan_state(config: TableConfig, events: pd.DataFrame, days: Days) -> StatePlan:
    """Measure what the state of some days needs, and how fast it takes in the next day's events.

    Args:
        config: the use case.
        events: canonical events of the days and of the one after them, in order of time.
        days: that a snapshot covers.

    Raises:
        UserError: when no feature needs a state, or there are no events to measure on.
    """
    spec = config.feature_spec
    if not spec.features:
        raise UserError("features: declares none of earlier events, so there is no state to plan")
    past, following = rows_of(events, days), days.last + timedelta(days=1)
    day = rows_of(events, Days(following, following)).head(MOST_TIMED)
    if past.empty or day.empty:
        raise UserError(f"{following if len(past) else days} has no events; give a --date whose day has some")
    counts = EventCounts.from_frame(past, spec)
    base = snapshot.in_memory(config, days, past.reset_index(drop=True))
    arriving = [event for event, _ in skew.pair_events(day, config)]
    return StatePlan(
        days,
        counts,
        sizes.measure_entities(spec, counts),
        sizes.measure_index(counts),
        _measure_memory(base, arriving),
        _time(base, arriving),
    )


def _time(base: Base, events: Sequence[Event]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    state, seconds = OnlineState(base), []
    for event in events:
        begin = time.thread_time()
        state.take(event)
        seconds.append(time.thread_time() - begin)
    return np.array(seconds[int(len(seconds) * WARM) :])


def _measure_memory(base: Base, events: Sequence[Event]) -> float:
    """Return the bytes that a state keeps of an event."""
    state = OnlineState(base)
    tracemalloc.start()
    try:
        for event in events:
            state.take(event)
        return tracemalloc.get_traced_memory()[0] / len(events)
    finally:
        tracemalloc.stop()
