"""Records of CSV: those with as many fields as the header are rows; the lines of all others go into quarantine."""

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nightshift.config.source import FileFormat
from nightshift.data import values
from nightshift.data.guessing.dialect import list_records
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import pyarrow as pa

MALFORMED = "malformed_record"  # the column of these texts, and the rule that rejects them
UNNAMED = "Unnamed: "  # begins the name of a column without one
END = "\x1e"  # a record of its own after the last one, unless quotes are open there
LARGEST_BLOCK = 2**31 - 1  # bytes that are parsed at once
SAMPLED_ROWS = 1000
MOST_SHAPES = 8  # shapes of a column whose values are alike
AROUND = values.SPACE + "\"'"
LINE_END = re.compile("\r\n|\r|\n")
NUMBER = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)*")
WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Records:
    """The records of a file.

    Attributes:
        spelled: how the file is written.
        names: of the header's columns.
        rows: records with as many fields as the header, every field a text, null where it is missing.
        malformed: position among all records -> text of each other one.
    """

    spelled: FileFormat
    names: list[str]
    rows: "pa.Table"
    malformed: dict[int, str]

    @property
    def positions(self) -> "npt.NDArray[np.intp]":
        """The position of each row among all records."""
        import numpy as np

        return np.delete(np.arange(self.rows.num_rows + len(self.malformed)), [*self.malformed])

    def split(self, line: str) -> list[str]:
        """Return the fields of a record."""
        return next(list_records(line, self.spelled.separator, self.spelled.quote), [""])

    def is_skipped(self, line: str) -> bool:
        """Return whether a record is left out: it is blank, or its first field is one of `skip_rows`."""
        return not line.strip() or self.split(line)[0].strip(values.SPACE) in self.spelled.skip_rows

    def join(self, row: int) -> str:
        """Return a row as a record, in quotes where a field holds the end of a line."""
        quote, fields = self.spelled.quote, [column[row].as_py() or "" for column in self.rows.columns]
        return self.spelled.separator.join(
            f"{quote}{field}{quote}" if LINE_END.search(field) else field for field in fields
        )


def read(plain: bytes, spelled: FileFormat) -> "pd.DataFrame":
    """Read CSV; every value stays text.

    Args:
        plain: UTF-8 from the header on.
        spelled: its separator, quote and missing values.

    Returns:
        the rows. A record with fewer or more fields than the header, and every line of records that a quoted field has
        swallowed, is a row without values; its text is in column `malformed_record`, which other files lack.

    Raises:
        EOFError: when the last record is not whole.
        UserError: when most records have another number of fields than the header.
    """
    records = _take_end(_parse(plain, spelled), plain)
    lines = {number: [text] for number, text in records.malformed.items() if not records.is_skipped(text)}
    _require_width(records, [*lines])
    if spelled.quote.encode() in plain:
        lines |= _find_swallowed(records)
    return _to_frame(records, lines)


def _parse(plain: bytes, spelled: FileFormat) -> Records:
    """Return the records below the header, and `END`."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = _read_header(plain, spelled)
    malformed: dict[int, str] = {}

    def keep(row: arrow_csv.InvalidRow) -> str:
        malformed[row.number - 2] = row.text  # numbers begin with 1, the header's
        return "skip"

    whole = b"%b\n%b" % (plain, END.encode())
    # not in threads, where records lose their numbers
    reading = arrow_csv.ReadOptions(
        use_threads=False, block_size=min(len(whole) + 1, LARGEST_BLOCK), autogenerate_column_names=True
    )
    parsing = arrow_csv.ParseOptions(
        delimiter=spelled.separator, quote_char=spelled.quote, newlines_in_values=True, invalid_row_handler=keep
    )
    # only nothing is missing: 'NA' may be somebody's id
    converting = arrow_csv.ConvertOptions(
        column_types={f"f{number}": pa.string() for number in range(len(names))},
        strings_can_be_null=True,
        null_values=["", *spelled.missing],
    )
    rows = arrow_csv.read_csv(pa.BufferReader(whole), reading, parsing, converting)
    return Records(spelled, names, rows.slice(1), malformed)


def _read_header(plain: bytes, spelled: FileFormat) -> list[str]:
    text = io.TextIOWrapper(io.BytesIO(plain), encoding="utf-8-sig", newline="")
    header = next(filter(None, csv.reader(text, delimiter=spelled.separator, quotechar=spelled.quote)), None)
    if header is None:
        raise ValueError("it has no header")
    return [name or f"{UNNAMED}{number}" for number, name in enumerate(header)]


def _take_end(records: Records, plain: bytes) -> Records:
    """Return the records of a file without `END`.

    Raises:
        EOFError: when the last record is not whole.
    """
    rows, malformed = records.rows, dict(records.malformed)
    end = rows.num_rows + len(malformed) - 1
    last = malformed.pop(end) if end in malformed else records.join(rows.num_rows - 1)
    if last != END:
        line = plain.count(b"\n") + 2 - last.count("\n")
        raise EOFError(f"it ends within quotes, in the record that begins in line {line}, maybe with a stray quote")
    whole = Records(records.spelled, records.names, rows.slice(0, end - len(malformed)), malformed)
    cut = malformed.get(end - 1, "")
    fields, width = len(records.split(cut)), rows.num_columns
    if fields < width and not plain.endswith((b"\n", b"\r")) and not records.is_skipped(cut):
        raise EOFError(f"its last line has {fields} of {width} fields, and no end")
    return whole


def _require_width(records: Records, malformed: list[int]) -> None:
    """Check that most records have as many fields as the header.

    Raises:
        UserError: when they have not.
    """
    total = records.rows.num_rows + len(malformed)
    if 2 * len(malformed) <= total:
        return
    widths = Counter(len(records.split(records.malformed[number])) for number in malformed)
    width, count = widths.most_common(1)[0]
    header = records.spelled.separator.join(records.names)
    raise UserError(
        f"has {len(records.names)} fields in its header, {header[:60]!r}, and {width} in {count:,} of {total:,} "
        "records; if lines such as a comment stand before the header, set source.format.preamble_lines to their number "
        "in the config (`nightshift config guess FILE` finds it); otherwise write the file again"
    )


def _find_swallowed(records: Records) -> dict[int, list[str]]:
    """Return position -> lines of each record in whose quotes, or between them, lies what looks like a record."""
    shapes = _find_shapes(records.rows.slice(0, SAMPLED_ROWS))
    multiline = _find_multiline(records.rows)
    positions = records.positions[multiline].tolist()
    texts = {position: records.join(row) for position, row in zip(positions, multiline, strict=True)}
    swallowed = {}
    for position, text in (texts | records.malformed).items():
        first, *further = filter(None, LINE_END.split(text))
        if any(_is_row(records.split(line), records, shapes) for line in further):
            swallowed[position] = [first, *further]
    return swallowed


def _find_multiline(rows: "pa.Table") -> list[int]:
    """Return the rows in which a field holds the end of a line."""
    import numpy as np
    from pyarrow import compute

    multiline = np.zeros(rows.num_rows, bool)
    for column in rows.columns:
        multiline |= compute.match_substring_regex(column, "[\r\n]").fill_null(False).to_numpy(zero_copy_only=False)
    return np.flatnonzero(multiline).tolist()


def _find_shapes(rows: "pa.Table") -> dict[int, set[str]]:
    """Return column -> shapes of its values, of the columns whose values all hold digits and have few shapes."""
    columns = {number: set(map(_shape, column.drop_null().to_pylist())) for number, column in enumerate(rows.columns)}
    return {
        number: shapes
        for number, shapes in columns.items()
        if 0 < len(shapes) <= MOST_SHAPES and all("9" in shape for shape in shapes)
    }


def _shape(field: str) -> str:
    """Return a field, without quotes around it, with a 9 for each number and an a for each word."""
    return WORD.sub("a", NUMBER.sub("9", field.strip(AROUND)))


def _is_row(fields: list[str], records: Records, shapes: dict[int, set[str]]) -> bool:
    """Return whether fields are as many as the header's, and each has a shape of its column."""
    if len(fields) != len(records.names) or not shapes:
        return False
    return all(not fields[number] or _shape(fields[number]) in known for number, known in shapes.items())


def _to_frame(records: Records, lines: dict[int, list[str]]) -> "pd.DataFrame":
    """Return the rows, and in their places the lines of malformed records."""
    import pandas as pd
    import pyarrow as pa

    text = pd.api.types.pandas_dtype("str")
    frame: pd.DataFrame = records.rows.to_pandas(types_mapper={pa.string(): text}.get)
    if lines:
        parts = pd.Series(lines).explode().astype(text).to_frame(len(records.names))
        rows = frame.set_axis(range(frame.shape[1]), axis=1).set_axis(records.positions)
        frame = pd.concat([rows.drop(index=[*lines], errors="ignore"), parts]).sort_index(
            kind="stable", ignore_index=True
        )
    return frame.set_axis([*records.names, MALFORMED][: frame.shape[1]], axis=1)
