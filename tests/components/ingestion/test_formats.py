"""Files as people have them: what `source.format` says is done, and what it does not say is refused with the remedy."""

import gzip
import io
import zipfile
from datetime import datetime

import pandas as pd
import pytest
from python_calamine import CalamineWorkbook

from components.ingestion import formats
from nightshift.config import parse
from nightshift.config.source import Format
from nightshift.errors import UserError
from tests.components.ingestion.conftest import CONFIG, Step

COLUMNS = parse(CONFIG).columns
SPELLED = Format(encoding="cp1252", separator=";", preamble_lines=1, skip_rows=["Total"], missing=["-"])
TEXT = "export of today\nid;shop;n\n1;Gesch\u00e4ft;-\n2;-;5\nTotal;;5"


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
            Format(),
            r"is not utf-8 \(byte 0xe9 at 12\); set source.format.encod",
        ),
        ("id,text\n1,x\n".encode("utf-16"), Format(), "is UTF-16, not UTF-8; set source.format.encoding to utf-16"),
        (b"id,text\n1,\x81\n", Format(encoding="cp1252"), r"is not cp1252 \(byte 0x81 at 10\)"),
        ("id,text\n1,x\n".encode("utf-16")[:-1], Format(encoding="utf-16"), "is not whole .it ends within a character"),
        ("id,text\n1,caf\u00e9".encode()[:-1], Format(), "is not whole .it ends within a character"),
        (
            b"id;text\n1;x\n",
            Format(),
            "separates its columns by ';', not by ','; set source.format.separator in the config",
        ),
        (b"id,text\n1,x\n", Format(separator=";"), "separates its columns by ',', not by ';'"),
    ],
)
def test_a_file_that_is_written_otherwise_is_refused_with_what_to_set(
    data: bytes, spelled: Format, complaint: str
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


# a workbook of two sheets: a title above the header, times, numbers, and an empty row that was formatted once
XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
CELLS = [["Bookings of today"], ["id", "at", "amount"], [7, 45940.25, 12.5], ["x-8", 45941, None], [None, None, None]]


def sheet(cells: list[list[object]]) -> str:
    rows = ""
    for number, row in enumerate(cells, 1):
        fields = ""
        for letter, value in zip("ABC", row, strict=False):
            place = f'r="{letter}{number}"'
            if isinstance(value, str):
                fields += f'<c {place} t="inlineStr"><is><t>{value}</t></is></c>'
            elif value is None:
                fields += f"<c {place}/>"
            else:
                fields += f"<c {place}{' s="1"' if letter == 'B' else ''}><v>{value}</v></c>"
        rows += f'<row r="{number}">{fields}</row>'
    return f"{XML}<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>"


def workbook() -> bytes:
    package = "http://schemas.openxmlformats.org/package/2006"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    links = [("worksheet", "sheet1"), ("worksheet", "sheet2"), ("styles", "styles")]
    parts = {
        "[Content_Types].xml": f'{XML}<Types xmlns="{package}/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{kinds}.sheet.main+xml"/></Types>',
        "_rels/.rels": f'{XML}<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
        f'Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'{XML}<workbook {MAIN} xmlns:r="{OFFICE}"><sheets><sheet name="Notes" sheetId="1" '
        'r:id="rId1"/><sheet name="Data" sheetId="2" r:id="rId2"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'{XML}<Relationships xmlns="{package}/relationships">'
        + "".join(
            f'<Relationship Id="rId{number}" Type="{OFFICE}/{kind}" Target="{name}.xml"/>'
            for number, (kind, name) in enumerate(links, 1)
        )
        + "</Relationships>",
        "xl/styles.xml": f'{XML}<styleSheet {MAIN}><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="22"/></cellXfs>'
        "</styleSheet>",
        "xl/sheet1.xml": sheet([["nothing here"]]),
        "xl/sheet2.xml": sheet(CELLS),
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return content.getvalue()


def test_a_sheet_s_cells_keep_their_types_and_empty_rows_are_no_rows() -> None:
    data = workbook()
    assert CalamineWorkbook.from_filelike(io.BytesIO(data)).sheet_names == ["Notes", "Data"]

    frame = formats.read_rows("x.xlsx", data, Format(sheet="Data", preamble_lines=1))

    assert list(frame.columns) == ["id", "at", "amount"]
    assert frame["id"].tolist() == [7.0, "x-8"]
    assert pd.to_datetime(frame["at"]).tolist() == [datetime(2025, 10, 10, 6), datetime(2025, 10, 11)]
    assert frame["amount"].tolist() == [12.5, None]


def test_a_sheet_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UserError, match="has no sheet 'data'; set source.format.sheet to one of Notes, Data"):
        formats.read_rows("x.xlsx", workbook(), Format(sheet="data"))


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
