"""Files that were once read wrongly, as they came."""

from pathlib import Path

import pandas as pd
import pytest
import yaml
from pyarrow import parquet

from nightshift import storage
from nightshift.contracts.tables import Table
from nightshift.errors import UserError

CASES = Path(__file__).parents[4] / "shared/cases/data"
DATE = "2025-03-10"

pytestmark = pytest.mark.skipif(not CASES.exists(), reason="needs ../shared/cases")


def ingest(step, name: str) -> Table:
    config = yaml.safe_load((CASES / name / "c.yaml").read_text())
    return step.ingest(config, CASES / name / "data", DATE)


def events(table: Table) -> pd.DataFrame:
    return pd.concat([storage.read_frame(part.uri) for part in table.partitions], ignore_index=True)


def test_customers_beyond_63_bits_are_who_they_are_beside_a_null_too(step):
    table = ingest(step, "A_uint64")
    assert table.details["quarantined"] == {"missing_key": 1}
    customers = set(events(table)["customer"])
    files = [CASES / "A_uint64/data" / f"{part.date}.parquet" for part in table.partitions]
    written = [value for file in files for value in parquet.read_table(file)["cust"].to_pylist()]
    assert customers == set(written) - {None}


def test_a_basic_time_with_an_offset_is_shifted_once(step):
    table = ingest(step, "C_iso")
    rows = pd.read_csv(CASES / "C_iso/data/t.csv").set_index("id")
    expected = pd.to_datetime(rows["ts"], format="%Y%m%dT%H%M%SZ")
    for row in events(table).itertuples():
        assert row.event_time == expected[row.event_id]
    assert table.details["quarantined"] == {}
    assert {part.rows for part in table.partitions} == {40}


def test_an_open_end_in_the_year_9999_is_left_out_with_its_day_and_ends_no_night(step):
    table = ingest(step, "G_9999")
    rows = pd.read_csv(CASES / "G_9999/data/t.csv")
    (open_end,) = rows.index[rows["ts"].str.startswith("9999")]
    assert rows["ts"][open_end - 1] < table.partitions[0].date, "it counts to the day of the row before it"
    assert table.rows == len(events(table)) > 0
    assert rows["id"][open_end] not in set(events(table)["event_id"])


def test_a_header_that_names_a_column_twice_ends_the_run(step):
    with pytest.raises(UserError, match="has column 'amt' more than once; keep one"):
        ingest(step, "H_dupheader")
