"""Rows and positives by day: which day is the newest complete one, and which days have no rows by chance alone."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from nightshift.data.guessing.roles import Roles
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError

DAY = pd.Timedelta(days=1)
ALIKE = 4  # days of one weekday before a day, by which its rows are judged
LEAST_SHARE = 0.5  # share of such days' rows that a complete day has
DEVIATIONS = 3  # below the median of such days that it may be
PER_DEVIATION = 1.4826  # a normal deviation in median absolute ones
CHANCE = 0.01  # probability of a hole this long among days as full as the others
HOLE_FLAG = "--allow-empty-days"


@dataclass(frozen=True)
class DailyCounts:
    """Rows, positives and rows without a label, by UTC day; index: all days from the first to the last, datetime64."""

    rows: pd.Series
    positives: pd.Series
    unlabeled: pd.Series

    @classmethod
    def from_roles(cls, roles: Roles) -> "DailyCounts":
        """Count rows by their days."""
        frame = pd.DataFrame({"rows": 1.0, "positive": roles.label, "unlabeled": roles.label.isna()})
        days = frame.groupby(roles.event_time.dt.floor("D").to_numpy()).sum().asfreq("D", fill_value=0)
        return cls(days["rows"], days["positive"], days["unlabeled"])

    @property
    def span(self) -> Days:
        """The first and the last day."""
        return Days(self.rows.index[0].date(), self.rows.index[-1].date())

    def complete(self, newest: pd.Timestamp, timezone: str) -> "DailyCounts":
        """Return the days that have ended: the newest event's local day is taken to be whole.

        Args:
            newest: time of the newest event, naive UTC.
            timezone: zone by whose days the rows were collected.
        """
        midnight = newest.tz_localize("UTC").tz_convert(timezone).tz_localize(None).floor("D") + DAY
        end = midnight.tz_localize(timezone, ambiguous=False, nonexistent="shift_forward").tz_convert("UTC")
        return self._until(end.tz_localize(None).floor("D") - DAY)

    def without_partial(self) -> tuple["DailyCounts", list[str]]:
        """Return the days up to the newest with about as many rows as those before it, and a sentence about others."""
        newest = self.rows.index[-1]
        for last in reversed(self.rows.index[len(self.rows) // 2 :]):
            least = _count_least(self.rows[: last - DAY], last.weekday())
            if self.rows[last] >= least:
                return self._until(last), [*self._describe_partial(newest, last)]
        return self, []

    def _until(self, last: pd.Timestamp) -> "DailyCounts":
        return DailyCounts(self.rows[:last], self.positives[:last], self.unlabeled[:last])

    def _describe_partial(self, newest: pd.Timestamp, last: pd.Timestamp) -> list[str]:
        if newest == last:
            return []
        usual = _alike(self.rows[: newest - DAY], newest.weekday()).median()
        return [
            f"{newest.date()} has {self.rows[newest]:,.0f} rows, where such days have {usual:,.0f}: it is taken to be "
            f"incomplete, and {last.date()} for the newest complete day."
        ]


@dataclass(frozen=True)
class EmptyDays:
    """The days without rows between others.

    Attributes:
        closed: weekdays that have no rows in half of the weeks or more, Monday is 0.
        days: those of other weekdays.
        unlikely: those of them that chance does not explain.
        usual: mean rows of the other days.
    """

    closed: list[int]
    days: list[date]
    unlikely: list[date]
    usual: float

    @classmethod
    def find(cls, counts: DailyCounts) -> "EmptyDays":
        """Return the days without rows."""
        rows = counts.rows
        weekdays = pd.DatetimeIndex(rows.index).weekday
        closed = _find_closed(rows > 0)
        opened = rows[~weekdays.isin(closed)]
        is_empty = (opened == 0).to_numpy()
        usual = float(opened[~is_empty].mean()) if not is_empty.all() else 0.0
        holes = np.cumsum(np.diff(is_empty.astype(int), prepend=0) != 0)
        lengths = np.bincount(holes)[holes] if len(holes) else holes
        is_unlikely = is_empty & (len(opened) * np.exp(-usual * lengths) < CHANCE)
        days = pd.DatetimeIndex(opened.index)
        return cls(closed, [*days[is_empty].date], [*days[is_unlikely].date], usual)

    def describe(self, needed: Days, are_right: bool) -> tuple[dict[str, Any], list[str]]:
        """Return the setting for days without rows, and a sentence where there are some.

        Args:
            needed: the days of a first run.
            are_right: whether a person has said that nothing is lost there.

        Raises:
            UserError: when nobody has, and a first run would need days whose rows may be lost.
        """
        if self.unlikely and not are_right:
            return self._closed_weekdays(), [self._ask(needed)]
        if not self.days and len(self.closed) < len(WEEKDAYS):
            return self._closed_weekdays(), []
        first = f", the first is {self.days[0]}" if self.days else ""
        count = f"{len(self.days)} days" if self.days else "Most days"
        return {"empty_days": "allowed"}, [f"{count} have no rows{first}; if rows are lost there, bring them."]

    def _closed_weekdays(self) -> dict[str, Any]:
        return {"empty_days": [WEEKDAYS[weekday] for weekday in self.closed]} if self.closed else {}

    def _ask(self, needed: Days) -> str:
        first, last = self.unlikely[0], self.unlikely[-1]
        holes = f"{len(self.unlikely)} days have no rows, {f'between {first} and {last}' if first != last else first}"
        question = f"{holes}, where others have {self.usual:,.0f}: are rows lost there, or swallowed by a stray quote?"
        if any(day in needed for day in self.unlikely):
            raise UserError(f"{question} Bring them, or give {HOLE_FLAG} if nothing is lost")
        return f"{question} A first run does not need them."


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _find_closed(has_rows: pd.Series) -> list[int]:
    """Return the weekdays that have none in half of the weeks in which there are some, or in more."""
    days = pd.DatetimeIndex(has_rows.index)
    weeks = days - pd.to_timedelta(days.weekday, unit="D")
    of_open_weeks = has_rows[has_rows.groupby(weeks).transform("any")]
    opened = of_open_weeks.groupby(pd.DatetimeIndex(of_open_weeks.index).weekday).mean()
    return [int(weekday) for weekday in opened.index[opened <= 1 / 2]]


def _alike(before: pd.Series, weekday: int) -> pd.Series:
    """Return the rows of the last days of a weekday that have some; of all weekdays where it has too few."""
    opened = before[before > 0]
    alike = opened[pd.DatetimeIndex(opened.index).weekday == weekday].tail(ALIKE)
    return alike if len(alike) == ALIKE else opened.tail(len(WEEKDAYS))


def _count_least(before: pd.Series, weekday: int) -> float:
    """Return the rows that a complete day has at least."""
    alike = _alike(before, weekday)
    if alike.empty:
        return 0.0
    median = float(alike.median())
    deviation = max(float(np.sqrt(median)), PER_DEVIATION * float((alike - median).abs().median()))
    return max(LEAST_SHARE * median, median - DEVIATIONS * deviation)
