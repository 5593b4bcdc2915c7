"""What guess makes of other columns where a file has no id, or its times are in parts."""

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nightshift.data.guessing import derivations, profiles
from nightshift.data.guessing.profiles import Reading
from nightshift.data.guessing.roles import Choices

ROWS = 300
RNG = np.random.default_rng(3)
AT = pd.Series(pd.Timestamp("2025-03-01") + pd.to_timedelta(np.sort(RNG.integers(0, 60 * 1440, ROWS)), unit="min"))
DATE = {"Year": AT.dt.year, "Month": AT.dt.month, "Day": AT.dt.day}
NAMED = {"year": "Year", "month": "Month", "day": "Day"}


def find(choices: Choices, **columns: Any) -> derivations.Derivations:
    frame = pd.DataFrame({"card": RNG.integers(0, 40, ROWS), **columns})
    profile = profiles.profile(frame, Reading(",", datetime(2026, 1, 1)))
    derived, notes = derivations.find(profile.columns, choices)
    assert len(notes) == len(derived)
    return derived


@pytest.mark.parametrize(
    ("columns", "derived"),
    [
        ({"id": range(ROWS), "at": AT}, {}),
        ({"at": AT}, {"row_number": "row_number"}),
        ({"id": range(ROWS), **DATE}, {"derived_time": NAMED}),
        (
            {"id": range(ROWS), **DATE, "Day": AT.dt.strftime("%d"), "Time": AT.dt.strftime("%H:%M")},
            {"derived_time": {**NAMED, "time": "Time"}},
        ),
        (
            {"id": range(ROWS), **DATE, "hour": AT.dt.hour, "minute": AT.dt.minute},
            {"derived_time": {**NAMED, "hour": "hour", "minute": "minute"}},
        ),
        ({"id": range(ROWS), **DATE, "minute": AT.dt.minute}, {"derived_time": NAMED}),
        ({"id": range(ROWS), **DATE, "time_hour": AT}, {}),
        ({"id": range(ROWS), **DATE, "Day": 40}, {}),
        ({"id": range(ROWS), "Year": AT.dt.year, "Month": AT.dt.month}, {}),
    ],
)
def test_an_id_and_a_time_are_derived_where_the_file_has_none(columns: dict[str, Any], derived: dict[str, Any]) -> None:
    assert find(Choices(), **columns) == derived


def test_what_a_person_names_is_not_derived() -> None:
    assert find(Choices(event_id="card", event_time="Year"), **DATE) == {}
