"""Tables between steps."""

import json
import shutil
from datetime import date
from pathlib import Path

import pandas as pd
import pytest

from nightshift.contracts import tables
from nightshift.runtime.errors import UserError

MONDAY, TUESDAY, SUNDAY = date(2024, 3, 18), date(2024, 3, 19), date(2024, 3, 17)


def frame(day: date, rows: int = 3) -> pd.DataFrame:
    times = pd.Series(pd.date_range(str(day), periods=rows, freq="h", unit="us"))
    labels = pd.array([0, 1, None][:rows], dtype="Int8")
    return pd.DataFrame({"event_time": times, "label": labels, "amount": [0.1, 2.0, 3.5][:rows]})


def table(folder: Path) -> tables.Table:
    parts = []
    for day in (MONDAY, TUESDAY):
        uri = tables.partition_uri(str(folder), "fraud", "events", day, "ab" * 32)
        parts.append(tables.write_partition(uri, day, frame(day), {"read": 4}))
    return tables.Table("events", parts, {"source": "simulator"})


def test_a_table_read_back_is_the_one_written(tmp_path: Path) -> None:
    written = table(tmp_path / "lake")
    tables.write_table(str(tmp_path / "events.json"), written)

    reread = tables.read_table(str(tmp_path / "events.json"))

    assert reread == written
    assert reread.partition(MONDAY).details == {"read": 4}


def test_a_partition_is_found_where_the_lake_lies_now(tmp_path: Path) -> None:
    uri = table(tmp_path / "before").partition(MONDAY).uri
    shutil.move(tmp_path / "before", tmp_path / "now")

    part = tables.find_partition(uri.replace("before", "now"))

    assert part is not None
    pd.testing.assert_frame_equal(tables.Table("events", [part]).read([MONDAY]), frame(MONDAY))


def test_rows_keep_their_types_through_the_lake(tmp_path: Path) -> None:
    read = table(tmp_path).read([MONDAY])

    pd.testing.assert_frame_equal(read, frame(MONDAY))


def test_days_are_read_in_the_order_asked_for_with_the_columns_asked_for(tmp_path: Path) -> None:
    read = table(tmp_path).read([TUESDAY, MONDAY], ["event_time"])

    assert list(read) == ["event_time"]
    assert read["event_time"].dt.date.tolist() == [TUESDAY] * 3 + [MONDAY] * 3
    assert read.index.tolist() == list(range(6))


def test_a_day_the_table_lacks_is_named_with_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"table 'events' has no 2024-03-17, it holds 2024-03-18 \.\. 2024-03-19"):
        table(tmp_path).read([SUNDAY])


def test_an_empty_table_says_so() -> None:
    with pytest.raises(UserError, match="it holds nothing"):
        tables.Table("events", []).partition(MONDAY)


def test_a_manifest_carries_its_rows_and_its_identity(tmp_path: Path) -> None:
    written = table(tmp_path)
    tables.write_table(str(tmp_path / "events.json"), written)

    manifest = json.loads((tmp_path / "events.json").read_text())

    assert (manifest["rows"], manifest["sha256"]) == (6, written.sha256)


def test_the_same_rows_elsewhere_are_the_same_table(tmp_path: Path) -> None:
    assert table(tmp_path / "here").sha256 == table(tmp_path / "there").sha256


def test_one_changed_value_makes_another_table(tmp_path: Path) -> None:
    first = table(tmp_path)
    spoiled = tables.write_partition(
        first.partitions[1].uri, TUESDAY, frame(TUESDAY).assign(amount=[0.1, 2.0, 3.6]), {}
    )

    assert tables.Table("events", [first.partitions[0], spoiled]).sha256 != first.sha256


def test_a_complete_partition_is_found_again(tmp_path: Path) -> None:
    written = table(tmp_path).partition(MONDAY)

    assert tables.find_partition(written.uri) == written


def test_a_partition_whose_writing_was_cut_off_is_not_found(tmp_path: Path) -> None:
    written = table(tmp_path).partition(MONDAY)
    Path(f"{written.uri}.json").unlink()

    assert tables.find_partition(written.uri) is None


def test_a_partition_lies_below_its_use_case_table_and_day() -> None:
    uri = tables.partition_uri("s3://lake/root/", "fraud", "events", MONDAY, "0123456789abcdef" * 4)

    assert uri == "s3://lake/root/fraud/events/date=2024-03-18/0123456789abcdef.parquet"


def test_a_lost_partition_is_named(tmp_path: Path) -> None:
    written = table(tmp_path)
    shutil.rmtree(tmp_path / "fraud")

    with pytest.raises(UserError, match=r"0*abab\.parquet does not exist"):
        written.read([MONDAY])
