"""CSV: what is no record of the table is kept apart, line by line, and never filled up; what is one is read."""

from collections import Counter
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from components.ingestion import discovery, formats
from components.ingestion.records import MALFORMED
from components.ingestion.tally import Totals
from nightshift.config import parse
from nightshift.config.source import FileFormat
from nightshift.data.guessing import dialect
from nightshift.runtime.errors import UserError
from tests.components.ingestion.conftest import CONFIG, Step

COLUMNS = parse(CONFIG).columns
HEADER = "id,at,amount,note"
TEXTS = ["plain", '"two\nlines, and ""quotes"""', '"a, b"', "", '"4 apples, 5 pears, 6\r\n7, 8, x, 9"']


def line(number: int) -> str:
    return f"B{number:04},2025-01-{number % 28 + 1:02} 20:50,{number * 1.5},{TEXTS[number % len(TEXTS)]}"


def read(lines: list[str], **spelled: Any) -> tuple[list[str], list[str]]:
    """Ids of the rows, and the malformed lines, of a file."""
    frame = formats.read_rows("x.csv", "\n".join([HEADER, *lines, ""]).encode(), FileFormat(**spelled))
    malformed = frame.get(MALFORMED, pd.Series(None, frame.index, dtype=object))
    return frame["id"][malformed.isna()].tolist(), malformed.dropna().tolist()


def test_fields_of_several_lines_are_read() -> None:
    ids, malformed = read([line(number) for number in range(100)])

    assert (len(ids), malformed) == (100, [])


@pytest.mark.parametrize(
    "bad", ["B9,2025-01-01 20:50", "B9,2025-01-01 20:50,1.5,x,y", "# a comment", 'B9,"x\ny",1', "x"]
)
@pytest.mark.parametrize("position", [0, 5, 9])
def test_a_record_with_another_number_of_fields_is_kept_apart_wherever_it_stands(bad: str, position: int) -> None:
    lines = [line(number) for number in range(9)]

    assert read([*lines[:position], bad, *lines[position:]]) == ([text[:5] for text in lines], [bad])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 58), st.integers(1, 20), st.integers(0, 3), st.integers(0, 3), st.booleans())
@example(0, 1, 3, 3, True)
def test_two_stray_quotes_swallow_no_row_unseen(first: int, count: int, opens: int, closes: int, at_end: bool) -> None:
    """A row that is neither read nor kept apart is lost: none is, wherever the quotes stand."""
    rows = [[f"B{number:04}", "2025-01-01 20:50", f"{number}", "web"] for number in range(60)]
    last = min(first + count, 59)
    rows[first][opens] = f'"{rows[first][opens]}'
    rows[last][closes] = f'{rows[last][closes]}"' if at_end else f'"{rows[last][closes]}'

    try:
        ids, malformed = read([",".join(row) for row in rows])
    except UserError as error:
        assert "ends within quotes" in str(error) or "fields in its header" in str(error)
        return
    names = [f"B{number:04}" for number in range(60)]
    assert [name for name in names if name not in ids and name not in "\n".join(malformed)] == []
    assert set(ids) <= set(names)


def test_the_line_in_which_quotes_open_is_named() -> None:
    lines = [line(number) for number in range(0, 45, 5)]
    lines[6] = lines[6].replace("plain", '"plain')

    with pytest.raises(UserError, match=r"in the record that begins in line 8, maybe with a stray quote\)"):
        read(lines)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "# exported 2025-03-10\nid,at,y\n1,2,3\n4,5,6\n",
            "has 1 fields in its header, '# exported 2025-03-10', and 3",
        ),
        ("a,b\n1,2,3\n4,5,6\n", "has 2 fields in its header, 'a,b', and 3 in 2 of 2 records"),
        ("sep=,\nid,at,y\n1,2,3\n", "begins with 'sep=,', a line for Excel; set source.format.preamble_lines to 1"),
        ("\ufeffsep=,\r\nid,at\r\n1,2\r\n", "set source.format.preamble_lines to 1"),
        (f"# by,x,y,z,a,b\n{','.join(COLUMNS.names)}\n", "has its header below '# by, x, y, z, a, b'; set source.form"),
    ],
)
def test_lines_before_the_header_are_refused_with_the_key_to_set(text: str, complaint: str) -> None:
    with pytest.raises(UserError) as error:
        formats.parse("x.csv", text.encode(), COLUMNS)

    assert complaint in str(error.value)
    assert "source.format.preamble_lines" in str(error.value)
    assert "ndas" not in str(error.value)


ESCAPED = r"""id,note
1,"a \"quoted\" word, and more"
2,"5\""
3,"C:\\new"
4,C:\\new
5,"two
lines \" ""
"
6,plain
"""


def test_quotes_after_a_backslash_are_read_where_the_config_says_so_which_guess_finds() -> None:
    with pytest.raises(UserError, match=r"has quotes after a backslash, the first in line 2; set source.format.escape"):
        formats.read_rows("x.csv", ESCAPED.encode(), FileFormat())
    settings = dialect.guess(ESCAPED.encode()).settings

    notes = formats.read_rows("x.csv", ESCAPED.encode(), FileFormat(**settings))["note"].tolist()

    assert settings == {"escape": "\\"}
    assert notes == ['a "quoted" word, and more', '5"', "C:\\new", "C:\\\\new", 'two\nlines " "\n', "plain"]


@pytest.mark.parametrize("text", ['"C:\\"', '"C:\\""d"', "C:\\"])
def test_a_backslash_at_the_end_of_a_field_is_no_escape(text: str) -> None:
    assert dialect.guess(f"id,path\n1,{text}\n2,x\n".encode()).settings == {}


def test_malformed_lines_are_quarantined_by_a_rule(step: Step, tmp_path) -> None:
    rows = [
        f"T{number},2024-03-{number // 50 + 1:02}T10:00:00Z,C{number % 7},S{number % 5},1.5,{number % 2}"
        for number in range(500)
    ]
    rows[202] = rows[202].replace("C6", '"C6')
    rows[204] = rows[204].replace("C1", 'C1"')
    rows.insert(320, "short,2024-03-07T10:00:00Z")
    names = ["event_id", "event_time", "customer", "terminal", "amount", "label"]
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), *rows, ""]))
    limits = {"max_share": 0.02}
    config = CONFIG | {
        "quarantine": limits,
        "source": {"table": "t.csv"},
        "columns": dict(zip(names, names, strict=True)),
    }

    table = step.ingest(config, tmp_path)

    quarantined = {str(part.date): part.details["quarantined"] for part in table.partitions}
    assert {day: rules for day, rules in quarantined.items() if rules} == {
        "2024-03-05": {MALFORMED: 3},
        "2024-03-07": {MALFORMED: 1},
    }


def test_a_day_that_malformed_lines_have_emptied_is_no_day_without_rows() -> None:
    totals = Totals(Counter({"": 900, "negative": 100}), {MALFORMED: Counter({"": 3})})
    closed = parse(CONFIG | {"source": {"table": "t.csv", "empty_days": "allowed"}})

    discovery.require_whole_days(totals, parse(CONFIG))
    with pytest.raises(UserError, match="3 lines are no records of the table, and some days have no rows"):
        discovery.require_whole_days(totals, closed)
