"""A flood of flags beside days drawn alike, at the sizes of days that there are."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from components.scoring import alerts
from nightshift.contracts import tables
from nightshift.contracts.tables import Partition


def days(folder: Path, flagged: list[int], rows: int) -> list[Partition]:
    """Scores of days in a row, of which so many rows are flagged."""
    parts = []
    for number, count in enumerate(flagged):
        frame = pd.DataFrame({"flagged": np.arange(rows) < count})
        parts.append(tables.write_partition(str(folder / f"{number}"), date(2025, 3, 1) + timedelta(number), frame, {}))
    return parts


@pytest.mark.parametrize(
    ("flagged", "rows", "raised"),
    [
        ([100] * 6 + [1300], 10_000, True),
        ([5] * 6 + [65], 300, True),
        ([5] * 6 + [12], 300, False),  # chance
        ([100] * 6 + [250], 10_000, False),
        ([0, 0, 1, 0, 0, 0, 4], 300, False),
        ([0, 0, 1, 0, 0, 0, 30], 300, True),
        ([5, 5, 5, 65, 5, 5, 65], 300, True),  # a flood before it is not the usual
    ],
)
def test_a_flood_of_flags_is_told_from_chance(tmp_path: Path, flagged: list[int], rows: int, raised: bool) -> None:
    signal = alerts.compare_flags(days(tmp_path, flagged, rows), limit=4.0)
    assert signal is not None
    assert signal.raised is raised
    (alert,) = alerts.report_flood(signal) if raised else [None]
    assert not raised or "scoring.max_flagged allows 4 times. Check the day's events" in alert.sentence


def test_days_without_rows_and_a_first_day_are_no_flood(tmp_path: Path) -> None:
    assert alerts.compare_flags(days(tmp_path, [5], 300), limit=4.0) is None
    assert alerts.compare_flags(days(tmp_path, [0, 0], 0), limit=4.0) is None
