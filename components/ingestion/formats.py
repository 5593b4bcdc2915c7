"""Files of rows as people have them: Parquet, CSV, Excel and tar, compressed or not, as the config spells them."""

import gzip
import io
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nightshift import storage, values
from nightshift.arrow import to_frame
from nightshift.config.columns import Columns
from nightshift.config.source import FileFormat, Source
from nightshift.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

EXCEL = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
FORMATS = {".parquet": "Parquet", ".csv": "CSV", ".tsv": "CSV", ".txt": "CSV", ".tar": "tar"}
FORMATS |= dict.fromkeys(EXCEL, "Excel")
COMPRESSED = (".gz", ".zip")
PARQUET = b"PAR1"  # its first and its last bytes
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
END = "\x1e"  # after the last record of a file that does not end with its line
UNNAMED = "Unnamed: "  # begins the name of a column without one, as pandas calls it
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
    return frame.loc[:, ~frame.columns.duplicated()]


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
    is_open = not plain.endswith((b"\n", b"\r"))
    try:
        frame = _records(plain + END.encode() if is_open else plain, spelled)
    except UnicodeDecodeError:
        _decode(plain, "utf-8")
        raise
    names = _records(plain, spelled, header=None, nrows=1).iloc[0].tolist()
    # pandas gives columns that share a name, or have none, names of its own
    frame.columns = [name if isinstance(name, str) else own for name, own in zip(names, frame.columns, strict=True)]
    return _strip_end(frame, spelled) if is_open and len(frame) else frame


def _records(plain: bytes, spelled: FileFormat, **options: Any) -> "pd.DataFrame":
    """Parse CSV; every value stays text."""
    import pandas as pd

    with warnings.catch_warnings():
        # rows with more fields than the header has names
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame: pd.DataFrame = pd.read_csv(
                io.BytesIO(plain),
                sep=spelled.separator,
                quotechar=spelled.quote,
                dtype=str,
                encoding="utf-8-sig",
                # never take the first column for an index: that shifts all names by one
                index_col=False,
                # only nothing is missing: 'NA' may be somebody's id
                keep_default_na=False,
                na_values=["", *spelled.missing],
                **options,
            )
            return frame
        except pd.errors.ParserError as error:
            if "EOF inside string" in str(error):
                raise EOFError("it ends within quotes") from None
            raise


def _strip_end(frame: "pd.DataFrame", spelled: FileFormat) -> "pd.DataFrame":
    """Return records without the mark at the end.

    Raises:
        EOFError: when the last record has too few fields.
    """
    last = frame.iloc[-1].tolist()
    fields = next(number for number, value in enumerate(last, 1) if isinstance(value, str) and value.endswith(END))
    last[fields - 1] = last[fields - 1].removesuffix(END) or None
    if fields < len(last) and _first_field(last[0]) not in spelled.skip_rows:
        raise EOFError(f"its last line has {fields} of {len(last)} fields, and no end")
    frame.iloc[-1, fields - 1] = last[fields - 1]
    return frame
