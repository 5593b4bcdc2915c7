"""Files that are changed only by compare-and-set: a write succeeds if the file still is what was read.

In a folder the writers take turns by a lock (`flock`) and compare the file's hash; S3 and Google Cloud Storage compare
on the server (a conditional PUT), so writers need not know of each other.
"""

import io
from typing import Any

from nightshift import storage
from nightshift.storage import clouds, stores

ABSENT = ""


def read(uri: str) -> tuple[bytes | None, str]:
    """Read a file and its version, which `compare_and_set` wants; None and `ABSENT` when there is no file.

    The version is never newer than the content, so what is written in between is never overwritten.

    Raises:
        UserError: when the store refuses, or knows no versions.
        UnavailableError: when it fails in every try; so does `compare_and_set`.
    """
    return stores.attempt(uri, _read_version)


def compare_and_set(uri: str, expected: str, data: bytes) -> bool:
    """Write a whole file, atomically, if its version is the expected one; return whether it was.

    Args:
        uri: the file.
        expected: version as `read` gave it, or `ABSENT`.
        data: content that no other writer writes; so one that lies there was written by an earlier try.

    Raises:
        UserError: when the store refuses, or cannot write on a condition.
    """
    if stores.attempt(uri, lambda fs, path: _write(fs, path, expected, data)):
        return True
    # a try whose answer was lost may have written it
    return read(uri)[0] == data


def _read_version(fs: Any, path: str) -> tuple[bytes | None, str]:
    try:
        version = "" if stores.is_local(fs) else clouds.find(fs.protocol).version(fs, path)
        data = bytes(fs.cat_file(path))
    except FileNotFoundError:
        return None, ABSENT
    return data, version or storage.sha256(data)


def _write(fs: Any, path: str, expected: str, data: bytes) -> bool:
    if stores.is_local(fs):
        return storage.replace(path, io.BytesIO(data), lambda: _read_version(fs, path)[1] == expected)
    return clouds.find(fs.protocol).put(fs, path, expected, data)
