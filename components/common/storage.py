"""Files behind URIs: a local path, s3://, gs:// or whatever fsspec knows, read and written whole.

A write appears at once or not at all: locally by rename, on object stores because a PUT is atomic.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from components.common.errors import UserError

if TYPE_CHECKING:
    import fsspec
    import pandas as pd


@dataclass(frozen=True)
class Entry:
    """A file: its URI, its size in bytes, when it was last written (UTC)."""

    uri: str
    size: int
    written: datetime


INSTALL = {"s3": "aws", "gs": "gcp", "gcs": "gcp"}


def join(root: str, *parts: str) -> str:
    """Append path parts to a URI."""
    return "/".join([root.rstrip("/"), *parts])


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def fingerprint(value: object) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its keys."""
    return sha256(json.dumps(value, sort_keys=True, default=str).encode())


def exists(uri: str) -> bool:
    """Tell whether something lies at the URI.

    Raises:
        UserError: when the store refuses or does not answer.
    """
    fs, path = _open(uri)
    try:
        return bool(fs.exists(path))
    except Exception as error:
        raise _explained(error, uri) from error


def names(folder: str) -> list[str]:
    """Return the sorted names of what lies directly in a folder; none when the folder is missing."""
    fs, path = _open(folder)
    try:
        entries = fs.ls(path, detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except Exception as error:
        raise _explained(error, folder) from error
    return sorted(entry.rstrip("/").rsplit("/", 1)[-1] for entry in entries)


def read_bytes(uri: str) -> bytes:
    """Read a whole file.

    Raises:
        UserError: when it is missing, not readable, or the store refuses.
    """
    fs, path = _open(uri)
    try:
        return bytes(fs.cat_file(path))
    except Exception as error:
        raise _explained(error, uri) from error


def write_bytes(uri: str, data: bytes) -> None:
    """Write a whole file, atomically.

    Raises:
        UserError: when the place is not writable, full, or the store refuses.
    """
    fs, path = _open(uri)
    try:
        if _is_local(fs):
            _replace(path, data)
        else:
            fs.pipe_file(path, data)
    except Exception as error:
        raise _explained(error, uri) from error


def read_json(uri: str) -> Any:
    """Read a JSON file.

    Raises:
        UserError: when it is missing or not JSON.
    """
    try:
        return json.loads(read_bytes(uri))
    except json.JSONDecodeError as error:
        raise UserError(f"{uri} is not JSON ({error}); delete it and run the step again") from None


def write_json(uri: str, value: object) -> None:
    """Write a JSON file, atomically; NaN and infinity are refused."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, default=str)
    write_bytes(uri, text.encode() + b"\n")


def read_frame(uri: str, columns: list[str] | None = None) -> "pd.DataFrame":
    """Read a Parquet file that this project wrote."""
    import pandas as pd
    from pyarrow import BufferReader

    # not a Python file: Arrow's threads may still hold one when the interpreter ends, and abort (apache/arrow#34314)
    return pd.read_parquet(BufferReader(read_bytes(uri)), columns=columns)


def read_batches(uri: str, columns: list[str], rows: int = 1 << 17) -> "Iterator[pd.DataFrame]":
    """Read columns of a Parquet file that this project wrote, so many rows at a time; absent columns are left out.

    Raises:
        UserError: when it is missing, not readable, or the store refuses.
    """
    from pyarrow.parquet import ParquetFile

    fs, path = _open(uri)
    try:
        # buffered ahead, all of the file would end up in memory
        with fs.open(path, "rb") as file, ParquetFile(file, pre_buffer=False) as parquet:
            # without threads, which would outlive the file (see read_frame)
            for batch in parquet.iter_batches(rows, columns=columns, use_threads=False):
                yield batch.to_pandas()
    except Exception as error:
        raise _explained(error, uri) from error


def write_frame(uri: str, frame: "pd.DataFrame") -> str:
    """Write a Parquet file, atomically, without the index.

    Returns:
        the SHA-256 of the file; the same frame gives the same bytes.
    """
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False, compression="zstd")
    write_bytes(uri, buffer.getvalue())
    return sha256(buffer.getvalue())


def write_batches(uri: str, batches: "Iterable[pd.DataFrame]") -> tuple[int, str]:
    """Write frames of the same columns to one Parquet file, atomically; only its compressed bytes are held whole.

    Args:
        uri: the file.
        batches: one frame or more.

    Returns:
        its rows, and the SHA-256 of the file.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    buffer, rows = io.BytesIO(), 0
    tables = (pa.Table.from_pandas(batch, preserve_index=False) for batch in batches)
    first = next(tables)
    with ParquetWriter(buffer, first.schema, compression="zstd") as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            rows += len(table)
    write_bytes(uri, buffer.getvalue())
    return rows, sha256(buffer.getvalue())


def walk(folder: str) -> "Iterator[Entry]":
    """Yield every file below a folder, however deep; none when the folder is missing."""
    fs, root = _open(folder)
    try:
        fs.invalidate_cache()
        for path, info in fs.find(root, detail=True).items():
            with contextlib.suppress(FileNotFoundError):  # a draft that has got its name since
                yield Entry(join(folder, path.removeprefix(root).lstrip("/")), info["size"], fs.modified(path))
    except Exception as error:
        raise _explained(error, folder) from error


def remove(uri: str) -> None:
    """Remove a file, if it is there.

    Raises:
        UserError: when it may not be removed, or the store refuses.
    """
    fs, path = _open(uri)
    try:
        fs.rm_file(path)
    except FileNotFoundError:
        return
    except Exception as error:
        raise _explained(error, uri) from error


def remove_folder(path: str) -> None:
    """Remove a local folder with all that is in it, if it is there.

    Raises:
        UserError: when something in it may not be removed.
    """
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _explained(error, path) from error


def _open(uri: str) -> "tuple[fsspec.AbstractFileSystem, str]":
    import fsspec

    try:
        return fsspec.core.url_to_fs(uri)  # type: ignore[no-any-return]  # fsspec ships no annotations
    except ImportError:
        extra = INSTALL.get(uri.split("://", 1)[0])
        step = f"run in the checkout: pip install -e '.[{extra}]'" if extra else "give a folder, s3://... or gs://..."
        raise UserError(f"{uri} needs a library that is missing; {step}") from None
    except ValueError as error:
        raise UserError(f"{uri}: {error}; give a folder, s3://... or gs://...") from None


def _is_local(fs: "fsspec.AbstractFileSystem") -> bool:
    return "file" in fs.protocol


def _replace(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)


def _explained(error: Exception, uri: str) -> UserError:
    if isinstance(error, FileNotFoundError):
        return UserError(f"{uri} does not exist; check the path and the date")
    if isinstance(error, PermissionError):
        return UserError(f"{uri}: permission denied; check the rights or the credentials")
    return UserError(f"{uri}: {type(error).__name__}: {' '.join(str(error).split())}")
