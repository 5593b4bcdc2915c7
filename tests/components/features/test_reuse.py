"""Features of a changed declaration: what other partitions have is read, and the files are those of an empty lake."""

from datetime import timedelta

import pytest

from nightshift.data.splits import Days
from nightshift.tasks.tabular.features import write_days
from nightshift.tasks.tabular.features.reuse import find_columns
from tests.components.features.days import CONFIG, DATE, FEATURES, job, write_events

PRESET = {"preset": "payments", "windows": ["1d", "2d"]}
LATEST = {"entity": "customer", "functions": ["max", "zscore"], "column": "amount", "windows": ["1d"]}
PAIR = {"entity": ["customer", "terminal"], "functions": ["count"], "windows": ["6h"]}
CALENDAR = {"calendar": ["hour", "is_month_end"]}


def declare(*lines: dict) -> dict:
    return CONFIG | {"features": [*lines]}


def write(folder, lake: str, config: dict, at_once: int = 10_000) -> dict[str, str]:
    """Write all days and return their files' hashes."""
    work = job(folder, lake, config)
    parts = write_days(work, {day: work.uri(day) for day in FEATURES}, str(folder / "scratch"), at_once=at_once)
    return {str(day): part.sha256 for day, part in parts.items()}


@pytest.mark.parametrize("at_once", [10_000, 100], ids=["one pass", "shards"])
@pytest.mark.parametrize(
    ("before", "after", "computed"),
    [
        ([PRESET], [PRESET, LATEST], "2 of 10"),
        ([PRESET, LATEST], [LATEST, PRESET], "0 of 10"),
        ([PRESET, LATEST], [LATEST | {"windows": ["2d"]}, PRESET], "2 of 10"),
        ([PRESET, PAIR], [PRESET | {"windows": ["1d"]}, PAIR, CALENDAR], "0 of 5"),
        ([PRESET], [PAIR], "1 of 1 columns over windows are computed from"),
    ],
)
def test_a_changed_declaration_computes_its_new_columns_alone(tmp_path, caplog, at_once, before, after, computed):
    caplog.set_level("INFO")
    write_events(tmp_path)
    write(tmp_path, "lake", declare(*before))
    caplog.clear()

    hashes = write(tmp_path, "lake", declare(*after), at_once)

    assert computed in caplog.text
    assert hashes == write(tmp_path, "empty", declare(*after))


def test_a_changed_day_is_computed_again_where_a_window_reaches_it(tmp_path):
    changed = DATE - timedelta(days=2)
    write_events(tmp_path)
    write(tmp_path, "lake", declare(PRESET))
    write_events(tmp_path, Days(changed, changed))
    work = job(tmp_path, "lake", declare(PRESET))

    known = find_columns(work, {DATE: work.uri(DATE)})

    # windows of a terminal end a day before the event, since labels are a day late
    assert sorted(known) == ["customer_count_1d", "customer_mean_amount_1d"]


def test_two_days_with_different_pasts_share_what_both_have(tmp_path):
    write_events(tmp_path)
    work = job(tmp_path, "lake", declare(PRESET))
    write_days(work, {DATE: work.uri(DATE)}, "unused")
    wider = job(tmp_path, "lake", declare(PRESET, LATEST))

    assert not find_columns(wider, {day: wider.uri(day) for day in FEATURES})
    assert len(find_columns(wider, {DATE: wider.uri(DATE)})) == 8
