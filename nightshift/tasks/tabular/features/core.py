"""Trailing-window features, written once over an array module: NumPy on the CPU, CuPy on the GPU.

Amounts are summed as integers, so a sum does not depend on order, on how many days are computed at once
or on the device: all of them give the same bits. What a window is: `nightshift/tabular/windows.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from nightshift.config.tabular import TabularConfig
from nightshift.tabular import windows
from nightshift.tabular.frames import Backend

# part of every partition's key: raise it whenever the same events would give other features
SCHEMA = 2
KEPT = ("event_id", "event_time", "customer", "label")

Array = Any  # numpy.ndarray | cupy.ndarray
Frame = Any  # pandas.DataFrame | cudf.DataFrame


def numeric_inputs(config: TabularConfig) -> list[str]:
    """Return the names of the numeric model inputs, in the order of the frame's columns."""
    return windows.numeric_inputs(windows.configured_windows(config), config.columns.numeric)


def features(events: Frame, config: TabularConfig, backend: Backend) -> Frame:
    """Compute the features of every row.

    The first days of `events` lack a past: for exact values on a day, give the
    `splits.buffer_days(config)` days before it too.

    Args:
        events: canonical events, n rows, of the backend's frame library. Rows in order of `event_time` keep their
            order, which decides between rows of the same time; others are sorted by `event_time`, `event_id`.
        config: windows, label delay, currency and extra columns.
        backend: where to compute.

    Returns:
        n rows: `event_id`, `event_time`, `customer` (the event's own id where events have none), `label`, `terminal`
        where events have one, then float64 inputs as `numeric_inputs` names them, then the extra categorical columns.

    Raises:
        UserError: when an amount is too large to be summed exactly.
    """
    events = in_order(events)
    columns: dict[str, Array] = {}
    for side in windows.sides(windows.configured_windows(config)):
        columns |= compute_windows(side, events, config, backend)
    return join_windows(events, columns, config, backend)


def in_order(events: Frame) -> Frame:
    """Return events in order of time; those that are so already keep their order."""
    if events["event_time"].is_monotonic_increasing:
        return events
    return events.sort_values(["event_time", "event_id"], ignore_index=True)


def columns_needed(side: str, config: TabularConfig) -> list[str]:
    """Return the columns of events that a side's windows are made of."""
    value = {"customer": "amount", "terminal": "label"}[side]
    return ["event_time", side, *([value] if value in config.columns.roles else [])]


def compute_windows(side: str, events: Frame, config: TabularConfig, backend: Backend) -> dict[str, Array]:
    """Compute the windows of one side.

    Args:
        side: `customer` or `terminal`.
        events: n rows in order of time, with the columns `columns_needed`; all events of a customer or terminal.
        config: windows, label delay and currency.
        backend: where to compute.

    Returns:
        name -> values, float64 of shape (n,).

    Raises:
        UserError: when an amount is too large to be summed exactly.
    """
    compute = _customer if side == "customer" else _terminal
    return compute(events, _times(events, backend.arrays), config, backend.arrays)


def join_windows(events: Frame, columns: Mapping[str, Array], config: TabularConfig, backend: Backend) -> Frame:
    """Put windows, and what else is known of events, beside them: the frame that `features` returns.

    Args:
        events: n rows in order of time.
        columns: what `compute_windows` returns of every side, in the order of the events.
        config: extra columns.
        backend: of events and columns.
    """
    times = _times(events, backend.arrays)
    inputs = {**_calendar(times, config.source.timezone, backend.arrays), **columns}
    if "amount" in events:
        inputs["amount"] = events["amount"].astype("float64")
    inputs |= {name: events[name].astype("float64") for name in config.columns.numeric}
    # without customers every event is its own, so that what counts by customer needs no other way
    kept = {name: events[name if name in events else "event_id"] for name in KEPT}
    kept |= {name: events[name] for name in ("terminal",) if name in events}
    ordered = {name: inputs[name] for name in numeric_inputs(config)}
    categorical = {name: events[name] for name in config.columns.categorical}
    return backend.frame(kept | ordered | categorical)


def trailing(
    xp: ModuleType, codes: Array, times: Array, values: Array, windows: list[int], delay: int | None = None
) -> Iterator[tuple[Array, Array]]:
    """Count and sum, for every row, the rows of its key in the windows of time that trail it.

    One sort makes each key's rows contiguous, in order of time; each edge of a window is then one binary search
    for (key, time - lag), and each sum a difference of two cumulative sums.

    Args:
        xp: numpy or cupy.
        codes: the row's key, int64 in [0, n), shape (n,).
        times: non-decreasing, int64, any unit, shape (n,).
        values: what is summed, int64, shape (n,).
        windows: lengths w, in the unit of `times`.
        delay: None for (t - w, t] that ends with the row itself, so without later rows of its time;
            otherwise (t - delay - w, t - delay], strictly by time.

    Returns:
        per window, when it is asked for: counts and sums, int64, shape (n,) each.
    """
    n, lag = len(codes), delay or 0
    order, at = _by_key(xp, codes, times, lag + max(windows))
    positions = xp.empty(n, dtype=xp.int64)  # of a row in that order
    positions[order] = xp.arange(n)
    packed = at(0)
    total = xp.concatenate([xp.zeros(1, dtype=xp.int64), xp.cumsum(xp.take(values, order))])

    def rows_until(age: int) -> Array:
        return xp.take(xp.searchsorted(packed, at(age), side="right"), positions)

    end = positions + 1 if delay is None else rows_until(delay)
    total_at_end = xp.take(total, end)

    def window(length: int) -> tuple[Array, Array]:
        start = rows_until(lag + length)
        return end - start, total_at_end - xp.take(total, start)

    # a map, not a loop that yields: what only the preparation needs is freed before the first window
    return map(window, windows)


def _by_key(xp: ModuleType, codes: Array, times: Array, reach: int) -> tuple[Array, Callable[[int], Array]]:
    """Order rows by key, then time, then position.

    Returns:
        the order, and a function of an age <= `reach`: for each row in that order one int64 that stands for
        (key, time - age) and compares like it with the rows' own, those of age 0.
    """
    n = len(codes)
    keys = int(codes.max()) + 1 if n else 0
    span = int(times[-1] - times[0]) + reach + 1 if n else 0
    # a narrow type makes NumPy's stable sort a radix sort
    order = xp.argsort(codes.astype(xp.min_scalar_type(keys)), kind="stable")
    if keys * span < 2**63:
        packed = xp.take(codes * span + (times - times[:1]), order)
        return order, lambda age: packed - age
    # too large for int64: how many rows are at most as old compares like the time itself
    base = codes * (n + 1)
    return order, lambda age: xp.take(base + xp.searchsorted(times, times - age, side="right"), order)


def _customer(events: Frame, times: Array, config: TabularConfig, xp: ModuleType) -> dict[str, Array]:
    """Counts and mean amounts in (t - w, t], with the row itself and earlier rows of its time, not later ones."""
    decimals, spec = config.task.amount_decimals, windows.configured_windows(config)
    has_amount = "amount" in events
    units = windows.minor_units(events["amount"], decimals, xp) if has_amount else xp.zeros(len(events), xp.int64)
    counts_and_sums = trailing(xp, _codes(events["customer"], xp), times, units, windows.lengths(spec))
    columns = {}
    for w, (counts, sums) in zip(spec.windows_days, counts_and_sums, strict=True):
        columns[f"customer_count_{w}d"] = counts.astype("float64")
        if has_amount:
            columns[f"customer_mean_amount_{w}d"] = sums / (counts * 10**decimals)
    return columns


def _terminal(events: Frame, times: Array, config: TabularConfig, xp: ModuleType) -> dict[str, Array]:
    """Counts and shares of positives in (t - delay - w, t - delay], strictly by time; the share of nothing is 0.

    A label that is null counts as no fraud; the delay keeps such rows out of every window.
    """
    spec = windows.configured_windows(config)
    positives = xp.asarray((events["label"].fillna(0) == 1).astype("int64"))
    codes = _codes(events["terminal"], xp)
    counts_and_sums = trailing(xp, codes, times, positives, windows.lengths(spec), windows.delay(spec))
    columns = {}
    for w, (counts, sums) in zip(spec.windows_days, counts_and_sums, strict=True):
        columns[f"terminal_count_{w}d"] = counts.astype("float64")
        columns[f"terminal_risk_{w}d"] = sums / xp.maximum(counts, 1)
    return columns


def _calendar(times: Array, timezone: str, xp: ModuleType) -> dict[str, Array]:
    """Flags of Saturday or Sunday, and of the hours 00:00 to 06:59, by a zone's clock."""
    walls = windows.wall_times(times, timezone, xp)
    return {
        "during_weekend": windows.is_weekend(walls).astype("float64"),
        "during_night": windows.is_night(walls).astype("float64"),
    }


def _times(events: Frame, xp: ModuleType) -> Array:
    """Return when events happened, microseconds, int64 (n,)."""
    return xp.asarray(events["event_time"].astype("datetime64[us]").astype("int64"))


def _codes(keys: Any, xp: ModuleType) -> Array:
    """Number a column's distinct values; which value gets which number changes no result."""
    return xp.asarray(keys.factorize()[0]).astype(xp.int64, copy=False)
