"""Columns that files lack are made of others, as the config says."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nightshift.config.source import DerivedColumn, Source
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError
from nightshift.tasks.derived import derive
from tests.components.ingestion.conftest import CONFIG, Step

FIRST = date(2025, 3, 1)
PARTS = {"year": "Y", "month": "M", "day": "D"}
FRAME = pd.DataFrame(
    {
        "Y": ["2025", "2025.0", "2025", None],
        "M": ["3", "03", "13", "3"],
        "D": ["1", "2", "3", "4"],
        "h": ["14", "0", "1", "2"],
        "clock": ["14:30", "2:30 PM", "25:00", "00:00:01"],
        "day": ["2025-03-01", "2025-03-02", "soon", None],
        "closed": ["yes", "no", None, "\u00a0yes"],
        "loss": ["0", "10.5", "n/a", "(3)"],
    },
    dtype="str",
)


def derived(how: Any, **source: Any) -> list[Any]:
    read = Source.parse_value({"table": "x.csv", "columns": {"new": how}, **source})
    return [None if pd.isna(value) else value for value in derive(FRAME, read)["new"].tolist()]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (PARTS, ["2025-03-01", "2025-03-02", None, None]),
        (PARTS | {"hour": "h"}, ["2025-03-01 14:00", "2025-03-02 00:00", None, None]),
        (PARTS | {"time": "clock"}, ["2025-03-01 14:30", "2025-03-02 14:30", None, None]),
        ({"date": "day", "time": "clock"}, ["2025-03-01 14:30", "2025-03-02 14:30", None, None]),
        (PARTS | {"hour": "loss"}, ["2025-03-01", None, None, None]),
    ],
)
def test_a_time_is_made_of_its_parts_and_of_what_is_none_there_is_no_time(how: Any, expected: list[str | None]) -> None:
    assert derived(how) == [time and pd.Timestamp(time) for time in expected]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"column": "closed", "is_null": True}, [0, 0, 1, 0]),
        ({"column": "closed", "is_null": False}, [1, 1, 0, 1]),
        ({"column": "closed", "equals": "yes"}, [1, 0, None, 1]),
        ({"column": "loss", "equals": 0}, [1, 0, 0, 0]),
        ({"column": "loss", "above": 0}, [0, 1, None, 0]),
        ("row_number", [1, 2, 3, 4]),
        ({"column": "h"}, ["14", "0", "1", "2"]),
    ],
)
def test_an_outcome_is_a_value_that_is_missing_equal_or_larger_a_row_has_its_number_and_a_name_may_be_another(
    how: Any, expected: list[Any]
) -> None:
    assert derived(how) == expected


@pytest.mark.parametrize(
    "how",
    [
        *({}, {"row_number": True, "column": "a"}, {"is_null": True}, {"column": "a", "is_null": True, "above": 1}),
        *({"year": "Y"}, {"date": "d", "year": "Y"}, PARTS | {"minute": "m"}, {"date": "d", "time": "t", "hour": "h"}),
    ],
)
def test_what_is_neither_a_number_nor_a_time_nor_an_outcome_is_refused(how: Any) -> None:
    with pytest.raises(ValueError, match="takes row_number, "):
        DerivedColumn.parse_value(how)


def test_a_query_derives_its_columns_itself() -> None:
    with pytest.raises(ValueError, match="'columns' derives id, which only 'files' and 'table' take"):
        Source.parse_value({"query": "select 1 where {date} = {date}", "columns": {"id": "row_number"}})


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({"column": "clsed", "is_null": True}, r"no column 'clsed' \(source.columns.closed2.column; did you mean"),
        (None, "has a column 'closed', which source.columns derives too"),
    ],
)
def test_a_column_that_is_missing_or_there_already_is_named(how: Any, complaint: str) -> None:
    columns = {"closed2": how} if how else {"closed": "row_number"}
    with pytest.raises(UserError, match=complaint):
        derive(FRAME, Source.parse_value({"table": "x.csv", "columns": columns}))


DERIVED = {
    "event_id": "row_number",
    "event_time": PARTS | {"hour": "hour"},
    "label": {"column": "blocked_at", "is_null": False},
}
NAMES = {"event_id": "event_id", "event_time": "event_time", "label": "label", "customer": "card", "amount": "amount"}


def write(folder: Path, layout: str, days: pd.DatetimeIndex) -> None:
    """Write 40 rows a day, without an id, a time or a label."""
    header = "Y,M,D,hour,card,amount,blocked_at\n"
    lines = {
        f"{day:%Y-%m-%d}": [
            f"{day.year},{day.month},{day.day},{row % 24},K{row % 7},{row}.5,{'soon' if row % 5 == 0 else ''}\n"
            for row in range(40)
        ]
        for day in days
    }
    for day, rows in lines.items() if layout == "files" else ():
        (folder / f"{day}.csv").write_text(header + "".join(rows))
    if layout == "table":
        (folder / "t.csv").write_text(header + "".join(line for rows in lines.values() for line in rows))


@pytest.mark.parametrize("layout", ["table", "files"])
def test_a_file_without_id_time_and_label_is_ingested_and_its_rows_keep_their_ids(
    layout: str, step: Step, tmp_path: Path, days: list[date]
) -> None:
    source = {"table": "t.csv"} if layout == "table" else {"files": "{date}.csv"}
    config = CONFIG | {"source": source | {"columns": DERIVED}, "columns": NAMES}
    tables = []
    for last in (days[-1], days[-1] + timedelta(days=1)):  # the second night with a day more
        write(tmp_path, layout, pd.date_range(days[0], last))
        tables.append(step.ingest(config, tmp_path))

    first, second = (table.read(Days(days[0], days[-1]), ["event_id", "event_time", "label"]) for table in tables)
    assert first.equals(second)
    assert first["event_id"].is_unique
    assert first["event_time"].dt.hour.max() == 23
    assert first["label"].mean() == 0.2
