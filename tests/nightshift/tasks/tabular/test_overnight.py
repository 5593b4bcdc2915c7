"""What changes overnight: each kind at two sizes of a day, beside days drawn alike."""

import re

import numpy as np
import pandas as pd
import pytest

from nightshift.config.tabular import TabularDriftLimits
from nightshift.tasks.tabular import overnight
from nightshift.tasks.tabular.overnight import DayShare

LIMITS = TabularDriftLimits()
DAY = "2025-03-20"
SIZES = (300, 10_000)


def customers(rows: int, known: int, seed: int, new_from: int = 10**9) -> pd.DataFrame:
    """A day's rows of 24 shops, in order of time; those from a number on have no past."""
    shops = np.random.default_rng(seed).integers(0, 24, rows)
    own = pd.Series(shops).groupby(shops).cumcount() + 1
    return pd.DataFrame({"customer": shops, "count": np.where(shops >= new_from, own, own + known)})


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(("new_from", "raised"), [(10**9, False), (23, False), (0, True), (10, True)])
def test_shops_that_are_all_new_have_other_ids_and_one_new_shop_has_not(rows: int, new_from: int, raised: bool) -> None:
    days = [customers(rows, 300, seed) for seed in range(6)] + [customers(rows, 300, 7, new_from)]
    new = [overnight.count_new_customers(day) for day in days]
    signal = overnight.judge_entities("customers", new, DAY, LIMITS.new_entities, ["9", "A9"])
    assert signal.raised is raised
    assert ("written like 'A9', before like '9'" in signal.reason) is raised


def test_customers_that_come_once_are_no_other_ids() -> None:
    shares = [DayShare(950, 1000)] * 6
    assert not overnight.judge_entities("customers", [*shares, DayShare(960, 1000)], DAY, 0.3, ["9", "9"]).raised
    always_new = [DayShare(1000, 1000)] * 7
    assert not overnight.judge_entities("customers", always_new, DAY, 0.3, ["9", "9"]).raised


@pytest.mark.parametrize(
    ("before", "after"),
    [("17", "C17"), ("17", "00017"), ("abc-17", "ABC-17"), ("a7", "a-7"), ("17", "3f2a"), ("Ünal", "ÜNAL")],
)
def test_ids_that_are_written_otherwise_have_another_form(before: str, after: str) -> None:
    assert overnight.common_form(pd.Series([before])) != overnight.common_form(pd.Series([after]))


def test_a_form_does_not_depend_on_how_long_an_id_is() -> None:
    assert overnight.common_form(pd.Series([999])) == overnight.common_form(pd.Series([1000, 1001])) == "9"


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(("factor", "raised"), [(1, False), (2, False), (100, True), (0.01, True), (-1000, True)])
def test_an_amount_in_another_unit_is_said_and_an_inflation_is_not(rows: int, factor: float, raised: bool) -> None:
    def frame(size: int, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        zeros = rng.random(size) < 0.2
        return pd.DataFrame({"amount": rng.lognormal(3, 1.2, size), "gain": np.where(zeros, 0, rng.normal(0, 1, size))})

    newest = frame(rows, 1)
    signal = overnight.compare_sizes(frame(10_000, 0), [newest.assign(amount=newest["amount"] * factor)], DAY, LIMITS)
    assert signal.raised is raised
    assert not raised or re.match(r"amount is .* on 2025-03-20 where it was .*Check the unit", signal.reason)


def test_a_column_without_values_has_no_size() -> None:
    frame = pd.DataFrame({"x": np.ones(100), "y": np.nan})
    assert not overnight.compare_sizes(frame, [frame.assign(x=np.nan)], DAY, LIMITS).raised


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(("share", "usual", "raised"), [(0.05, 0, True), (0.03, 0, True), (0.06, 0.06, False)])
def test_a_new_category_is_said_and_the_usual_rare_ones_are_not(
    rows: int, share: float, usual: float, raised: bool
) -> None:
    before = [(DayShare(int(usual * rows), rows), "rare")] * 6
    newest = (DayShare(int(share * rows), rows), "crypto\x1b[2J")
    signal = overnight.judge_categories("channel", [*before, newest], DAY, LIMITS.new_categories)
    assert signal.raised is raised
    assert "\x1b" not in signal.reason
    assert ("The most frequent is 'crypto" in signal.reason) is raised


def test_days_drawn_alike_raise_nothing() -> None:
    rng = np.random.default_rng(0)
    raised = 0
    for _ in range(300):
        new = [DayShare(int(rng.binomial(24, 0.05)), 24) for _ in range(7)]
        unknown = [(DayShare(int(rng.binomial(300, 0.01)), 300), "x") for _ in range(7)]
        raised += overnight.judge_entities("customers", new, DAY, LIMITS.new_entities, ["9", "9"]).raised
        raised += overnight.judge_categories("channel", unknown, DAY, LIMITS.new_categories).raised
    assert raised == 0
