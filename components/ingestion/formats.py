"""Files of rows as people have them: Parquet, CSV, Excel and tar, compressed or not, as the config spells them."""

import gzip
import io
import zipfile
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from components.ingestion import records
from components.ingestion.records import UNNAMED
from nightshift import storage
from nightshift.config.columns import Columns
from nightshift.config.source import FileFormat, Source
from nightshift.data import values
from nightshift.data.arrow import to_frame
from nightshift.data.guessing import dialect
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

EXCEL = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
FORMATS = {".parquet": "Parquet", ".csv": "CSV", ".tsv": "CSV", ".txt": "CSV", ".tar": "tar"}
FORMATS |= dict.fromkeys(EXCEL, "Excel")
COMPRESSED = (".gz", ".zip")
PARQUET = b"PAR1"  # its first and its last bytes
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
MOST_PREAMBLE = 20  # rows before a header
PLAIN = FileFormat()
HINT = "in the config; `nightshift config guess FILE` finds it"


def require_known(source: Source) -> None:
    """Check that files are named as some format's are; of a zip file its member's name says which.

    Raises:
        UserError: listing the endings.
    """
    if find_kind(source.pattern) is None and not source.pattern.endswith(".zip"):
        key = "files" if source.files else "table"
        raise UserError(
            f"source.{key} is {source.pattern!r}; it has to end in one of {', '.join(FORMATS)}, and may be compressed, "
            f"as {' and '.join(COMPRESSED)}"
        )


def find_kind(name: str) -> str | None:
    """Return the format of a file by its name; None where it has no known ending."""
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return next((kind for ending, kind in FORMATS.items() if name.endswith(ending)), None)


def parse(name: str, data: bytes, columns: Columns, spelled: FileFormat = PLAIN) -> "pd.DataFrame":
    """Parse a file; every value of a CSV file stays text, of a tar file bytes, a cell of Excel has its own type.

    Args:
        name: its name, for the format.
        data: its bytes.
        columns: the user's names, for what is read of a tar file.
        spelled: how the file is written.

    Returns:
        the rows; of columns of one name that nothing needs only the first.

    Raises:
        UserError: when it is empty, cut short, damaged or of another format, or names a column twice.
    """
    from nightshift.tasks import columns as rules

    if find_kind(name) == "tar":
        from components.ingestion import webdataset

        with explain_faults(name):
            frame = webdataset.parse(unpack(name, data)[1], columns)
    else:
        frame = read_rows(name, data, spelled)
    rules.require_once(frame, columns)
    _require_header(frame, columns)
    return frame.loc[:, ~frame.columns.duplicated()]


def join(frames: Sequence["pd.DataFrame"], numbers: Collection[str] = ()) -> "pd.DataFrame":
    """Join the rows of several files, each value as it is in its own file, whatever types the files give a column.

    Args:
        frames: at least one; those without rows count only where all are.
        numbers: names of columns that are read as numbers, where a narrow float is not the decimal it is written as.
    """
    import pandas as pd

    frames = [frame for frame in frames if len(frame)] or list(frames[:1])
    if len(frames) == 1:
        return frames[0]
    dtypes = [frame.dtypes.to_dict() for frame in frames]
    shared = set.intersection(*map(set, dtypes))
    mixed = {name for name in shared if any(own[name] != dtypes[0][name] for own in dtypes)}
    exact = [_as_objects(frame, mixed, set(numbers) & mixed) for frame in frames]
    return pd.concat(exact, ignore_index=True)


def _as_objects(frame: "pd.DataFrame", mixed: AbstractSet[Any], numbers: AbstractSet[Any]) -> "pd.DataFrame":
    """Return a frame some of whose columns hold Python's objects."""
    from nightshift.tasks import columns as rules

    floats = frame.columns[frame.dtypes.map(lambda dtype: dtype.kind == "f")]
    frame = frame.astype(dict.fromkeys(numbers & set(floats), "float64"))
    for name in mixed:
        frame[name] = rules.objects(frame[name])
    return frame


def _require_header(frame: "pd.DataFrame", columns: Columns) -> None:
    """Check that the names of the columns do not stand below the header.

    Raises:
        UserError: when a comment, or another line, was read as the header.
    """
    needed = set(columns.names)
    if needed <= set(frame.columns):
        return
    for row in frame.head(MOST_PREAMBLE).itertuples(index=False):
        if needed <= set(row):
            header = ", ".join(map(str, frame.columns))[:60]
            raise UserError(
                f"has its header below {header!r}; set source.format.preamble_lines to the number of lines above the "
                f"header {HINT}"
            )


def read_rows(name: str, data: bytes, spelled: FileFormat) -> "pd.DataFrame":
    """Read a file that is no tar, whatever columns it has; as `parse`, which see."""
    with explain_faults(name):
        name, data = unpack(name, data)
        match find_kind(name):
            case "Parquet":
                return _parquet(data)
            case "Excel":
                return _skip_rows(_excel(data, spelled), spelled)
        return _skip_rows(_csv(_as_utf8(data, spelled), spelled), spelled)


@contextmanager
def explain_faults(name: str) -> Iterator[None]:
    """Turn what is raised while a file is read into a UserError that says what is wrong with the file."""
    try:
        yield
    except UserError:
        raise
    except EOFError as error:
        raise UserError(
            f"is not whole ({error}): it was cut short, or is still being written; bring the whole file"
        ) from None
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        file_format = find_kind(name) or "CSV"
        article = "an" if file_format == "Excel" else "a"
        raise UserError(
            f"is not {article} {file_format} file, or a damaged one ({reason}); write the file again"
        ) from None


def unpack(name: str, data: bytes) -> tuple[str, bytes]:
    """Return a file's name and bytes without compression, which its first bytes show.

    Raises:
        EOFError: when it was cut short.
        UserError: when it is empty, or a zip file that holds several files.
    """
    if not data:
        raise UserError("is empty (0 bytes); write the file again")
    if data.startswith(GZIP):
        return name, gzip.decompress(data)
    if not data.startswith(ZIP):
        return name, data
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise EOFError("it has no list of its files")
    if name.endswith(EXCEL):
        return name, data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [item for item in archive.namelist() if not item.endswith("/") and not item.startswith("__MACOSX/")]
        if len(members) != 1 or find_kind(members[0]) is None:
            raise UserError(
                f"holds {', '.join(members)[:200] or 'no file'}; a zip file is read if it holds one file that ends in "
                f"one of {', '.join(FORMATS)}"
            )
        return members[0], archive.read(members[0])


def _skip_rows(frame: "pd.DataFrame", spelled: FileFormat) -> "pd.DataFrame":
    if not spelled.skip_rows:
        return frame
    is_skipped = frame.iloc[:, 0].astype(object).map(_first_field).isin(spelled.skip_rows)
    return frame[~is_skipped].reset_index(drop=True)


def _first_field(value: Any) -> str:
    return value.strip(values.SPACE) if isinstance(value, str) else values.canonical(value) or ""


def _parquet(data: bytes) -> "pd.DataFrame":
    from pyarrow import parquet

    if data.startswith(PARQUET) and not data.endswith(PARQUET):
        raise EOFError("it has no footer")
    # read_table knows no names that come twice
    return to_frame(parquet.ParquetFile(storage.arrow_file(data)).read())


def _excel(data: bytes, spelled: FileFormat) -> "pd.DataFrame":
    """Read a sheet; cells are numbers, texts, times, true and false, or nothing."""
    import pandas as pd
    from python_calamine import CalamineWorkbook

    workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
    sheet = spelled.sheet or workbook.sheet_names[0]
    if sheet not in workbook.sheet_names:
        raise UserError(f"has no sheet {sheet!r}; set source.format.sheet to one of {', '.join(workbook.sheet_names)}")
    cells = workbook.get_sheet_by_name(sheet).to_python(skip_empty_area=False)[spelled.preamble_lines :]
    names = [values.canonical(cell) or f"{UNNAMED}{number}" for number, cell in enumerate(cells[0] if cells else [])]
    frame = pd.DataFrame(cells[1:], columns=names, dtype=object)
    empty = frame.isin(["", *spelled.missing])
    frame = frame.mask(empty, None)
    # a sheet reaches as far as cells were ever formatted
    is_named = ~(frame.columns.str.startswith(UNNAMED) & empty.all().to_numpy())
    return frame.loc[~empty.all(axis=1), is_named].reset_index(drop=True)


def _as_utf8(data: bytes, spelled: FileFormat) -> bytes:
    """Return a text file's bytes from the header on, in UTF-8.

    Raises:
        UserError: when it has another encoding than the config says, or separates its columns otherwise.
    """
    if spelled.encoding == "utf-8":
        if data.startswith(UTF_16):
            raise UserError(f"is UTF-16, not UTF-8; set source.format.encoding to utf-16 {HINT}")
        plain = data
    else:
        plain = _decode(data, spelled.encoding).encode()
    if b"\0" in plain:  # where pandas would end a value
        raise ValueError("it holds a NUL character")
    plain = plain.split(b"\n", spelled.preamble_lines)[-1]
    header = plain.partition(b"\n")[0]
    if dialect.EXCEL_MARK.fullmatch(header.decode()):
        raise UserError(
            f"begins with {header.decode().strip()!r}, a line for Excel; set source.format.preamble_lines to "
            f"{spelled.preamble_lines + 1} {HINT}"
        )
    other = [mark for mark in (b",", b";", b"\t", b"|") if mark in header and spelled.separator.encode() not in header]
    if other:
        raise UserError(
            f"separates its columns by {other[0].decode()!r}, not by {spelled.separator!r}; "
            f"set source.format.separator {HINT}"
        )
    return plain


def _decode(data: bytes, encoding: str) -> str:
    """Return the text of a file.

    Raises:
        EOFError: when it ends within a character.
        UserError: when it has another encoding.
    """
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if (error.end == len(data) and "end of data" in error.reason) or error.reason == "truncated data":
            raise EOFError("it ends within a character") from None
        raise UserError(
            f"is not {encoding} (byte 0x{data[error.start]:02x} at {error.start:,}); "
            f"set source.format.encoding, such as cp1252 or utf-16, {HINT}"
        ) from None


def _csv(plain: bytes, spelled: FileFormat) -> "pd.DataFrame":
    """Read CSV; see `records.read`.

    Raises:
        UserError: when quotes in fields are written otherwise than the config says.
    """
    if spelled.escape:
        plain = dialect.double_quotes(plain, spelled.separator, spelled.quote)
    elif line := dialect.find_escaped(plain, spelled.separator, spelled.quote):
        raise UserError(
            f"has quotes after a backslash, the first in line {line + spelled.preamble_lines}; "
            f"set source.format.escape to '\\' {HINT}"
        )
    try:
        return records.read(plain, spelled)
    except ValueError:  # as Arrow says that a text is no UTF-8
        _decode(plain, "utf-8")
        raise
