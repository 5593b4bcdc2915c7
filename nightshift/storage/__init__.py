"""Files behind URIs: local paths, s3://, gs:// and fsspec's other schemes, read and written whole.

A write appears at once or not at all: locally by rename, on object stores because a PUT is atomic. `stores.py` explains
errors and repeats tries.
"""

import contextlib
import hashlib
import io
import json
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.storage import locks, once, stores

if TYPE_CHECKING:
    import fsspec
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class FileEntry:
    """A file: its URI, its size in bytes, the time of its last write (UTC)."""

    uri: str
    size: int
    written: datetime


Version = tuple[int | str, ...]
_GONE: Version = ()
JUST_NOW = 2  # seconds: the coarsest clock of a file system in use, FAT's
PIECE = 1 << 20  # bytes of a large file held in memory at a time


def join(root: str, *parts: str) -> str:
    """Append path parts to a URI."""
    return "/".join([root.rstrip("/"), *parts])


def sha256(data: bytes | mmap.mmap) -> str:
    """Return the SHA-256 of bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def fingerprint(value: object) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its keys."""
    return sha256(json.dumps(value, sort_keys=True, default=str).encode())


def exists(uri: str) -> bool:
    """Return whether a file or folder exists at the URI.

    Raises:
        UserError: when the store refuses.
        UnavailableError: when the store fails in every try; so do the other functions here.
    """
    return stores.attempt(uri, lambda fs, path: bool(fs.exists(path)))


def names(folder: str) -> list[str]:
    """Return the sorted names of a folder's direct entries; none when the folder is missing."""
    entries = stores.attempt(folder, _list)
    return sorted(entry.rstrip("/").rsplit("/", 1)[-1] for entry in entries)


def versions(folder: str) -> dict[str, Version | None]:
    """Return a folder's direct entries, sorted: name -> version, which changes with the content.

    A local file's version is its size, times of change and inode; an object's is its size and ETag or generation. It is
    None for a local file changed just now, which may change again before the file system's clock ticks
    (https://git-scm.com/docs/racy-git), for an unreadable one, and where a store has neither.
    """
    entries = stores.attempt(folder, _versions)
    return {name: entries[name] for name in sorted(entries)}


def free_share(folder: str) -> float | None:
    """Return the free share of a folder's file system, 0..1; None for an object store, which has no limit."""
    fs, path = stores.open_store(folder)
    if not stores.is_local(fs):
        return None
    usage = shutil.disk_usage(path)
    return usage.free / usage.total


def read_bytes(uri: str) -> bytes:
    """Read a whole file.

    Raises:
        UserError: when it is missing, not readable, or the store refuses.
    """
    return stores.attempt(uri, lambda fs, path: bytes(fs.cat_file(path)))


def read_tail(uri: str, size: int) -> bytes:
    """Read the last bytes of a file, or all where it has fewer.

    Raises:
        UserError: as for `read_bytes`.
    """
    return stores.attempt(uri, lambda fs, path: bytes(fs.cat_file(path, start=-size)))


def map_file(uri: str) -> mmap.mmap | bytes:
    """Map a whole file into memory, of an object a copy, which is gone when nobody holds it.

    Raises:
        UserError: when it is missing, not readable, or the store refuses.
    """
    with on_disk(uri) as path:
        return stores.attempt(path, lambda _, file: _map(file))


def read_settled(uri: str, read: Callable[[str], bytes] = read_bytes) -> bytes:
    """Read a whole file, and check that it did not change meanwhile; in an object store files appear whole.

    Raises:
        UserError: as for `read_bytes`.
        UnavailableError: when a local file changed during the read.
    """
    before = _state(uri)
    data = read(uri)
    if _state(uri) != before:
        raise UnavailableError(
            f"{uri} is still being written: it changed while it was read; try again when it is whole"
        )
    return data


def write_bytes(uri: str, data: bytes) -> None:
    """Write a whole file, atomically; two writers of the same file take turns.

    Raises:
        UserError: when the folder is not writable or full, or the store refuses.
    """
    stores.attempt(
        uri, lambda fs, path: replace(path, io.BytesIO(data)) if stores.is_local(fs) else fs.pipe_file(path, data)
    )


def digest(path: str) -> str:
    """Return the SHA-256 of a local file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy(source: str, target: str) -> str:
    """Copy a file, atomically and in pieces, never whole in memory.

    Returns:
        the SHA-256 of the copy.

    Raises:
        UserError: when the source is missing, the target not writable or full, or a store refuses.
    """
    with on_disk(source) as path:
        copied = stores.attempt(path, lambda _, file: digest(file))
        stores.attempt(target, lambda fs, file: (_replace_local if stores.is_local(fs) else fs.put_file)(path, file))
    return copied


def replace(path: str, source: BinaryIO, condition: Callable[[], bool] = lambda: True) -> bool:
    """Write a whole local file, atomically, if a condition holds; return whether it was written.

    Writers of the same file take turns, so the condition still holds when the file is replaced.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.tmp"
    # one draft per target: the next writer reuses a killed writer's, so no cleanup is needed
    with locks.hold(draft) as file:
        try:
            if written := condition():
                file.truncate(0)  # only under the lock: before, it may be another writer's
                shutil.copyfileobj(source, file, PIECE)
                file.flush()
                os.fsync(file.fileno())
                os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
        if not written:
            os.unlink(draft)
    return written


def read_json(uri: str) -> Any:
    """Read a JSON file.

    Raises:
        UserError: when it is missing or not JSON.
    """
    try:
        return json.loads(read_bytes(uri))
    except json.JSONDecodeError as error:
        raise UserError(f"{uri} is not JSON ({error}); delete it and run the step again") from None
    except RecursionError:
        raise UserError(f"{uri} is nested too deeply; delete it and run the step again") from None


def write_json(uri: str, value: object) -> None:
    """Write a JSON file, atomically; NaN and infinity are refused."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, default=str)
    write_bytes(uri, text.encode() + b"\n")


def read_frame(uri: str, columns: list[str] | None = None) -> "pd.DataFrame":
    """Read a Parquet file that this project wrote."""
    import pandas as pd

    return pd.read_parquet(arrow_file(read_bytes(uri)), columns=columns)


def arrow_file(data: bytes) -> "pa.BufferReader":
    """Return bytes as a file in Arrow's memory.

    Arrow's threads may hold a file after the interpreter's end; to free Python's bytes they would need it, and abort
    the process (apache/arrow#34314).
    """
    import pyarrow as pa

    buffer = pa.allocate_buffer(len(data))
    with pa.FixedSizeBufferWriter(buffer) as file:
        file.write(data)
    return pa.BufferReader(buffer)


def read_batches(uri: str, columns: list[str], rows: int = 1 << 17) -> "Iterator[pd.DataFrame]":
    """Read columns of a Parquet file that this project wrote, in batches of rows; absent columns are left out.

    Raises:
        UserError: when it is missing, not readable, or the store refuses.
    """
    from pyarrow.parquet import ParquetFile

    with on_disk(uri) as path:
        try:
            # a buffer would hold all of the file in memory
            with open(path, "rb") as file, ParquetFile(file, pre_buffer=False) as parquet:
                # without threads, which would outlive the file (see arrow_file)
                for batch in parquet.iter_batches(rows, columns=columns, use_threads=False):
                    yield batch.to_pandas()
        except Exception as error:
            raise stores.translate(error, uri, stores.open_store(path)[0]) from error


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
    """Write frames with the same columns to one Parquet file, atomically; memory holds only its compressed bytes whole.

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


def walk(folder: str) -> "list[FileEntry]":
    """Return all files below a folder, at any depth; none when the folder is missing."""
    return stores.attempt(folder, lambda fs, root: list(_entries(fs, root, folder)))


def last_change(folder: str) -> datetime | None:
    """Return the last change of a folder or its subfolders (UTC); None for a store or a missing folder."""
    if not stores.is_local(stores.open_store(folder)[0]):
        return None
    times = stores.attempt(folder, lambda _, root: [Path(path).stat().st_mtime for path, *_ in os.walk(root)])
    return datetime.fromtimestamp(max(times), UTC) if times else None


def remove(uri: str) -> None:
    """Remove a file, if it exists.

    Raises:
        UserError: when permission is missing, or the store refuses.
    """
    stores.attempt(uri, _unlink)


def remove_folder(uri: str) -> None:
    """Remove a folder with its contents, if it exists.

    Raises:
        UserError: when permission is missing, or the store refuses.
    """
    if stores.is_local(stores.open_store(uri)[0]):
        stores.attempt(uri, _unlink_folder)
        return
    for entry in walk(uri):
        remove(entry.uri)


@contextmanager
def on_disk(uri: str, shared: str = "") -> Iterator[str]:
    """Yield a file's local path, for an object that of a copy, since a read in parts could not be repeated.

    Args:
        uri: of the file.
        shared: folder in which the copy stays for all processes of the machine; empty: it is this one's, and goes.
    """
    fs, path = stores.open_store(uri)
    if stores.is_local(fs):
        yield path
        return
    with contextlib.nullcontext(shared) if shared else tempfile.TemporaryDirectory() as folder:
        yield once.write_file(folder, uri, lambda copy: stores.attempt(uri, lambda fs, path: fs.get_file(path, copy)))


def _entries(fs: "fsspec.AbstractFileSystem", root: str, folder: str) -> "Iterator[FileEntry]":
    fs.invalidate_cache()
    for path, info in fs.find(root, detail=True).items():
        with contextlib.suppress(FileNotFoundError):  # a draft that was renamed since
            yield FileEntry(join(folder, path.removeprefix(root).lstrip("/")), info["size"], fs.modified(path))


def _map(path: str) -> mmap.mmap | bytes:
    with open(path, "rb") as file:
        is_empty = not os.fstat(file.fileno()).st_size  # which cannot be mapped
        return b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _unlink(fs: "fsspec.AbstractFileSystem", path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(path)


def _unlink_folder(_: "fsspec.AbstractFileSystem", path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _state(uri: str) -> tuple[int, int] | None:
    """Return a local file's size and time of its last write, nanoseconds; None for an object or a missing file."""
    fs, path = stores.open_store(uri)
    try:
        stat = Path(path).stat() if stores.is_local(fs) else None
    except OSError:
        return None
    return stat and (stat.st_size, stat.st_mtime_ns)


def _list(fs: "fsspec.AbstractFileSystem", path: str) -> list[str]:
    try:
        return list(fs.ls(path, detail=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _versions(fs: "fsspec.AbstractFileSystem", path: str) -> dict[str, Version | None]:
    try:
        if stores.is_local(fs):
            return _local_versions(path)
        return {info["name"].rstrip("/").rsplit("/", 1)[-1]: _stored_version(info) for info in fs.ls(path, detail=True)}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _local_versions(path: str) -> dict[str, Version | None]:
    settled = time.time() - JUST_NOW
    with os.scandir(path) as entries:
        versions = {entry.name: _local_version(entry, settled) for entry in entries}
    return {name: version for name, version in versions.items() if version != _GONE}


def _local_version(entry: "os.DirEntry[str]", settled: float) -> Version | None:
    try:
        stat = entry.stat()
    except FileNotFoundError:  # removed since, or a broken link
        return _GONE
    except OSError:  # the reader gets the error
        return None
    just_now = max(stat.st_mtime, stat.st_ctime) > settled
    return None if just_now else (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


def _stored_version(info: Mapping[str, Any]) -> Version | None:
    tag = info.get("generation") or info.get("ETag") or info.get("etag")
    return (info["size"], str(tag)) if tag else None


def _replace_local(source: str, path: str) -> None:
    with open(source, "rb") as file:
        replace(path, file)
