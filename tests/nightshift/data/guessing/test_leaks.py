"""Columns that tell the outcome nearly alone are asked about, and honest ones that tell it well are not."""

import re
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from benchmarks.leaks import HONEST, LEAKS, Kind
from nightshift.data.guessing import leaks, profiles
from nightshift.data.guessing.profiles import Reading

ROWS = 1200
SHARES = (0.05, 0.14, 0.5)
READING = Reading(",", datetime(2026, 1, 1))


def find(values: np.ndarray, outcome: np.ndarray) -> str:
    column = pd.DataFrame({"seen": pd.Series(values.astype(str)).replace("", None)}, dtype="str")
    times = pd.Series(pd.Timestamp("2025-03-01"), range(len(outcome)))
    return leaks.find_leak(profiles.profile(column, READING).columns["seen"], pd.Series(outcome.astype(float)), times)


def make(kind: Kind, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    outcome = np.arange(ROWS) % round(1 / share) == 0
    return kind(np.random.default_rng(seed), outcome), outcome


@pytest.mark.parametrize("kind", LEAKS)
def test_a_leak_is_seen_whatever_the_share_of_positives(kind: str) -> None:
    signs = [find(*make(LEAKS[kind], share, seed)) for share in SHARES for seed in range(2)]

    # a sign of 93 % of the positives in general may show in less than 90 % of a table's
    assert sum(" of the positive rows and on " in sign for sign in signs) >= len(signs) - 1


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_column_stays_however_well_it_tells_the_outcome(kind: str) -> None:
    assert {find(*make(HONEST[kind], share, seed)) for share in SHARES for seed in range(2)} == {""}


@pytest.mark.parametrize("share", [0.8, 0.95])
def test_where_most_rows_are_positive_the_others_are_as_telling(share: float) -> None:
    outcome = np.arange(ROWS) % 100 < 100 * share
    recovered = np.where(outcome | (np.arange(ROWS) % 13 == 0), "", "4.20")
    rating = np.where(np.arange(ROWS) % 3 <= outcome, "good", "fair")

    assert re.fullmatch(
        "it is filled in on 9.*% of the negative rows and on 0.0% of the others", find(recovered, outcome)
    )
    assert find(rating, outcome) == ""


def test_a_few_rows_of_an_outcome_tell_nothing() -> None:
    outcome = np.arange(ROWS) < leaks.MIN_ROWS - 1

    assert find(np.where(outcome, "", "x"), outcome) == ""
