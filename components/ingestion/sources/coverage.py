"""Whether a source has every day of a run, and what to say where it has not."""

from datetime import date, timedelta

from components.ingestion.sources.protocol import EventSource
from nightshift.config import Config
from nightshift.config.source import EMPTY_DAYS
from nightshift.data.splits import Days, lookback
from nightshift.runtime.errors import UserError


def require_days(source: EventSource, config: Config, days: Days) -> None:
    """Check that a source has every day of a run, the last of which is the logical date.

    Raises:
        UserError: naming the missing days, and what to do.
    """
    present = [day for day in days if source.has(day)]
    missing = [day for day in days if day not in set(present)]
    if not missing:
        return
    if days.last in missing:
        newest = f"the newest day before it is {present[-1]}" if present else f"nor is there any day of {days}"
        raise UserError(
            f"{source.absence(days.last)}, {newest}; bring it, give another --date (days are UTC), or {EMPTY_DAYS}"
        )
    if missing[-1] < present[0]:
        raise UserError(_late_begin(source, config, days, present[0]))
    raise UserError(
        f"{len(missing)} of the {len(list(days))} days (UTC) that --date {days.last} needs are missing: "
        f"{spans(missing)}; {source.absence(missing[0])}; bring them, or give a --date whose days are complete, "
        f"or {EMPTY_DAYS}"
    )


def _late_begin(source: EventSource, config: Config, days: Days, first: date) -> str:
    """Return what to do about data that begins on a day after the first that is needed."""
    needed = f"{len(list(days))} days: {' + '.join(f'{count} ({key})' for count, key in lookback(config))}"
    earliest, last = first + (days.last - days.first), days.last
    while last < earliest and source.has(last + timedelta(days=1)):
        last += timedelta(days=1)
    if last == earliest:
        return (
            f"the data begins on {first}, and --date {days.last} looks back to {days.first} (UTC), over {needed}; "
            f"the earliest --date is {earliest}"
        )
    return (
        f"the data from {first} to {last} is {(last - first).days + 1} days (UTC), and any --date needs {needed}; "
        "bring more days, or lower one of these in the config"
    )


def spans(days: list[date]) -> str:
    """Return ascending days as text, neighbors joined: `2018-06-04, 2018-06-07 .. 2018-06-09`."""
    runs: list[list[date]] = []
    for day in days:
        if runs and day - runs[-1][-1] == timedelta(days=1):
            runs[-1].append(day)
        else:
            runs.append([day])
    texts = [f"{run[0]} .. {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return ", ".join(texts[:10]) + (f" and {len(texts) - 10} more" if len(texts) > 10 else "")
