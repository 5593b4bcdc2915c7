"""Files that are changed only by compare-and-set: a write succeeds if the file still is what was read.

In a folder the writers take turns by a lock (`flock`) and compare the file's hash; S3 and Google Cloud Storage compare
on the server (a conditional PUT), so writers need not know of each other.
"""

import io
from typing import Any
from urllib.parse import quote

from nightshift import storage
from nightshift.errors import UserError
from nightshift.storage import stores

ABSENT = ""
# S3 on a version that is no longer the newest, on two writes at once, and on a file that is gone
CONFLICTS = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}


def read(uri: str) -> tuple[bytes | None, str]:
    """Read a file and its version, which `compare_and_set` wants; None and `ABSENT` when there is no file.

    The version is never newer than the content, so what is written in between is never overwritten.

    Raises:
        UserError: when the store refuses, or knows no versions.
        UnavailableError: when it fails in every try; so does `compare_and_set`.
    """
    return stores.attempt(uri, _read)


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


def _read(fs: Any, path: str) -> tuple[bytes | None, str]:
    try:
        version = "" if stores.is_local(fs) else _version(fs, path)
        data = bytes(fs.cat_file(path))
    except FileNotFoundError:
        return None, ABSENT
    return data, version or storage.sha256(data)


def _version(fs: Any, path: str) -> str:
    if stores.is_s3(fs):
        return str(fs.info(path)["ETag"])
    _refuse_others(fs, path)
    return str(fs.info(path)["generation"])


def _refuse_others(fs: Any, path: str) -> None:
    if not stores.is_gcs(fs):
        raise UserError(f"{path}: this store cannot write on a condition; give a folder, s3://... or gs://...")


def _write(fs: Any, path: str, expected: str, data: bytes) -> bool:
    if stores.is_local(fs):
        return storage.replace(path, io.BytesIO(data), lambda: _read(fs, path)[1] == expected)
    if stores.is_s3(fs):
        return _put_s3(fs, path, expected, data)
    _refuse_others(fs, path)
    return _put_gcs(fs, path, expected, data)


def _put_s3(fs: Any, path: str, expected: str, data: bytes) -> bool:
    bucket, key, _ = fs.split_path(path)
    condition = {"IfMatch": expected} if expected else {"IfNoneMatch": "*"}
    try:
        fs.call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)
    except OSError as error:
        if stores.s3_answer(error)[1] in CONFLICTS:
            return False
        raise
    return True


def _put_gcs(fs: Any, path: str, expected: str, data: bytes) -> bool:
    bucket, key, _ = fs.split_path(path)
    url = f"{fs.base.replace('/storage/v1/', '/upload/storage/v1/')}b/{quote(bucket, safe='')}/o"
    condition = {"uploadType": "media", "name": key, "ifGenerationMatch": expected or "0"}
    try:
        fs.call("POST", url, headers={"Content-Type": "application/json"}, data=data, **condition)
    except FileExistsError:  # status 412
        return False
    return True
