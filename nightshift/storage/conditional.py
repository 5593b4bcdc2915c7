"""Files changed only by compare-and-set: a write succeeds if the file is unchanged since it was read.

In a folder the writers take turns by a lock (`flock`) and compare the file's hash; S3 and Google Cloud Storage compare
on the server (a conditional PUT), so writers need not know of each other.
"""

import io
from collections.abc import Callable
from typing import Any

from nightshift import storage
from nightshift.runtime.errors import UnavailableError
from nightshift.storage import clouds, stores

ABSENT = ""
TRIES = 50  # each lost try means that another writer has succeeded


def read(uri: str) -> tuple[bytes | None, str]:
    """Read a file and its version for `compare_and_set`; None and `ABSENT` for a missing file.

    The version is never newer than the content, so a write in between is never overwritten.

    Raises:
        UserError: when the store refuses, or has no versions.
        UnavailableError: when the store fails in every try; so does `compare_and_set`.
    """
    return stores.attempt(uri, _read_version)


def compare_and_set(uri: str, expected: str, data: bytes) -> bool:
    """Write a whole file, atomically, if its version is the expected one; return whether it was.

    Args:
        uri: the file.
        expected: version from `read`, or `ABSENT`.
        data: content that no other writer writes; so if the file has it, an earlier try wrote it.

    Raises:
        UserError: when the store refuses, or has no conditional writes.
    """
    if stores.attempt(uri, lambda fs, path: _write(fs, path, expected, data)):
        return True
    # a try with a lost answer may have written it
    return read(uri)[0] == data


def settle(uri: str, decide: Callable[[bytes | None], bytes | None]) -> bytes | None:
    """Change a file from what it says; when another writer comes first, read and decide again.

    Args:
        uri: the file.
        decide: gets the content, None of a missing file; returns the next one, or None to leave it as it is.

    Returns:
        the content as it is then.

    Raises:
        UnavailableError: when other writers come first all the time.
    """
    for _ in range(TRIES):
        content, version = read(uri)
        wanted = decide(content)
        if wanted is None:
            return content
        if compare_and_set(uri, version, wanted):
            return wanted
    raise UnavailableError(f"{uri} was changed by others {TRIES} times in a row; run the same command again")


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
