"""Files behind URIs: a local path, s3://, gs:// or whatever fsspec knows, read and written whole.

A write appears at once or not at all: locally by rename, on object stores because a PUT is atomic. What a store
fails to do is tried again, with growing pauses.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from components.common import locks
from components.common.errors import UnavailableError, UserError

if TYPE_CHECKING:
    import fsspec
    import pandas as pd

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A file: its URI, its size in bytes, when it was last written (UTC)."""

    uri: str
    size: int
    written: datetime


INSTALL = {"s3": "aws", "gs": "gcp", "gcs": "gcp"}
TRIES = 5
PIECE = 1 << 20  # bytes of a large file that are held at once
PAUSE = 0.5  # seconds: at most this long after the first try, twice as long after each further one
# what a system error asks of the user
ROOM, MOUNT = "make room there, then run the same command again", "mount it with file locks (Lustre: -o flock)"
MENDS = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EROFS: "give a place that can be written to, or mount it for writing",
    errno.ENOSYS: MOUNT,
    errno.ENOLCK: MOUNT,
    errno.EOPNOTSUPP: MOUNT,
}
# a store's answers that another try cannot change; s3fs gives them as errors of the system
FINAL = (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError, IsADirectoryError)
# whose errors, beside those of the system, are a store's answers or the network's; they have no class in common
CLIENTS = {"aiohttp", "botocore", "gcsfs", "google"}
FINAL_CODES = (errno.EPERM, errno.EINVAL, errno.ENAMETOOLONG, errno.EMSGSIZE, errno.ENOSYS)


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
    """Return whether something lies at the URI.

    Raises:
        UserError: when the store refuses.
        UnavailableError: when it fails in every try; so do the other functions here.
    """
    return _attempt(uri, lambda fs, path: bool(fs.exists(path)))


def names(folder: str) -> list[str]:
    """Return the sorted names of what lies directly in a folder; none when the folder is missing."""
    entries = _attempt(folder, _listed)
    return sorted(entry.rstrip("/").rsplit("/", 1)[-1] for entry in entries)


def free_share(folder: str) -> float | None:
    """Return how much of the file system below a folder is free, 0..1; None of a store, which has no end."""
    fs, path = _open(folder)
    if not _is_local(fs):
        return None
    usage = shutil.disk_usage(path)
    return usage.free / usage.total


def read_bytes(uri: str) -> bytes:
    """Read a whole file.

    Raises:
        UserError: when it is missing, not readable, or the store refuses.
    """
    return _attempt(uri, lambda fs, path: bytes(fs.cat_file(path)))


def write_bytes(uri: str, data: bytes) -> None:
    """Write a whole file, atomically; two writers of the same file take turns.

    Raises:
        UserError: when the place is not writable, full, or the store refuses.
    """
    _attempt(uri, lambda fs, path: _replace(path, io.BytesIO(data)) if _is_local(fs) else fs.pipe_file(path, data))


def copy(source: str, target: str) -> str:
    """Copy a file, atomically and in pieces: it is never held whole.

    Returns:
        the SHA-256 of what was copied.

    Raises:
        UserError: when the source is missing, the target not writable or full, or a store refuses.
    """
    with _on_disk(source) as path:
        digest = _attempt(path, lambda _, place: _digest(place))
        _attempt(target, lambda fs, place: _place(path, place) if _is_local(fs) else _upload(fs, path, place))
    return digest


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

    with _on_disk(uri) as path:
        try:
            # buffered ahead, all of the file would end up in memory
            with open(path, "rb") as file, ParquetFile(file, pre_buffer=False) as parquet:
                # without threads, which would outlive the file (see read_frame)
                for batch in parquet.iter_batches(rows, columns=columns, use_threads=False):
                    yield batch.to_pandas()
        except Exception as error:
            raise _raised(error, uri, is_local=True) from error


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


def walk(folder: str) -> "list[Entry]":
    """Return every file below a folder, however deep; none when the folder is missing."""
    return _attempt(folder, lambda fs, root: list(_entries(fs, root, folder)))


def remove(uri: str) -> None:
    """Remove a file, if it is there.

    Raises:
        UserError: when it may not be removed, or the store refuses.
    """
    _attempt(uri, _unlinked)


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
        raise explained(error, path) from error


def explained(error: OSError, place: str | None) -> UserError:
    """Return what a user has to mend after an error of the system at a place, a path or a URI, if it has one."""
    if place and isinstance(error, FileNotFoundError):
        return UserError(f"{place} does not exist; check the path and the date")
    if place and isinstance(error, PermissionError):
        return UserError(f"{place}: permission denied; check the rights or the credentials")
    reason = error.strerror or " ".join(str(error).split())
    mend = MENDS.get(error.errno or 0, "check the path" if place else "")
    return UserError("; ".join(filter(None, [f"{place}: {reason}" if place else reason, mend])))


def _attempt(uri: str, operation: "Callable[[fsspec.AbstractFileSystem, str], T]") -> T:
    """Do something at a URI; on a store as often as it may help."""
    fs, path = _open(uri)
    try:
        return operation(fs, path) if _is_local(fs) else _patiently(operation, fs, path)
    except Exception as error:
        raise _raised(error, uri, _is_local(fs)) from error


def _patiently(operation: "Callable[[fsspec.AbstractFileSystem, str], T]", *place: Any) -> T:
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    waits = wait_random_exponential(multiplier=PAUSE)
    tries = Retrying(stop=stop_after_attempt(TRIES), wait=waits, retry=retry_if_exception(_may_pass), reraise=True)
    return tries(operation, *place)


def _may_pass(error: BaseException) -> bool:
    """Return whether a store may answer otherwise in a moment."""
    kind = type(error)
    if not isinstance(error, OSError) and not any(each.__module__.split(".")[0] in CLIENTS for each in kind.__mro__):
        return False
    final = isinstance(error, FINAL) or "Credentials" in kind.__name__ or "Validation" in kind.__name__
    return not final and getattr(error, "errno", None) not in FINAL_CODES


def _raised(error: Exception, uri: str, is_local: bool) -> Exception:
    said = getattr(error, "strerror", None) or f"{type(error).__name__}: {' '.join(str(error).split())}"
    if not is_local and _may_pass(error):
        return UnavailableError(f"{uri}: {said} ({TRIES} tries); see how the store is, then run the same command again")
    if isinstance(error, OSError):
        return explained(error, uri)
    return UserError(f"{uri}: {said}; check the path, the file and the credentials")


def _entries(fs: "fsspec.AbstractFileSystem", root: str, folder: str) -> "Iterator[Entry]":
    fs.invalidate_cache()
    for path, info in fs.find(root, detail=True).items():
        with contextlib.suppress(FileNotFoundError):  # a draft that has got its name since
            yield Entry(join(folder, path.removeprefix(root).lstrip("/")), info["size"], fs.modified(path))


def _unlinked(fs: "fsspec.AbstractFileSystem", path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(path)


def _open(uri: str) -> "tuple[fsspec.AbstractFileSystem, str]":
    import fsspec

    # the tries are ours: those of botocore, and below of s3fs, would multiply them
    fsspec.config.conf.setdefault("s3", {}).setdefault("config_kwargs", {})["retries"] = {"total_max_attempts": 1}
    try:
        # a listing that is remembered would hide what other processes write
        fs, path = fsspec.core.url_to_fs(uri, use_listings_cache=False)
    except ImportError:
        extra = INSTALL.get(uri.split("://", 1)[0])
        step = f"run in the checkout: pip install -e '.[{extra}]'" if extra else "give a folder, s3://... or gs://..."
        raise UserError(f"{uri} needs a library that is missing; {step}") from None
    except ValueError as error:
        raise UserError(f"{uri}: {error}; give a folder, s3://... or gs://...") from None
    fs.retries = 1
    return fs, path


def _is_local(fs: "fsspec.AbstractFileSystem") -> bool:
    return "file" in fs.protocol


def _listed(fs: "fsspec.AbstractFileSystem", path: str) -> list[str]:
    try:
        return list(fs.ls(path, detail=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def _on_disk(uri: str) -> Iterator[str]:
    """Give a file's path on this machine, if need be a copy's: a read in parts could not be tried again."""
    fs, path = _open(uri)
    if _is_local(fs):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy")
        _attempt(uri, lambda fs, path: fs.get_file(path, copy))
        yield copy


def _upload(fs: "fsspec.AbstractFileSystem", source: str, path: str) -> None:
    fs.max_concurrency = 2  # parts of 50 MB that s3fs holds at once
    fs.put_file(source, path)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _place(source: str, path: str) -> None:
    with open(source, "rb") as file:
        _replace(path, file)


def _replace(path: str, source: BinaryIO) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.tmp"
    # a target has one draft, so the next writer takes over what a killed one left and nothing has to be cleaned up
    with locks.held(draft) as file:
        try:
            file.truncate(0)  # not before: it may have been somebody else's
            shutil.copyfileobj(source, file, PIECE)
            file.flush()
            os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
