"""Times and amounts, the same for frames and single events: calendars by a zone's clock, amounts in whole units."""

from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

from nightshift.contracts.preprocessing import Calendar
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


def calendar_value(part: Calendar, walls: Any) -> Any:
    """Return what a clock shows, of microseconds since 1970 as `wall_times` returns them: integers or booleans."""
    days = walls // DAY
    weekday = (days + 3) % 7  # 1970-01-01 was a Thursday
    match part:
        case Calendar.HOUR:
            return walls % DAY // HOUR
        case Calendar.DAY_OF_WEEK:
            return weekday
        case Calendar.IS_WEEKEND:
            return weekday >= SATURDAY
        case Calendar.IS_NIGHT:
            return walls % DAY // HOUR <= LAST_NIGHT_HOUR
        case Calendar.IS_MONTH_END:
            return find_month(days) != find_month(days + 1)


def find_month(days: Any) -> Any:
    """Return a number of the month, from days since 1970; integers, which work for arrays and single numbers alike.

    Howard Hinnant, chrono-Compatible Low-Level Date Algorithms, "civil_from_days".
    """
    shifted = days + 719_468
    era_day = shifted % 146_097
    year_of_era = (era_day - era_day // 1460 + era_day // 36_524 - era_day // 146_096) // 365
    day_of_year = era_day - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    return (5 * day_of_year + 2) // 153


def whole_units(numbers: Any, column: str, decimals: int, xp: ModuleType, power: int = 1) -> Array:
    """Return numbers (a series) as integers of the smallest unit, int64.

    Args:
        numbers: of a column.
        column: its name, for the message.
        decimals: at which they are summed.
        xp: numpy or cupy.
        power: 2 where squares are summed too.

    Raises:
        UserError: when they are too large to be summed exactly.
    """
    scaled = xp.rint(xp.asarray(numbers.astype("float64")) * 10**decimals)
    # the sum of all rows, not the largest number times theirs: one amount alone ends no night
    total = float((abs(scaled) ** power).sum()) if len(scaled) else 0.0
    if total >= LARGEST_SUM * SAFE:
        sums = "squares summed" if power > 1 else "summed"
        advice = "lower task.amount_decimals (it is {}) or limits.largest_amount, or check the unit of the amounts"
        raise UserError(
            f"column {column!r} of {len(scaled)} rows has numbers that are too large to be {sums} exactly, "
            f"{total / 10 ** (decimals * power):g} in all; "
            + (advice.format(decimals) if column == "amount" else "leave it out of features, or check its unit")
        )
    return scaled.astype(xp.int64)
