"""The inputs of every row, written once over an array module: NumPy on the CPU, CuPy on the GPU.

What a window is: `nightshift/tabular/ranges.py`; what a function makes of it: `nightshift/data/aggregations.py`.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from nightshift.config.tabular import TableConfig
from nightshift.tabular import declarations, windows
from nightshift.tabular.declarations import EntityGroup
from nightshift.tabular.frames import Backend
from nightshift.tabular.ranges import EntityEvents, compute_features

# part of every partition's key: raise it whenever the same events would give other features
SCHEMA = 3
KEPT = ("event_id", "event_time", "customer", "label")

Array = Any  # numpy.ndarray | cupy.ndarray
Frame = Any  # pandas.DataFrame | cudf.DataFrame


def numeric_inputs(config: TableConfig) -> list[str]:
    """Return the names of the numeric model inputs, in the order of the frame's columns."""
    return declarations.numeric_inputs(config.feature_spec, config.columns.numeric)


def features(
    events: Frame, config: TableConfig, backend: Backend, groups: Sequence[EntityGroup] | None = None
) -> Frame:
    """Compute the features of every row.

    The first days of `events` lack a past: for exact values on a day, give the
    `splits.buffer_days(config)` days before it too.

    Args:
        events: canonical events, n rows, of the backend's frame library. Rows in order of `event_time` keep their
            order, which decides between rows of the same time; others are sorted by `event_time`, `event_id`.
        config: features, label delay, currency and extra columns.
        backend: where to compute.
        groups: the windows that are computed; default: all that are declared.

    Returns:
        n rows: `event_id`, `event_time`, `customer` (the event's own id where events have none), `label`, `terminal`
        where events have one, then float64 inputs as `numeric_inputs` names them, then the extra categorical columns.

    Raises:
        UserError: when a number is too large to be summed exactly.
    """
    events = in_order(events)
    columns: dict[str, Array] = {}
    for group in declarations.entity_groups(config.feature_spec) if groups is None else groups:
        columns |= compute_group(group, events, config, backend)
    return join_windows(events, columns, config, backend)


def in_order(events: Frame) -> Frame:
    """Return events in order of time; those that are so already keep their order."""
    if events["event_time"].is_monotonic_increasing:
        return events
    return events.sort_values(["event_time", "event_id"], ignore_index=True)


def compute_group(group: EntityGroup, events: Frame, config: TableConfig, backend: Backend) -> dict[str, Array]:
    """Compute the features of one entity.

    Args:
        group: the features.
        events: n rows in order of time, with `event_time` and the group's columns; all events of an entity.
        config: the decimals of amounts.
        backend: where to compute.

    Returns:
        name -> values, float64 of shape (n,).

    Raises:
        UserError: when a number is too large to be summed exactly.
    """
    xp = backend.arrays
    scales = {name: 10 ** declarations.decimals(config.feature_spec, name) for name in group.numbers}
    columns = {name: _units(group, name, events, config, xp) for name in group.numbers}
    columns |= {name: _codes(events[name], xp) for name in group.categories}
    if "label" in group.columns:
        columns["label"] = xp.asarray((events["label"].fillna(0) == 1).astype("int64"))
    codes = _entity_codes([events[name] for name in group.entity], xp)
    return dict(
        compute_features(group, EntityEvents(xp, codes, _times(events, xp), group.longest_reach, columns), scales)
    )


def join_windows(events: Frame, columns: Mapping[str, Array], config: TableConfig, backend: Backend) -> Frame:
    """Put windows, and what else is known of events, beside them: the frame that `features` returns.

    Args:
        events: n rows in order of time.
        columns: what `compute_group` returns of the entities, in the order of the events.
        config: extra columns.
        backend: of events and columns.
    """
    times = _times(events, backend.arrays)
    inputs = {**_calendar(times, config, backend.arrays), **columns}
    if "amount" in events:
        inputs["amount"] = events["amount"].astype("float64")
    inputs |= {name: events[name].astype("float64") for name in config.columns.numeric}
    # without customers every event is its own, so that what counts by customer needs no other way
    kept = {name: events[name if name in events else "event_id"] for name in KEPT}
    kept |= {name: events[name] for name in ("terminal",) if name in events}
    categorical = {name: events[name] for name in config.columns.categorical}
    return order_columns(backend.frame(kept | inputs | categorical), config)


def order_columns(rows: Frame, config: TableConfig) -> Frame:
    """Return rows with their inputs in the order that `features` gives; inputs that they lack stay away."""
    inputs = [*numeric_inputs(config), *config.columns.categorical]
    kept = [name for name in rows if name not in inputs]
    return rows[[*kept, *(name for name in inputs if name in rows)]]


def _units(group: EntityGroup, name: str, events: Frame, config: TableConfig, xp: ModuleType) -> Array:
    power = 2 if name in group.square_columns else 1
    return windows.whole_units(events[name], name, declarations.decimals(config.feature_spec, name), xp, power)


def _calendar(times: Array, config: TableConfig, xp: ModuleType) -> dict[str, Array]:
    """What a zone's clock and calendar show."""
    spec = config.feature_spec
    walls = windows.wall_times(times, spec.timezone, xp) if spec.calendar else times
    return {part.value: windows.calendar_value(part, walls).astype("float64") for part in spec.calendar}


def _times(events: Frame, xp: ModuleType) -> Array:
    """Return when events happened, microseconds, int64 (n,)."""
    return xp.asarray(events["event_time"].astype("datetime64[us]").astype("int64"))


def _codes(keys: Any, xp: ModuleType) -> Array:
    """Number a column's distinct values; which value gets which number changes no result."""
    return xp.asarray(keys.factorize()[0]).astype(xp.int64, copy=False)


def _entity_codes(keys: list[Any], xp: ModuleType) -> Array:
    """Number the distinct combinations of some columns."""
    codes = _codes(keys[0], xp)
    for key in keys[1:]:
        pairs = codes * (len(key) + 1) + _codes(key, xp)
        codes = _codes(type(key)(pairs), xp)
    return codes
