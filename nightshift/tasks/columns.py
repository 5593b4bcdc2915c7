"""Columns as users have them, turned into canonical types; a value that cannot be read becomes null."""

import json
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.config.columns import Columns
from nightshift.data import values
from nightshift.data.times import FIRST, LAST, read_time, to_utc
from nightshift.items import labels as label_texts
from nightshift.items.texts import ENCODING
from nightshift.runtime.errors import UserError, nearest
from nightshift.runtime.printable import printable

# what a column should hold, and how to write it
TIME = "time; write timestamps or ISO 8601 text such as 2018-08-14T09:30:00Z, or set source.format.times"
LABEL = "label; write 0, 1, true or false, or list yours in source.format.positive and negative"
CLASS = "class; write those that task.classes lists"
NUMBER = (
    "number; write 12.5 with a point, or set source.format.decimal and thousands, and name text or true and false "
    "under columns.categorical"
)

SHORT_INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"
PLAIN_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z?"
LONG_INTEGER = r"-?[1-9][0-9]{18}"
HOUR = 3_600_000_000  # microseconds
NOT_A_TIME = np.iinfo(np.int64).min  # as numpy has it

Integers = npt.NDArray[np.int64]


def require(frame: pd.DataFrame, columns: Columns, may_be_empty: bool = False) -> None:
    """Check that a file has rows, unless it may be empty, and every column that the config names.

    Raises:
        UserError: naming what is missing, what is there and the keys of the config to change.
    """
    if frame.empty and not may_be_empty:
        raise UserError(
            "has no rows; write the file again, or set source.empty_days in the config if such days are right"
        )
    present = [str(name) for name in frame.columns]
    keys = _keys(columns)
    absent = [name for name in keys if name not in frame.columns]
    missing = [f"{name!r} ({keys[name]}{nearest(name, present)})" for name in absent]
    if missing:
        raise UserError(
            f"has no column {', '.join(missing)}; it has {printable(', '.join(present))[:500]}; "
            "name the right columns in the config, under the keys in brackets"
        )


def require_once(frame: pd.DataFrame, columns: Columns) -> None:
    """Check that a file has no column twice that the config names, whatever the space around the names.

    Raises:
        UserError: naming the column.
    """
    spellings: dict[str, list[str]] = {}
    for name in map(str, frame.columns):
        spellings.setdefault(name.strip(values.SPACE), []).append(name)
    for needed in _keys(columns):
        same = spellings.get(needed.strip(values.SPACE), [])
        if len(same) > 1:
            spelled = "" if len(set(same)) == 1 else f" ({', '.join(map(repr, same))})"
            raise UserError(f"has column {needed!r} more than once{spelled}; keep one")


def _keys(columns: Columns) -> dict[str, str]:
    """Return the user's columns -> the keys of the config that name them."""
    return {column.name: f"columns.{column.field}" for column in columns.read}


def require_some(column: pd.Series, read: pd.Series, kind: str) -> None:
    """Check that of the values in a column at least one could be read.

    Args:
        column: the user's column.
        read: the same as read, null where a value could not be.
        kind: what the column should hold.

    Raises:
        UserError: naming the column, its dtype and its first value.
    """
    if not read.isna().all():
        return
    values = texts(column[has_value(column)])
    if len(values):
        raise UserError(
            f"column {column.name!r} ({column.dtype}) holds no {kind}; "
            f"its first value is {values.iloc[0][:40]!r}; fix the file, or name another column in the config"
        )


def has_value(column: pd.Series) -> pd.Series:
    """Return which values are there at all: neither null nor empty text."""
    return column.notna() if pd.api.types.is_numeric_dtype(column) else (canonical(column) != "").fillna(True)


def texts(column: pd.Series) -> pd.Series:
    """Return values as they are written, dtype string; null where there is none. Bytes are UTF-8, others escaped."""
    text = (
        column
        if isinstance(column.dtype, pd.StringDtype)
        else objects(column).map(values.format_value, na_action="ignore")
    )
    text = text.astype("string")
    return text.mask(text == "")


def canonical(column: pd.Series) -> pd.Series:
    """Return the one spelling of each value, dtype string; see `nightshift.data.values`.

    Returns:
        empty text where there is no value, null where a float is too large to tell integers apart.
    """
    if pd.api.types.is_integer_dtype(column):
        return column.astype("string").fillna("")
    if isinstance(column.dtype, pd.StringDtype):
        spellings = column.astype("string").fillna("")
        changed = spellings[spellings.str.contains(values.RESPELLED)].str.strip(values.SPACE)
        spellings[changed.index] = changed
        respelled = changed[changed.str.contains(values.RESPELLED)]
        spellings[respelled.index] = respelled.map({text: values.canonical(text) for text in respelled.unique()})
        return spellings
    spellings = objects(column).map(values.canonical, na_action="ignore").astype("string")
    return spellings.mask(column.isna(), "")


def ids(column: pd.Series, as_text: bool = False) -> pd.Series:
    """Return identifiers: Int64 when all are integers of 64 bits, canonical text (dtype string) otherwise.

    Args:
        column: any dtype.
        as_text: keep text in any case.

    Returns:
        null where there is none, or a float is too large to tell integers apart.
    """
    if pd.api.types.is_integer_dtype(column) and not as_text and not (column > values.INT64[-1]).any():
        return column.astype("Int64")
    text = canonical(column)
    text = text.mask(text == "")
    return text.astype("Int64") if not as_text and whole(text).all() else text


def whole(ids: pd.Series) -> pd.Series:
    """Return which identifiers, as `ids` returns them, are integers of 64 bits, bool; missing ones count as such."""
    if pd.api.types.is_integer_dtype(ids):
        return pd.Series(True, ids.index)
    short = ids.str.fullmatch(SHORT_INTEGER).fillna(True).astype(bool)
    longer = ids[ids.str.fullmatch(LONG_INTEGER).fillna(False).astype(bool)].map(values.parse_integer)
    short[longer.index] = longer.notna()
    return short


def numbers(column: pd.Series) -> pd.Series:
    """Return numbers as float64; NaN where a value is missing or is no number."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        # not pd.to_numeric: it may miss the nearest float64 by the last bit
        column = texts(column).map(values.parse_number, na_action="ignore")
    return pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), column.index)


def files(column: pd.Series) -> pd.Series:
    """Return the bytes of files; null where there are none, a path where nothing could be read there."""
    contents = column.astype(object).map(
        lambda value: bytes(value) if isinstance(value, bytearray | memoryview) else value
    )
    return contents.astype(object)  # which they are not where all are null


def bodies(column: pd.Series) -> pd.Series:
    """Return texts without a byte order mark; bytes where they are no UTF-8, null where there is nothing."""
    return column.astype(object).map(_body)


def _body(value: Any) -> Any:
    if isinstance(value, str):  # which may hold half of a surrogate pair, as JSON can name one
        value = value.encode(errors="surrogatepass")
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode(ENCODING)
    except UnicodeDecodeError:
        return value


def labels(column: pd.Series) -> pd.Series:
    """Return labels as Int8, null where a value is neither 0, 1, true nor false."""
    return canonical(column).map(values.LABELS).astype("Int8")


def named_labels(column: pd.Series, positive: list[str], negative: list[str]) -> pd.Series:
    """Return labels as Int8; null where a value is in neither list, or there is none.

    Args:
        column: any dtype.
        positive: the values that stand for 1.
        negative: those that stand for 0; all others that are there, where the list is empty.
    """
    spellings = canonical(column)
    known = {values.canonical(name): 0 for name in negative} | {values.canonical(name): 1 for name in positive}
    labels = spellings.map(known).astype("Int8")
    return labels if negative else labels.mask(labels.isna() & (spellings != ""), 0)


def classes(column: pd.Series, known: list[str]) -> pd.Series:
    """Return the names of classes, dtype string; null where a value is none of those known."""
    return canonical(column).map({values.canonical(name): name for name in known}).astype("string")


def label_sets(column: pd.Series, known: list[str], separator: str) -> pd.Series:
    """Return the labels of each row, dtype string, as `nightshift.items.labels` writes them.

    Args:
        column: lists, or text: a JSON list, or labels between separators.
        known: the classes.
        separator: a character that is in none of them.

    Returns:
        null where there is no value, or where a label is not known, blank or there twice.
    """
    spellings = {values.canonical(name): name for name in known}

    def read(value: Any) -> str | None:
        names = [spellings.get(values.canonical(label)) for label in _split_labels(value, separator)]
        is_known = None not in names and len(set(names)) == len(names)
        return label_texts.encode(name for name in known if name in names) if is_known else None

    return objects(column.where(has_value(column), None)).map(read, na_action="ignore").astype("string")


def _split_labels(value: Any, separator: str) -> list[Any]:
    text = values.format_value(value)
    try:
        parsed = json.loads(text) if text.lstrip().startswith("[") else None
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, list) else text.split(separator)


def times(column: pd.Series, timezone: str) -> pd.Series:
    """Return times as naive UTC, datetime64[us]; NaT where a value is no time; see `nightshift.data.times`.

    Args:
        column: timestamps, dates or text.
        timezone: zone of times that carry none.
    """
    micros, is_wall = _stamps(column) if pd.api.types.is_datetime64_any_dtype(column) else _read(column)
    is_wall &= micros != NOT_A_TIME
    micros[is_wall] = _to_utc(micros[is_wall], ZoneInfo(timezone))
    return pd.Series(micros.view("datetime64[us]"), column.index)


def _stamps(column: pd.Series) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return timestamps in microseconds since 1970, and which are a wall clock's."""
    is_wall = np.full(len(column), column.dt.tz is None)
    naive = _naive(column)
    micros = naive.where(_in_calendar(naive)).dt.as_unit("us")
    return micros.to_numpy(copy=True).view(np.int64), is_wall


def _naive(column: pd.Series) -> pd.Series:
    """Return timestamps in UTC, or by the wall clock if they have no zone, without the zone."""
    naive: pd.Series = column if column.dt.tz is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
    return naive


def _in_calendar(naive: pd.Series) -> npt.NDArray[np.bool_]:
    """Return which timestamps are of the years 1 to 9999; those of 300000 are too many microseconds."""
    seconds: Integers = naive.dt.as_unit("s").to_numpy().view(np.int64)
    return (seconds >= FIRST // 1_000_000) & (seconds <= LAST // 1_000_000)


def _read(column: pd.Series) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return texts, dates and objects as microseconds since 1970, and which are a wall clock's."""
    micros, is_wall = np.full(len(column), NOT_A_TIME), np.zeros(len(column), np.bool_)
    plain = np.zeros(len(column), np.bool_)
    if isinstance(column.dtype, pd.StringDtype):  # at once what every parser reads alike
        plain = column.str.fullmatch(PLAIN_TIME).fillna(False).to_numpy(np.bool_)
        texts = column[plain]
        times = pd.to_datetime(texts.str.removesuffix("Z"), format="ISO8601", errors="coerce")
        micros[plain], is_wall[plain] = _stamps(times)[0], ~texts.str.endswith("Z")
    rest = column[~plain]
    for position, value in zip(np.flatnonzero(~plain), objects(rest).where(rest.notna(), None), strict=True):
        if time := read_time(value):
            micros[position], is_wall[position] = time.micros, not time.is_utc
    return micros, is_wall


def _to_utc(walls: Integers, zone: ZoneInfo) -> Integers:
    """Return a wall clock's times in UTC, both in microseconds since 1970."""
    hours, positions = np.unique(walls // HOUR, return_inverse=True)
    starts, ends = (_each_to_utc((hours + hour) * HOUR, zone) for hour in (0, 1))
    utc: Integers = starts[positions] + walls % HOUR
    # the clock runs on through all others
    changing = ((ends - starts != HOUR) | (starts == NOT_A_TIME) | (ends == NOT_A_TIME))[positions]
    utc[changing] = _each_to_utc(walls[changing], zone)
    return utc


def _each_to_utc(walls: Integers, zone: ZoneInfo) -> Integers:
    utc = (to_utc(wall, zone) for wall in walls.tolist())
    return np.array([NOT_A_TIME if micros is None else micros for micros in utc], np.int64)


def objects(column: pd.Series) -> pd.Series:
    """Return values as Python's objects, each as exact as it is in the column."""
    narrow = getattr(column.dtype, "numpy_dtype", column.dtype)
    if narrow in (np.float16, np.float32):
        # the shortest text that a float of this width can be read from
        floats = column.to_numpy(narrow, na_value=np.nan)
        exact = 2.0 ** (np.finfo(narrow).nmant + 1)
        return pd.Series([np.inf if abs(value) >= exact else float(str(value)) for value in floats], column.index)
    objects = column.astype(object)
    if pd.api.types.is_datetime64_any_dtype(column):
        naive = _naive(column)  # whose years pandas cannot write when they are beyond the calendar
        objects = objects.where(_in_calendar(naive) | naive.isna(), naive.to_numpy().astype(str))
    return objects
