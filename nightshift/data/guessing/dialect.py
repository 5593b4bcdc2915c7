"""The dialect of a text file with rows: encoding, separator, quote, lines before the header."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from nightshift.config.source import FileFormat
from nightshift.data import values
from nightshift.runtime.errors import UserError

SETTINGS = ("encoding", "separator", "quote", "escape", "preamble_lines")  # fields of `source.format`, and of a dialect
UTF_16 = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
SEPARATORS = ",;\t|"
SAMPLED_RECORDS = 200
SAMPLE = 1 << 20  # bytes
SOME = 0.3  # share of zero bytes in UTF-16 without a mark; other text has none
EXCEL_MARK = re.compile(r'\ufeff?"?sep=.?.?"?\r?', re.IGNORECASE)  # a line that tells Excel the separator
csv.field_size_limit(2**31 - 1)  # characters; a stray quote makes long fields
LIKE_A_VALUE = re.compile(r"[+-]?[0-9][0-9.,:/ -]*")


@dataclass(frozen=True)
class Dialect:
    """How a text file is written.

    Attributes:
        encoding: a name of Python's.
        separator: one character.
        quote: around fields that hold a separator.
        escape: before a quote in such a field; empty where it is written twice.
        preamble_lines: lines before the header.
        reasons: sentences that say what was assumed, and why.
    """

    encoding: str
    separator: str
    quote: str
    escape: str
    preamble_lines: int
    reasons: list[str]

    @property
    def settings(self) -> dict[str, object]:
        """What `source.format` says of it, without defaults."""
        defaults = FileFormat()
        return {key: getattr(self, key) for key in SETTINGS if getattr(self, key) != getattr(defaults, key)}


def guess(data: bytes) -> Dialect:
    """Return the dialect of a text file, without compression.

    Raises:
        UserError: when no line can be its header.
    """
    encoding, reasons = _guess_encoding(data)
    sample = data[: SAMPLE // 2 * 2].decode(encoding, errors="ignore").removeprefix("\ufeff")
    quote = _guess_quote(sample)
    escape = "\\" if (line := find_escaped(sample.encode(), SEPARATORS, quote)) else ""
    if escape:
        reasons.append(f"Quotes in fields stand after a backslash, the first in line {line}.")
        sample = double_quotes(sample.encode(), SEPARATORS, quote).decode()
    separator, width = _guess_separator(sample, quote)
    preamble = _count_preamble(sample, separator, quote, width)
    below = "".join(islice(io.StringIO(sample, newline=""), preamble, None))
    _require_header(next(list_records(below, separator, quote)))
    if separator != ",":
        reasons.append(f"Fields are separated by {separator!r}, which gives each line {width} fields.")
    if preamble:
        reasons.append(f"The header is line {preamble + 1}; what stands above it is left out.")
    return Dialect(encoding, separator, quote, escape, preamble, reasons)


def _guess_encoding(data: bytes) -> tuple[str, list[str]]:
    """Return the encoding, and a sentence where it is not UTF-8.

    Raises:
        UserError: when it is UTF-8 but for a damaged character.
    """
    head = data[:SAMPLE]
    if encoding := UTF_16.get(head[:2]):
        return encoding, ["The file is UTF-16, as its byte order mark says."]
    for start, encoding in enumerate(("utf-16-be", "utf-16-le")):
        if head[start::2].count(0) > SOME * len(head) / 2:
            return encoding, [f"The file is {encoding.upper()}: every other byte is zero."]
    try:
        data.decode()
        return "utf-8", []
    except UnicodeDecodeError as error:
        _require_undamaged(data[: error.start])
        return _guess_legacy(data, error.start)


def _require_undamaged(before: bytes) -> None:
    """Check that the text before the first byte that is not UTF-8 has no characters beyond ASCII, as only UTF-8 has.

    Raises:
        UserError: when it has some.
    """
    if not before.isascii():
        raise UserError(
            f"is UTF-8, and line {before.count(10) + 1} has a byte that is not; correct that line, or export the table "
            "again"
        )


def _guess_legacy(data: bytes, start: int) -> tuple[str, list[str]]:
    """Return an encoding of one byte a character, of a file that has one at `start`, and a sentence with its word."""
    try:
        data.decode(encoding := "cp1252")
    except UnicodeDecodeError:
        encoding = "latin-1"
    word = re.search(r"\w*\Z", data[max(0, start - 20) : start].decode(encoding))
    rest = re.match(r"\w+|.", data[start : start + 20].decode(encoding))
    text = (word[0] if word else "") + (rest[0] if rest else "")
    return encoding, [f"The file is not UTF-8; as {encoding} it holds {text!r}. If that is wrong, change the encoding."]


def _guess_quote(sample: str) -> str:
    """Return the apostrophe where it encloses fields and quotation marks do not."""
    enclosed = {mark: len(re.findall(f"(?:^|[{SEPARATORS}]){mark}", sample, re.MULTILINE)) for mark in "\"'"}
    return "'" if enclosed["'"] > 1 and not enclosed['"'] and sample.count("'") >= 2 * enclosed["'"] else '"'


def _guess_separator(sample: str, quote: str) -> tuple[str, int]:
    """Return the separator that gives most records one number of fields, above one, and that number.

    Raises:
        UserError: when none does.
    """
    best, most = (",", 1), 0.0
    for separator in SEPARATORS:
        widths = Counter(
            len(record) for record in islice(list_records(sample, separator, quote), SAMPLED_RECORDS) if record
        )
        width, records = max(widths.items(), key=lambda item: (item[0] > 1, item[1]), default=(1, 0))
        share = records / max(1, widths.total())
        if width > 1 and (share, width) > (most, best[1]):
            best, most = (separator, width), share
    if best[1] == 1:
        raise UserError(
            "has one field a line, whichever of comma, semicolon, tab and | separates them; "
            "export the table with one of these, or as Parquet"
        )
    return best


def _count_preamble(sample: str, separator: str, quote: str, width: int) -> int:
    """Return how many lines stand before the header: the first line that has a field for each column, or nearly.

    Where some of its fields are empty, and the next line has more and no value either, the next one is the header.
    """
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator, quotechar=quote)
    before = 0
    for record in reader:
        is_header = len(record) == width and not EXCEL_MARK.fullmatch(separator.join(record))
        if is_header and _count_empty(record) <= width // 2:
            after, below = reader.line_num, next(reader, record)
            is_group = len(below) == width and _count_empty(below) < _count_empty(record) and not _find_values(below)
            return after if is_group else before
        before = reader.line_num
    return 0


def _count_empty(record: list[str]) -> int:
    return sum(not field.strip() for field in record)


def _find_values(record: list[str]) -> list[str]:
    """Return the fields that look like numbers or times, and not like names of columns."""
    return [field for field in record if LIKE_A_VALUE.fullmatch(field.strip(values.SPACE))]


def find_escaped(plain: bytes, separators: str, quote: str) -> int | None:
    """Return the first line of CSV that has a quote after a backslash in a quoted field, None without one."""
    if f"\\{quote}".encode() not in plain:
        return None
    marks = re.escape(separators)
    # before the last quote a backslash may be the end of a path
    further = rf"[^{marks}{quote}\r\n]|{quote}(?:[{marks}\r\n]|$)"
    pattern = rf"(?:^|[{marks}]){quote}[^{quote}\r\n]*\\{quote}(?:{further})"
    escaped = re.search(pattern.encode(), plain, re.MULTILINE)
    return plain.count(b"\n", 0, escaped.end()) + 1 if escaped else None


def double_quotes(plain: bytes, separators: str, quote: str) -> bytes:
    """Return CSV with a quote in a quoted field written twice, where a backslash stands before it."""
    mark = quote.encode()
    pattern = rf"((?:^|[{re.escape(separators)}]){quote})((?:[^{quote}\\]|\\.|{quote}{quote})*+)(?={quote})"
    field = re.compile(pattern.encode(), re.MULTILINE | re.DOTALL)
    escape = re.compile(rb"\\([\\%b])" % mark)

    def respell(match: re.Match[bytes]) -> bytes:
        return match[1] + escape.sub(lambda pair: 2 * mark if pair[1] == mark else pair[1], match[2])

    return field.sub(respell, plain)


def _require_header(header: list[str]) -> None:
    """Check that a record names columns.

    Raises:
        UserError: when it holds values.
    """
    if written := _find_values(header):
        raise UserError(
            f"has no header: its first line is {', '.join(header)[:100]!r}, in which {written[0]!r} is a value; "
            "write a first line that names the columns"
        )


def list_records(text: str, separator: str, quote: str) -> Iterator[list[str]]:
    """Yield the fields of each record of CSV."""
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, quotechar=quote)
