"""Days without rows: refused, or days like others where the config says so; a missing file is not the same."""

from datetime import date
from typing import get_args

import pandas as pd
import pytest

from components.ingestion import sources
from nightshift import storage
from nightshift.config import parse
from nightshift.config.source import Weekday
from nightshift.contracts.section import read_section
from nightshift.runtime.errors import UserError

from .conftest import DATE

# 2024-03-10, the logical date, is a Sunday; the window begins on Monday, 2024-03-04
SUNDAY, WEDNESDAY = DATE, "2024-03-06"
LAYOUTS = ["{date}.parquet", "{date}.csv", "all.csv", "all.parquet"]


def lay_out(folder, layout, empty=(), missing=()):
    """Write days as a layout has them: some without rows, and some not at all; return the source."""
    frames = {file.stem: pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))}
    for file in folder.iterdir():
        file.unlink()
    frames = {day: frame.iloc[:0] if day in empty else frame for day, frame in frames.items() if day not in missing}
    if "{date}" not in layout:
        frames = {"all": pd.concat(frames.values())}
    for name, frame in frames.items():
        file = folder / layout.replace("{date}", name)
        frame.to_parquet(file) if layout.endswith("parquet") else frame.to_csv(file, index=False)
    return {"files" if "{date}" in layout else "table": layout}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_days_without_rows_are_days_where_the_config_says_so(step, config, folder, layout):
    days = [WEDNESDAY, SUNDAY]
    config["source"] = lay_out(folder, layout, empty=days)
    with pytest.raises(UserError, match=r"(has no row|does not exist).* or set source\.empty_days in the config"):
        step.ingest(config, folder)
    config["source"]["empty_days"] = "allowed"
    table = step.ingest(config, folder)
    assert [part.date for part in table.partitions if part.rows == 0] == days
    full = next(part for part in table.partitions if part.rows)
    empty = storage.read_frame(table.partition(date.fromisoformat(days[0])).uri)
    assert list(empty) == list(storage.read_frame(full.uri))
    assert table.read(map(date.fromisoformat, days)).empty
    assert table.read([date.fromisoformat(part.date) for part in table.partitions])["event_id"].dtype == "int64"
    assert f"{len(days)} days (UTC) have no rows: " in str(read_section(step.events).blocks[0])


def test_a_file_that_is_missing_is_no_empty_day_but_on_the_weekdays_that_need_none(step, config, folder):
    config["source"] = lay_out(folder, "{date}.csv", missing=[SUNDAY, WEDNESDAY]) | {"empty_days": "allowed"}
    with pytest.raises(UserError, match=r"2024-03-10.csv does not exist, .*days are UTC"):
        step.ingest(config, folder)
    config["source"]["empty_days"] = ["sunday"]
    with pytest.raises(UserError, match=r"1 of the 7 days \(UTC\) .* missing: 2024-03-06; .*-06.csv does not exist"):
        step.ingest(config, folder)
    config["source"]["empty_days"] = ["sunday", "wednesday"]
    table = step.ingest(config, folder)
    assert [part.date for part in table.partitions if part.rows == 0] == [WEDNESDAY, SUNDAY]
    assert "2 days (UTC) have no rows, 2 of them no file" in str(read_section(step.events).blocks[0])


def test_a_weekday_of_a_table_that_should_have_rows_is_missed(step, config, folder):
    config["source"] = lay_out(folder, "all.csv", missing=[SUNDAY, WEDNESDAY]) | {"empty_days": ["sunday"]}
    with pytest.raises(UserError, match=r"are missing: 2024-03-06; .*all.csv has no row of 2024-03-06"):
        step.ingest(config, folder)


def test_texts_of_some_days_are_ids_of_all_whatever_empty_days_say(step, config, folder, spoil):
    for file in folder.glob("*.parquet"):
        spoil(file.stem, lambda frame: frame.assign(customer_id="C" + frame["customer_id"].astype(str)))
    config["source"] = lay_out(folder, "{date}.parquet", missing=[SUNDAY]) | {"empty_days": ["sunday"]}
    table = step.ingest(config, folder)
    every = table.read([date.fromisoformat(part.date) for part in table.partitions])
    assert (every["event_id"].dtype, every["customer"].str.startswith("C").all()) == ("int64", True)


def test_a_week_without_files_is_not_closed(tmp_path, config):
    config["source"]["empty_days"] = list(get_args(Weekday))
    (tmp_path / "2024-03-01.parquet").write_bytes(b"")
    source = sources.connect(str(tmp_path), parse(config), date(2024, 3, 20))
    assert [day for day in range(1, 20) if source.has(date(2024, 3, day))] == list(range(1, 8))
    assert not source.has(date(2024, 2, 29)), "before the data begins"


def test_a_source_without_any_row_is_refused(step, config, folder, days):
    config["source"] = lay_out(folder, "{date}.csv", empty=list(map(str, days))) | {"empty_days": "allowed"}
    with pytest.raises(UserError, match=r"has no row on any of 2024-03-04 .. 2024-03-10"):
        step.ingest(config, folder)
