"""Rows in a tar file as WebDataset lays them out: members whose names differ in their extensions only are one row.

https://github.com/webdataset/webdataset. Members are read in memory, and their names are never paths.
"""

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from nightshift.config.columns import Columns, Holds
from nightshift.tasks import columns as read

KEY = "__key__"  # the column of what members of a row have in common
FIELDS = "json"  # the extension of members whose fields are columns too
# the extension begins at the first dot of the last part, and hidden files are no members
MEMBER = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)

Row = dict[str, bytes | None]


def parse(data: bytes, columns: Columns) -> pd.DataFrame:
    """Return the rows of a tar file; bytes, null where a row has no such member.

    Args:
        data: the file's bytes, not compressed.
        columns: the user's names: extensions in lower case, fields of `.json` members, and `__key__`.

    Raises:
        UserError: when one of the columns, but for the label, is in no row.
        ValueError, tarfile.TarError: when the file is damaged.
        EOFError: when it was cut short.
    """
    rows, seen = (
        list[Row](),
        {*columns.holding(Holds.LABEL).values()},
    )  # which may still be to come, for all rows of a day
    wanted = set(columns.names)
    for key, extension, content in _members(data):
        seen.add(extension)
        if not rows or rows[-1][KEY] != key or extension in rows[-1]:
            rows.append({KEY: key})
        if extension in wanted or extension == FIELDS:
            rows[-1][extension] = content
    rows = [_fields(row.get(FIELDS)) | row for row in rows]
    if rows:
        read.require(pd.DataFrame(index=[0], columns=sorted(seen.union(*rows))), columns)
    whole = set(columns.holding(Holds.FILE, Holds.TEXT).values())
    columns_by_name = {name: [_value(row.get(name), name in whole) for row in rows] for name in sorted(wanted)}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns_by_name.items()})


def _members(data: bytes) -> Iterator[tuple[bytes, str, bytes | None]]:
    """Yield the key, extension and content of each member; null of what is no plain file below the archive's root."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", encoding="utf-8") as archive:
        for member in archive:
            if member.size < 0:  # it would be read again and again
                raise ValueError(f"member {member.name!r} has a negative size")
            if _is_plain(member) and member.offset_data + member.size > len(data):
                raise EOFError(f"it ends within member {member.name!r}")
            name = MEMBER.fullmatch(member.name)
            if name and not member.isdir() and name[2] != KEY:
                content = data[member.offset_data : member.offset_data + member.size] if _is_plain(member) else None
                yield name[1].encode(errors="surrogateescape"), name[2].lower(), content
        if archive.offset + tarfile.BLOCKSIZE > len(data):
            raise EOFError("its end is missing")
        if data[archive.offset : archive.offset + tarfile.BLOCKSIZE] != tarfile.NUL * tarfile.BLOCKSIZE:
            raise ValueError("it has no end, or something else where a member should begin")


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Return whether a member is a file of its own; links, devices and those that claim to have holes are not."""
    path = PurePosixPath(member.name)
    return member.isreg() and not member.issparse() and not path.is_absolute() and ".." not in path.parts


def _fields(content: bytes | None) -> Row:
    """Return the fields of a JSON object as bytes; none where it is no JSON object."""
    try:
        fields = json.loads(
            content or b"", parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_object
        )
        return {name: _bytes(value) for name, value in fields.items()} if isinstance(fields, dict) else {}
    except (ValueError, RecursionError):
        return {}


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(fields_by_name := dict(fields)) < len(fields):
        raise ValueError("a name comes twice")
    return fields_by_name


def _value(content: bytes | None, whole: bool) -> bytes | None:
    """Return what a member holds; without the end of its line, unless that is what the row is about."""
    return content if whole or content is None else content.strip()


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode(errors="surrogatepass")
