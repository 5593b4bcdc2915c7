"""A table in any dialect is read as the values that were written."""

import csv
import io
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.ingestion import formats
from nightshift.config.source import FileFormat
from nightshift.data.guessing import dialect, profiles
from nightshift.data.guessing.profiles import Reading, TableProfile
from nightshift.runtime.errors import UserError

NOW = datetime(2026, 1, 1)
ROWS = 120
MARKS = [(".", ""), (",", ""), (".", ","), (",", "."), (",", " "), (".", "'"), (",", "\u202f")]
SPELLINGS = {
    "%Y-%m-%d %H:%M:%S": [],
    "%Y%m%dT%H%M%SZ": [],
    "%d.%m.%Y %H:%M": ["%d.%m.%Y %H:%M"],
    "%m/%d/%Y %I:%M %p": ["%m/%d/%Y %I:%M %p"],
    "%d/%m/%Y": ["%d/%m/%Y"],
    "%d-%b-%y": ["%d-%b-%y"],
    "%b %d, %Y %H:%M": ["%b %d, %Y %H:%M"],
    "%Y/%m/%d %H:%M:%S.%f": ["%Y/%m/%d %H:%M:%S.%f"],
}


def values(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    minutes = np.sort(rng.integers(0, 60 * 24 * 80, ROWS))
    return pd.DataFrame(
        {
            "Booking no.": [f"B{number:03}" for number in range(ROWS)],
            "Booked at": [datetime(2025, 10, 10) + timedelta(minutes=int(minute)) for minute in minutes],
            "Amount": (rng.gamma(2, 900, ROWS) + 0.01).round(2),
            "Note": rng.choice(["Gesch\u00e4ft", 'a "quoted" word', "two\nlines", "a;b,c|d\te", "plain"], ROWS),
        }
    )


def spell(number: float, decimal: str, thousands: str) -> str:
    return f"{number:,.2f}".replace(",", "\0").replace(".", decimal).replace("\0", thousands)


def write(frame: pd.DataFrame, written: dict[str, Any]) -> bytes:
    """A table in a dialect."""
    text = io.StringIO()
    text.write("".join(f"exported on page {number}\n" for number in range(written["preamble"])))
    lines = csv.writer(text, delimiter=written["separator"], lineterminator=written["end"])
    lines.writerow(frame.columns)
    for row in frame.itertuples(index=False):
        moment = row[1].strftime(written["time"])
        lines.writerow([row[0], moment, spell(row[2], *written["marks"]) + written["unit"], row[3]])
    encoding = written["encoding"]
    return text.getvalue().encode(encoding, "strict" if encoding.startswith("utf") else "replace")


def read(data: bytes) -> tuple[pd.DataFrame, TableProfile]:
    """What `nightshift config guess` makes of a table."""
    guessed = dialect.guess(data)
    frame = formats.read_rows("x.csv", data, FileFormat(**guessed.settings))
    return frame, profiles.profile(frame, Reading(guessed.separator, NOW))


DIALECTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "separator": st.sampled_from([",", ";", "\t", "|"]),
        "marks": st.sampled_from(MARKS),
        "unit": st.sampled_from(["", " \u20ac", "%"]),
        "time": st.sampled_from(list(SPELLINGS)),
        "encoding": st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"]),
        "preamble": st.sampled_from([0, 2]),
        "end": st.sampled_from(["\n", "\r\n"]),
    }
)
# marks that an encoding lacks are not written in it
POSSIBLE = DIALECTS.filter(lambda written: written["encoding"] != "cp1252" or written["marks"][1] != "\u202f")


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(POSSIBLE, st.integers(0, 2**16))
def test_a_table_in_any_dialect_is_read_as_the_values_that_were_written(written: dict[str, Any], seed: int) -> None:
    frame = values(seed)

    rows, table = read(write(frame, written))

    columns = table.columns
    assert rows["Booking no."].tolist() == frame["Booking no."].tolist()
    assert columns["Amount"].typed.tolist() == frame["Amount"].tolist()
    moments = [datetime.strptime(moment.strftime(written["time"]), written["time"]) for moment in frame["Booked at"]]
    assert columns["Booked at"].typed.tolist() == moments
    assert columns["Booked at"].spelled is not None
    assert columns["Booked at"].spelled.times == SPELLINGS[written["time"]]
    assert rows["Note"].str.replace("\r\n", "\n").tolist() == frame["Note"].tolist()


@pytest.mark.parametrize(
    ("unit", "scale"),
    [
        ("epoch_seconds", 1),
        ("epoch_milliseconds", 10**3),
        ("epoch_microseconds", 10**6),
        ("epoch_nanoseconds", 10**9),
    ],
)
def test_times_that_are_numbers_are_told_apart_by_their_size(unit: str, scale: int) -> None:
    moments = values(0)["Booked at"]
    seconds = [int((moment - datetime(1970, 1, 1)).total_seconds()) for moment in moments]

    _, table = read(b"id,at\n" + b"".join(b"B%d,%d\n" % (row, second * scale) for row, second in enumerate(seconds)))

    assert table.columns["at"].spelled is not None
    assert table.columns["at"].spelled.times == [unit]
    assert table.columns["at"].typed.tolist() == moments.tolist()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1;2025-10-10;3\n2;2025-10-11;4\n", "has no header: its first line is '1, 2025-10-10, 3'"),
        ("name\nAnna\nBert\n", "has one field a line, whichever of comma, semicolon, tab and | separates them"),
    ],
)
def test_what_is_no_table_is_refused_with_the_remedy(text: str, complaint: str) -> None:
    with pytest.raises(UserError) as error:
        dialect.guess(text.encode())

    assert complaint in str(error.value)


def test_the_word_by_which_a_legacy_encoding_can_be_checked_is_shown() -> None:
    guessed = dialect.guess("id,shop\n1,Gesch\u00e4ft 8\n".encode("latin-1"))

    assert guessed.settings == {"encoding": "cp1252"}
    assert "'Gesch\u00e4ft'" in guessed.reasons[0]


def test_a_damaged_character_of_utf_8_is_no_other_encoding() -> None:
    text = "id,shop\n1,Gesch\u00e4ft\n2,Caf\u00e9\n".encode()

    with pytest.raises(UserError, match="is UTF-8, and line 3 has a byte that is not; correct that line"):
        dialect.guess(text[:-2] + b"\n")


@pytest.mark.parametrize("text", ["a;b\nx;0.234\ny;5.678\n", "a;b\nx;1.700e-05\ny;2.100e+02\n"])
def test_what_cannot_have_marks_between_thousands_is_read_with_decimals(text: str) -> None:
    _, table = read(text.encode())

    assert "thousands" not in table.settings
    assert table.columns["b"].typed.max() < 1000


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ('a,b\nx,"1,234"\ny,"5,678"\n', {"thousands": ","}),
        ("a;b\nx;1,234\ny;5,678\n", {"decimal": ","}),
        ("a,b\nx,1.234\ny,5.678\n", {}),
        ("a;b\nx;1.234\ny;5.678\n", {"decimal": ",", "thousands": "."}),
    ],
)
def test_three_digits_after_a_mark_are_read_as_the_separator_suggests_and_that_is_said(
    text: str, spelled: dict[str, str]
) -> None:
    _, table = read(text.encode())

    assert table.settings == spelled
    assert "can be read in two ways" in " ".join(table.reasons)


def test_texts_for_no_value_are_those_whose_columns_hold_numbers_or_times_otherwise() -> None:
    _, table = read(b"a,b,c\nx,1.5,NA\ny,-,web\nz,2.5,shop\n")

    assert table.settings == {"missing": ["-"]}
    assert table.columns["b"].typed.isna().tolist() == [False, True, False]


def test_numbers_with_leading_zeros_are_texts() -> None:
    _, table = read(b"a,b\nx,007\ny,123\n")

    assert table.columns["b"].kind == "text"


def test_a_repeated_header_and_a_row_of_totals_are_no_events() -> None:
    rows = "".join(f"B{number},2025-10-{number + 10},1.5,web\n" for number in range(9))

    _, table = read(f"id,at,amount,channel\n{rows}id,at,amount,channel\n{rows}Total,,27.0,\n".encode())

    assert table.settings == {"skip_rows": ["id", "Total"]}
    assert len(table.columns["id"].typed) == 18
