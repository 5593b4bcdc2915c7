"""Limits that follow from entities and days, on days of 24 shops with 300 rows each."""

from collections.abc import Callable
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

from nightshift.config.tabular import TabularDriftLimits
from nightshift.contracts.drift import ColumnDrift
from nightshift.stats import noise, shift

LIMITS = TabularDriftLimits()
SHOPS, ROWS, WEEK, NUMERIC = 24, 300, 7, ["amount", "usual", "score"]
Break = Callable[[pd.DataFrame], pd.DataFrame]


def simulate_week(random: np.random.Generator, first: date, change: Break = lambda rows: rows) -> pd.DataFrame:
    """Rows of a week: shops differ for good and from week to week, and days from each other."""
    levels = np.random.default_rng(0).normal(0, 1, SHOPS) + random.normal(0, 0.25, SHOPS)
    frames = []
    for day in (first + timedelta(days=number) for number in range(WEEK)):
        shop, moved = random.integers(0, SHOPS, ROWS), random.normal(0, 0.1)
        rows = pd.DataFrame({"shop": shop, "amount": levels[shop] + random.normal(0, 1, ROWS) + moved})
        rows = rows.assign(usual=levels[shop], kind=random.choice(list("abc"), ROWS, p=[0.6, 0.3, 0.1]))
        rows = change(rows.assign(score=1 / (1 + np.exp(-rows["amount"]))))
        frames.append(rows.drop(columns="shop").join(noise.name_blocks(rows, ["shop"], day)))
    return pd.concat(frames, ignore_index=True)


def compare(seed: int, change: Break = lambda rows: rows) -> list[ColumnDrift]:
    random = np.random.default_rng(seed)
    reference = simulate_week(random, date(2025, 3, 3))
    newest = simulate_week(random, date(2025, 3, 17), change)
    batches = [newest[:1000], newest[1000:]]
    return shift.compare(reference, batches, NUMERIC, LIMITS)


def name_drifted(columns: list[ColumnDrift]) -> list[str]:
    return [column.name for column in columns if column.drifted]


def test_weeks_drawn_alike_are_stable_where_limits_of_independent_rows_see_drift_in_each() -> None:
    weeks = [compare(seed) for seed in range(25)]
    plain = [any((c.wasserstein or 0) > LIMITS.wasserstein for c in columns) for columns in weeks]

    assert sum(plain) == len(weeks)
    assert sum(bool(name_drifted(columns)) for columns in weeks) <= 1


BREAKS: dict[str, tuple[Break, str]] = {
    "cents instead of euros": (lambda rows: rows.assign(amount=rows["amount"] * 100), "amount"),
    "a new category": (lambda rows: rows.assign(kind=rows["kind"].where(rows.index % 8 > 0, "z")), "kind"),
    "a scorer that is off": (lambda rows: rows.assign(score=rows["score"] / 3), "score"),
    "values missing in half of the rows": (
        lambda rows: rows.assign(usual=rows["usual"].where(rows.index % 2 > 0)),
        "usual",
    ),
}


@pytest.mark.parametrize(("change", "name"), BREAKS.values(), ids=BREAKS)
def test_a_break_of_all_shops_is_beyond_how_they_differ_by_chance(change: Break, name: str) -> None:
    assert [name_drifted(compare(seed, change)) for seed in range(3)] == [[name]] * 3


def test_limits_of_the_config_stand_where_entities_and_days_are_many() -> None:
    random, rows = np.random.default_rng(0), 30_000

    def draw(first: int) -> pd.DataFrame:
        frame = pd.DataFrame({"amount": random.normal(0, 1, rows), "customer": random.integers(0, 9000, rows)})
        days = np.datetime64("2025-03-03") + first + np.arange(rows) % 28
        return frame[["amount"]].join(noise.name_blocks(frame, ["customer"], days))

    (column,) = shift.compare(draw(0), [draw(28)], ["amount"], LIMITS)

    assert (column.psi_limit, column.wasserstein_limit) == (LIMITS.psi, LIMITS.wasserstein)


def test_blocks_are_the_same_in_every_batch_and_nobody_reads_an_id_from_them() -> None:
    rows = pd.DataFrame({"shop": ["Main Street", "Dock", "Main Street"], "till": [1, 2, 3]})

    whole = noise.name_blocks(rows, ["shop", "till"], date(2025, 3, 3))
    parts = pd.concat([noise.name_blocks(rows[i : i + 1], ["shop", "till"], date(2025, 3, 3)) for i in range(3)])

    pd.testing.assert_frame_equal(whole, parts)
    assert set(whole.dtypes.astype(str)) == {"uint16"}
    assert list(noise.list_entities(whole)) == ["shop", "till"]
    assert whole["block of shop"].nunique() == 2


@pytest.mark.parametrize(("columns", "share", "allowed"), [(10, 0.1, 1), (9, 0.1, 0), (100, 0.29, 29), (3, 0, 0)])
def test_so_many_columns_may_drift_as_the_share_allows(columns: int, share: float, allowed: int) -> None:
    assert noise.count_allowed(columns, share) == allowed
