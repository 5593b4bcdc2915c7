"""False alarms a night on weeks drawn alike, and how many breaks are said: few shops, a weekly pattern, many customers.

A shop has a level for good, one of its week (standard deviation .25) and each day one for all (.1), of amounts whose
spread is 1. A night compares the newest week with one that ended a week earlier, and the newest day's rows and labels.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import figures
from components.drift import core
from nightshift.config.tabular import TabularDriftLimits
from nightshift.stats import noise, shift
from nightshift.stats.levels import WeekdayLevel

LIMITS, FIRST, WEEK = TabularDriftLimits(), date(2025, 3, 3), 7
FLAT, QUIET_SUNDAYS = (1.0,) * 7, (1.1, 1.1, 1.1, 1.15, 1.3, 0.9, 0.35)
NUMERIC = ["amount", "usual", "score"]
BREAKS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "nothing": lambda rows: rows,
    "amounts in cents": lambda rows: rows.assign(amount=rows["amount"] * 100),
    "a new category, 1 of 8 rows": lambda rows: rows.assign(kind=rows["kind"].where(rows.index % 8 > 0, "z")),
    "rows halved": lambda rows: rows[::2].reset_index(drop=True),
    "labels missing": lambda rows: rows.assign(label=np.nan),
}


@dataclass(frozen=True)
class Shops:
    """A set-up: entities, rows of a usual day, and what multiple of them each weekday has."""

    entities: int
    rows: int
    weekdays: tuple[float, ...] = FLAT

    def simulate_week(self, random: np.random.Generator, first: date) -> list[tuple[date, pd.DataFrame]]:
        """Return a week's days and rows."""
        levels = np.random.default_rng(0).normal(0, 1, self.entities) + random.normal(0, 0.25, self.entities)
        days = [first + timedelta(days=number) for number in range(WEEK)]
        return [(day, self._simulate_day(random, day, levels)) for day in days]

    def _simulate_day(self, random: np.random.Generator, day: date, levels: Any) -> pd.DataFrame:
        count = int(self.rows * self.weekdays[day.weekday()] * np.exp(random.normal(0, 0.06)))
        shop, moved = random.integers(0, self.entities, count), random.normal(0, 0.1)
        amount = levels[shop] + random.normal(0, 1, count) + moved
        rows = pd.DataFrame({"shop": shop, "amount": amount, "usual": levels[shop], "label": 0.0})
        return rows.assign(kind=random.choice(list("abc"), count, p=[0.6, 0.3, 0.1]), score=1 / (1 + np.exp(-amount)))


SETUPS = {
    "24 shops, 300 rows a day": Shops(24, 300),
    "200 shops, 1,000 rows, a weekly pattern": Shops(200, 1000, QUIET_SUNDAYS),
    "5,000 customers, 10,000 rows": Shops(5000, 10_000),
}


def block(days: list[tuple[date, pd.DataFrame]]) -> pd.DataFrame:
    """Return what is compared of some days."""
    frames = [rows.drop(columns=["shop", "label"]).join(noise.name_blocks(rows, ["shop"], day)) for day, rows in days]
    return pd.concat(frames, ignore_index=True)


def watch(shops: Shops, seed: int, change: Callable[[pd.DataFrame], pd.DataFrame]) -> dict[str, bool]:
    """Return signal -> whether it is raised in a night; `config alone`: whether the config's limits would be."""
    random = np.random.default_rng(seed)
    weeks = [shops.simulate_week(random, FIRST + timedelta(days=WEEK * number)) for number in range(5)]
    newest = [(day, change(rows)) for day, rows in weeks[-1]][: WEEK - seed % WEEK] or weeks[-1]
    columns = shift.compare(block(weeks[2]), [block(newest)], NUMERIC, LIMITS)
    plain = [c.psi > LIMITS.psi or (c.wasserstein or 0) > LIMITS.wasserstein for c in columns]
    today, rows = newest[-1]
    level = WeekdayLevel.from_days({day: len(part) for week in weeks[:-1] for day, part in week}, today)
    held = [core.volume(len(rows), level, LIMITS.volume), core.labels(int(rows["label"].notna().sum()), len(rows))]
    raised = {signal.name: signal.raised for signal in [*core.shifts(columns, LIMITS), *held]}
    return raised | {"config alone": any(plain)}


def run(nights: int = 100) -> list[dict[str, Any]]:
    """Measure and print a row for each set-up and break; of breaks a fifth of the nights."""
    table: list[dict[str, Any]] = []
    for setup, shops in SETUPS.items():
        for name, change in BREAKS.items():
            count = nights if name == "nothing" else max(nights // 5, 1)
            raised = pd.DataFrame([watch(shops, seed, change) for seed in range(count)]).sum()
            table.append(
                {"set-up": setup, "break": name, "nights": count} | {str(k): int(v) for k, v in raised.items()}
            )
    figures.publish("drift-entities", table, "Nights on which each signal is raised.")
    return table


if __name__ == "__main__":
    run(*map(int, sys.argv[1:]))
