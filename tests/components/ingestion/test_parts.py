"""Several files of a day: each value is what it is in its own file, whatever types the other files have."""

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from components.ingestion import formats
from components.ingestion.sources.files import FolderSource
from nightshift.config import parse
from nightshift.config.source import Source
from nightshift.data.arrow import to_frame
from nightshift.runtime.errors import UserError
from nightshift.tasks import columns, spelling
from tests.components.ingestion.conftest import CONFIG

DAY = date(2024, 3, 10)
AT = datetime(2024, 3, 10, 9, 30)
COLUMNS = {
    "int64": pa.array([2**60 + 1, -7, 0]),
    "int64 with nulls": pa.array([2**60 + 3, None]),
    "uint64": pa.array([2**64 - 1, 5], pa.uint64()),
    "int8": pa.array([1, 0], pa.int8()),
    "double": pa.array([28.0, 0.1, 1e300]),
    "double with nulls": pa.array([28.0, None, float("nan")]),
    "float32": pa.array([0.1, 28.0, 2.0**24], pa.float32()),
    "float16": pa.array([0.5, 28.0], pa.float16()),
    "bool": pa.array([True, False, None]),
    "text": pa.array(["007", " x ", "28.0", "", None, "2024-03-10T09:30:00Z"]),
    "text by numbers": pa.array(["7", "a", "7"]).dictionary_encode(),
    "bytes": pa.array([b"ab", b"\xff"]),
    "decimal": pa.array([Decimal("12.50"), Decimal(2**60 + 1)], pa.decimal128(30, 2)),
    "date": pa.array([DAY, date(9999, 12, 31)]),
    "timestamp[us]": pa.array([AT, None], pa.timestamp("us")),
    "timestamp[ns]": pa.array([AT], pa.timestamp("ns")),
    "timestamp[us, UTC]": pa.array([AT.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "timestamp[s] of the year 300000": pa.array([9_404_208_000_000], pa.timestamp("s")),
    "nothing": pa.nulls(2),
}
BERLIN = Source(table="x.csv", timezone="Europe/Berlin")
SPELLED = Source.model_validate({"table": "x.csv", "format": {"times": ["%d.%m.%Y", "epoch_seconds"]}})


def read(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """A column as each reader reads it."""
    column, number = frame["x"], frame["n"]
    series = {
        "id": columns.ids(column, as_text=True),
        "category": columns.canonical(column),
        "label": columns.labels(column),
        "time": spelling.times(column, BERLIN),
        "spelled time": spelling.times(column, SPELLED),
        "number": columns.numbers(number),
        "is there": columns.has_value(column),
        "text": columns.texts(column),
    }
    return {name: values.astype(object).where(values.notna(), None).tolist() for name, values in series.items()}


PARTS = {name: to_frame(pa.table({"x": column, "n": column})) for name, column in COLUMNS.items()}


@cache
def read_alone(name: str) -> dict[str, list[Any]]:
    return read(PARTS[name])


@pytest.mark.parametrize("first", PARTS)
def test_values_of_two_files_are_what_they_are_in_each(first: str) -> None:
    for second in [*PARTS][[*PARTS].index(first) :]:
        joined = read(formats.join([PARTS[first], PARTS[second]], ["n"]))

        for reader, values in joined.items():
            assert values == read_alone(first)[reader] + read_alone(second)[reader], (second, reader)


def source(folder: Path, **settings: Any) -> FolderSource:
    return FolderSource(str(folder), parse(CONFIG | {"source": {"files": "{date}/*.parquet"} | settings}), {})


@pytest.fixture
def parts(tmp_path: Path, clean_days: Path) -> Path:
    """A folder whose day has a part with rows between two without, as Spark writes them."""
    rows = parquet.read_table(clean_days / f"{DAY}.parquet")
    (tmp_path / str(DAY)).mkdir()
    for number, part in enumerate([rows.slice(0, 0), rows, pa.table({"other": pa.array([], pa.int64())})]):
        parquet.write_table(part, tmp_path / str(DAY) / f"part-{number}.parquet")
    return tmp_path


def test_a_part_without_rows_is_no_empty_day_and_changes_no_type(parts: Path, clean_days: Path) -> None:
    whole = formats.parse("x.parquet", (clean_days / f"{DAY}.parquet").read_bytes(), parse(CONFIG).columns)

    pd.testing.assert_frame_equal(source(parts).read(DAY).load(), whole)


def test_a_day_whose_parts_are_all_empty_is_empty(parts: Path) -> None:
    (parts / str(DAY) / "part-1.parquet").unlink()
    frame = source(parts).read(DAY).load()

    with pytest.raises(UserError, match="has no rows; write the file again"):
        columns.require(frame, parse(CONFIG).columns)


def test_a_part_with_rows_needs_every_column(parts: Path) -> None:
    parquet.write_table(pa.table({"other": pa.array([1])}), parts / str(DAY) / "part-2.parquet")

    with pytest.raises(UserError, match="has no column"):
        source(parts).read(DAY).load()
