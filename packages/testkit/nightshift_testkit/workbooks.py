"""The least that an Excel workbook is made of."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from string import ascii_uppercase

Cells = Sequence[Sequence[object]]
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STYLES = f'<styleSheet {MAIN}><cellXfs><xf numFmtId="0"/><xf numFmtId="22"/></cellXfs></styleSheet>'


def write_workbook(sheets: Mapping[str, Cells], times: str = "") -> bytes:
    """Write sheets of texts, numbers and nothing; the numbers of the columns `times` are formatted as times."""
    names = [f"sheet{number}" for number in range(len(sheets))]
    links = dict.fromkeys(names, "worksheet") | {"styles": "styles"}
    listed = "".join(f'<sheet name="{sheet}" sheetId="{number + 1}" r:id="sheet{number}"/>'
                     for number, sheet in enumerate(sheets))  # fmt: skip
    parts = {
        "_rels/.rels": relate({"xl/workbook": "officeDocument"}),
        "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{OFFICE}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relate(links),
        "xl/styles.xml": STYLES,
    }
    parts |= {f"xl/{name}.xml": write_sheet(cells, times) for name, cells in zip(names, sheets.values(), strict=True)}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return content.getvalue()


def relate(kinds: Mapping[str, str]) -> str:
    """Return the links to parts, whose ids are the names of their files."""
    links = "".join(
        f'<Relationship Id="{name.rpartition("/")[2]}" Type="{OFFICE}/{kind}" Target="{name}.xml"/>'
        for name, kind in kinds.items()
    )
    return f"<Relationships>{links}</Relationships>"


def write_sheet(cells: Cells, times: str) -> str:
    rows = ["".join(write_cell(cell, column in times) for column, cell in zip(ascii_uppercase, row, strict=False))
            for row in cells]  # fmt: skip
    return f"<worksheet {MAIN}><sheetData>{''.join(f'<row>{row}</row>' for row in rows)}</sheetData></worksheet>"


def write_cell(value: object, is_time: bool) -> str:
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    style = 's="1"' if is_time else ""
    return "<c/>" if value is None else f"<c {style}><v>{value}</v></c>"
