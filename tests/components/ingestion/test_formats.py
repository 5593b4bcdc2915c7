"""Files as people have them: what `source.format` says is done, and what it does not say is refused with the remedy."""

import gzip
import io
import zipfile
from datetime import datetime

import pandas as pd
import pytest

from components.ingestion import formats
from nightshift.config import parse
from nightshift.config.source import FileFormat
from nightshift.runtime.errors import UserError
from nightshift_testkit.workbooks import write_workbook
from tests.components.ingestion.conftest import CONFIG, Step

COLUMNS = parse(CONFIG).columns
SPELLED = FileFormat(encoding="cp1252", separator=";", preamble_lines=1, skip_rows=["Total"], missing=["-"])
TEXT = "export of today\nid;shop;n\n1;Gesch\u00e4ft;-\n2;-;5\nTotal;5"


def zipped(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_", "."), data)
    return content.getvalue()


PLAIN = TEXT.encode("cp1252")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.csv", PLAIN),
        ("x.txt", PLAIN + b"\n"),
        ("x.csv.gz", gzip.compress(PLAIN)),
        ("x.csv", gzip.compress(PLAIN)),
        ("x.csv.gz", PLAIN),
        ("x.csv.zip", zipped(x_csv=PLAIN)),
        ("x.zip", zipped(x_csv=PLAIN)),
        ("x.csv", zipped(x_tsv=PLAIN)),
    ],
)
def test_a_file_is_read_as_the_config_spells_it_compressed_or_not(name: str, data: bytes) -> None:
    frame = formats.parse(name, data, COLUMNS, SPELLED)

    assert frame.astype(object).where(frame.notna(), None).to_dict("list") == {
        "id": ["1", "2"],
        "shop": ["Gesch\u00e4ft", None],
        "n": [None, "5"],
    }


@pytest.mark.parametrize(
    ("data", "spelled", "complaint"),
    [
        (
            "id,text\n1,caf\u00e9\n".encode("latin-1"),
            FileFormat(),
            r"is not utf-8 \(byte 0xe9 at 13\); set source.format",
        ),
        ("id,text\n1,x\n".encode("utf-16"), FileFormat(), "is UTF-16, not UTF-8; set source.format.encoding to utf-16"),
        (b"id,text\n1,\x81\n", FileFormat(encoding="cp1252"), r"is not cp1252 \(byte 0x81 at 10\)"),
        (
            "id,text\n1,x\n".encode("utf-16")[:-1],
            FileFormat(encoding="utf-16"),
            "is not whole .it ends within",
        ),
        ("id,text\n1,caf\u00e9".encode()[:-1], FileFormat(), "is not whole .it ends within"),
        (
            b"id;text\n1;x\n",
            FileFormat(),
            "separates its columns by ';', not by ','; set source.format.separator",
        ),
        (b"id,text\n1,x\n", FileFormat(separator=";"), "separates its columns by ',', not by ';'"),
    ],
)
def test_a_file_that_is_written_otherwise_is_refused_with_what_to_set(
    data: bytes, spelled: FileFormat, complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint) as error:
        formats.parse("x.csv", data, COLUMNS, spelled)

    assert "config guess FILE" in str(error.value) or "not whole" in str(error.value)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (zipped(a_csv=PLAIN, b_csv=PLAIN), "^holds a.csv, b.csv; a zip file is read if it holds one file"),
        (zipped(a_doc=PLAIN), "^holds a.doc; a zip file is read if it holds one file"),
        (zipped(a_csv=PLAIN)[:-10], "^is not whole"),
        (gzip.compress(PLAIN)[:-3], "^is not whole"),
    ],
)
def test_an_archive_that_is_no_table_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        formats.parse("x.csv.zip", data, COLUMNS, SPELLED)


# a title above the header, a time as Excel keeps it, and a row that was formatted once
CELLS = [["Bookings of today"], ["id", "at", "amount"], [7, 45940.25, 12.5], ["x-8", 45941, None], [None, None, None]]
WORKBOOK = write_workbook({"Notes": [["nothing here"]], "Data": CELLS}, times="B")


def test_a_sheet_s_cells_keep_their_types_and_empty_rows_are_no_rows() -> None:
    frame = formats.read_rows("x.xlsx", WORKBOOK, FileFormat(sheet="Data", preamble_lines=1))

    assert list(frame.columns) == ["id", "at", "amount"]
    assert frame["id"].tolist() == [7.0, "x-8"]
    assert pd.to_datetime(frame["at"]).tolist() == [datetime(2025, 10, 10, 6), datetime(2025, 10, 11)]
    assert frame["amount"].tolist() == [12.5, None]


def test_a_sheet_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UserError, match=r"has no sheet 'data'; set source.format.sheet to one of Notes, Data"):
        formats.read_rows("x.xlsx", WORKBOOK, FileFormat(sheet="data"))


def test_a_day_is_ingested_again_only_where_the_format_changes(step: Step, clean_days, clean_events) -> None:
    spelled = CONFIG | {"source": CONFIG["source"] | {"format": {"decimal": "."}}}
    other = CONFIG | {"source": CONFIG["source"] | {"format": {"missing": ["-"]}}}

    assert (
        step.ingest(spelled, clean_days).partitions[0].uri.rpartition("/")[2]
        == (clean_events.partitions[0].uri.rpartition("/")[2])
    )
    assert (
        step.ingest(other, clean_days).partitions[0].uri.rpartition("/")[2]
        != (clean_events.partitions[0].uri.rpartition("/")[2])
    )
