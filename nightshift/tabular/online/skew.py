"""Online against offline features: a day's events, taken in one by one over a snapshot of the days before."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import starmap

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.config.tabular import TableConfig
from nightshift.contracts.online import Replay
from nightshift.tabular import declarations
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.state import Label, OnlineState

TOLERANCE = 1e-9
LARGEST = np.finfo(np.float64).max

Floats = npt.NDArray[np.float64]


def replay(base: Base, events: pd.DataFrame, offline: pd.DataFrame, config: TableConfig) -> Replay:
    """Replay the day after a snapshot.

    Args:
        base: the days before, with labels as they are known now.
        events: the day's canonical events, n rows in order of time.
        offline: the batch kernel's inputs of the same events, in the same order; float64 (n, inputs).
        config: the use case.
    """
    assert np.array_equal(offline["event_id"], events["event_id"]), "the features are of other events"
    names = declarations.numeric_inputs(base.snapshot.features, config.columns.numeric)
    state = OnlineState(base)
    rows = [_take_in(state, event, label) for event, label in pair_events(events, config)]
    apart = differences(np.array(rows).reshape(-1, len(names)), offline[names].to_numpy())
    largest = float(apart.max(initial=0))
    return Replay(
        day=base.snapshot.last + timedelta(days=1),
        rows=len(rows),
        differing=int((apart > TOLERANCE).any(axis=1).sum()),
        largest=largest,
        worst=names[apart.max(axis=0).argmax()] if largest else None,
    )


def differences(online: Floats, offline: Floats) -> Floats:
    """Return how far inputs are apart, (n, inputs): 0 where both are missing, `LARGEST` where one is."""
    apart = np.abs(online - offline)
    apart[np.isnan(online) & np.isnan(offline)] = 0
    return np.nan_to_num(apart, nan=LARGEST)


def _take_in(state: OnlineState, event: Event, label: int | None) -> list[float]:
    """Take an event in, then its label where it is known: without a label delay the next events count it."""
    row, _ = state.take(event)
    if label is not None:
        state.label(Label(event.event_id, event.time, label))
    return row


def pair_events(events: pd.DataFrame, config: TableConfig) -> Iterator[tuple[Event, int | None]]:
    """Return each canonical event as an endpoint reads it, with its label where that is known."""
    nothing = [None] * len(events)
    ids = (events[role].tolist() if role in events else nothing for role in ("event_id", "customer", "terminal"))
    event_ids, customers, terminals = ids
    times = events["event_time"].astype("datetime64[us]").astype("int64").tolist()
    amounts = events["amount"].tolist() if "amount" in events else [0.0] * len(events)
    numeric = events[config.columns.numeric].to_numpy(dtype="float64").tolist()
    categories = events[config.columns.categorical].to_numpy(dtype=object).tolist()
    reads_labels = any(feature.reads_labels for feature in config.feature_spec.features)
    labels = [None if label is pd.NA else label for label in events["label"].tolist()] if reads_labels else nothing
    rows = zip(
        event_ids, times, customers, terminals, amounts, map(tuple, numeric), map(tuple, categories), strict=True
    )
    return zip(starmap(Event, rows), labels, strict=True)
