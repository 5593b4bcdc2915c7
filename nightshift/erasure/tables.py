"""Ids in Parquet files: rows are an entity's by the column of its ids, else by the column of its events' ids."""

import io
import json
import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nightshift import storage
from nightshift.data import values
from nightshift.erasure.subject import DataSubject

if TYPE_CHECKING:
    import pyarrow as pa

LINES = ("malformed_record", "kafka.message")  # columns of rows that could not be read: their text
FIELDS = re.compile(r"[^,;\t|\"'\s:{}\[\]]+")

MESSAGES = ["partition", "offset", "value"]  # columns of a topic's messages as they are landed

Mask = npt.NDArray[np.bool_]


def read(data: bytes) -> "pa.Table":
    """Return the table of a Parquet file."""
    from pyarrow import parquet

    return parquet.read_table(storage.arrow_file(data), use_threads=False)


def write(table: "pa.Table") -> bytes:
    """Return a table as a Parquet file, as frames are written."""
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def count(data: bytes, subject: DataSubject) -> int:
    """Return how many rows of a Parquet file are an entity's."""
    return int(find_rows(read(data), subject).sum())


def without(data: bytes, subject: DataSubject) -> bytes:
    """Return a Parquet file without the rows of an entity."""
    table = read(data)
    return write(table.filter(~find_rows(table, subject)))


def without_beside(array: bytes, data: bytes, subject: DataSubject) -> bytes:
    """Return a NumPy file, with a row for each of a Parquet file, without the rows of an entity."""
    kept = io.BytesIO()
    np.save(kept, np.load(io.BytesIO(array), allow_pickle=False)[~find_rows(read(data), subject)])
    return kept.getvalue()


def find_rows(table: "pa.Table", subject: DataSubject) -> Mask:
    """Return which rows are an entity's, bool (n,)."""
    if table.column_names == MESSAGES:
        return np.array([_is_message(value, subject) for value in table["value"].to_pylist()], bool)
    named = [name for name in subject.entity_names if name in table.column_names]
    if named:
        own = _equal(table, named, [subject.value])
    else:
        own = _equal(table, [name for name in subject.event_names if name in table.column_names], subject.events)
    for name in set(LINES) & {*table.column_names}:
        own |= np.array([subject.value in FIELDS.findall(line or "") for line in table[name].to_pylist()], bool)
    return own


def list_events(table: "pa.Table", subject: DataSubject) -> set[str]:
    """Return the ids of an entity's events in a table that has the columns of both, or of messages."""
    if table.column_names == MESSAGES:
        own = table["value"].filter(find_rows(table, subject)).to_pylist()
        return {value for message in own if (value := values.canonical(_parse(message).get(subject.event_column)))}
    named = [name for name in subject.event_names if name in table.column_names]
    if not any(name in table.column_names for name in subject.entity_names) or not named:
        return set()
    rows = table.filter(find_rows(table, subject))
    return {value for name in named for one in rows[name].to_pylist() if (value := values.canonical(one))}


def _equal(table: "pa.Table", names: Iterable[str], ids: Collection[str]) -> Mask:
    import pyarrow as pa
    from pyarrow import compute

    own = np.zeros(table.num_rows, bool)
    for name in names:
        column = table[name]
        spelled = [value for value in column.unique().to_pylist() if values.canonical(value) in ids]
        own |= compute.is_in(column, pa.array(spelled, column.type)).to_numpy()
    return own


def _is_message(message: bytes | None, subject: DataSubject) -> bool:
    record = _parse(message)
    if record:
        return values.canonical(record.get(subject.column)) == subject.value
    return subject.value in FIELDS.findall((message or b"").decode(errors="backslashreplace"))


def _parse(message: bytes | None) -> dict[str, Any]:
    """Return a message's JSON object, an empty one where it is none."""
    try:
        record = json.loads(message or b"")
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
