"""Trailing windows, defined once: the batch kernel computes them over frames, the online state event by event.

For an event at time t a customer's window is (t - w, t], with the event itself and earlier ones of its time, and a
terminal's (t - delay - w, t - delay], strictly by time. Definitions: Le Borgne et al., Fraud Detection Handbook,
"baseline feature transformation".
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

from nightshift.config.tabular import TabularConfig
from nightshift.contracts.preprocessing import Windows
from nightshift.data.times import find_offset
from nightshift.runtime.errors import UserError

HOUR = 3_600_000_000  # microseconds, the unit of every time here
DAY = 24 * HOUR
QUARTER = HOUR // 4
LAST_NIGHT_HOUR = 6
SATURDAY = 5
LARGEST_SUM = 2**63  # sums are int64
SAFE = 1 - 1e-6  # share of the largest sum: the sum that is compared is rounded

Array = Any  # numpy.ndarray | cupy.ndarray


def configured_windows(config: TabularConfig) -> Windows:
    """Return how the inputs of a use case are computed from its events."""
    roles = [role for role in ("customer", "terminal", "amount") if getattr(config.columns, role)]
    task = config.task
    return Windows(
        windows_days=task.windows_days,
        amount_decimals=task.amount_decimals,
        label_delay_days=config.label_delay_days,
        roles=roles,
        timezone=config.source.timezone,
    )


def numeric_inputs(windows: Windows, further: Sequence[str]) -> list[str]:
    """Return the names of the numeric model inputs, in order.

    Args:
        windows: how they are computed.
        further: the user's numeric columns.
    """
    amount = ["amount"] if "amount" in windows.roles else []
    of_customer = ["count", *(["mean_amount"] if amount else [])] if "customer" in windows.roles else []
    of_terminal = ["count", "risk"] if "terminal" in windows.roles else []
    customer = [f"customer_{name}_{w}d" for w in windows.windows_days for name in of_customer]
    terminal = [f"terminal_{name}_{w}d" for w in windows.windows_days for name in of_terminal]
    return [*amount, "during_weekend", "during_night", *customer, *terminal, *further]


def sides(windows: Windows) -> list[str]:
    """Return what windows are counted by, of customers and terminals."""
    return [side for side in ("customer", "terminal") if side in windows.roles and windows.windows_days]


def lengths(windows: Windows) -> list[int]:
    """Return how long the windows are, in microseconds."""
    return [days * DAY for days in windows.windows_days]


def delay(windows: Windows) -> int:
    """Return by how many microseconds a terminal's windows end before the event.

    Without a label delay they still end before it: its own label, and those of its time, are what is to be predicted.
    One microsecond, the unit of time, is "strictly before".
    """
    return max(windows.label_delay_days * DAY, 1)


def wall_times(times: Array, timezone: str, xp: ModuleType) -> Array:
    """Return which quarter of an hour a zone's clock shows, as its start: int64 microseconds since 1970, (n,).

    Clocks are changed at quarters of an hour, so no more of them than that are looked up.

    Args:
        times: UTC, int64 microseconds since 1970, (n,).
        timezone: IANA name.
        xp: numpy or cupy.
    """
    quarters, positions = xp.unique(times // QUARTER, return_inverse=True)
    return xp.asarray([wall_time(quarter, timezone) for quarter in quarters.tolist()], dtype=xp.int64)[positions]


def wall_time(quarter: int, timezone: str) -> int:
    """Return what a zone's clock shows at the start of a quarter of an hour, counted since 1970, in microseconds."""
    return quarter * QUARTER + find_offset(quarter * QUARTER, ZoneInfo(timezone))


def is_weekend(walls: Array) -> Array:
    """Return whether a clock shows a Saturday or Sunday; microseconds since 1970, as `wall_times` returns them."""
    return (walls // DAY + 3) % 7 >= SATURDAY  # 1970-01-01 was a Thursday


def is_night(walls: Array) -> Array:
    """Return whether a clock shows 00:00 to 06:59; microseconds since 1970, as `wall_times` returns them."""
    return walls % DAY // HOUR <= LAST_NIGHT_HOUR


def minor_units(amounts: Any, decimals: int, xp: ModuleType) -> Array:
    """Return amounts (a series) as integers of the currency's smallest unit, int64.

    Raises:
        UserError: when the amounts are too large to be summed exactly.
    """
    scaled = xp.rint(xp.asarray(amounts.astype("float64")) * 10**decimals)
    # the sum of all rows, not the largest amount times their number: one amount alone ends no night
    total = float(abs(scaled).sum()) if len(scaled) else 0.0
    if total >= LARGEST_SUM * SAFE:
        raise UserError(
            f"amounts of {len(scaled)} rows are too large to be summed exactly, {total / 10**decimals:g} in all; lower "
            f"task.amount_decimals (it is {decimals}) or limits.largest_amount, or check the unit of the amounts"
        )
    return scaled.astype(xp.int64)
