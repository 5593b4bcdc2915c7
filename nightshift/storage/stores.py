"""The file systems behind URIs: how each store is opened, what its errors mean, and when to try again.

A store's errors are distinguished by their types and by their HTTP status. An answer that may be different in a
moment (throttling, a server error, a broken connection) is tried again with growing pauses and then is an
`UnavailableError`; any other is the user's to fix.
"""

import errno
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from nightshift.errors import UnavailableError, UserError

if TYPE_CHECKING:
    import fsspec

T = TypeVar("T")
INSTALL = {"s3": "aws", "gs": "gcp", "gcs": "gcp"}
TRIES = 5
PAUSE = 0.5  # seconds: at most this long after the first try, twice as long after each further one
# timeouts, throttling and errors of the server
PASSING = {408, 429, 500, 502, 503, 504}
# S3 answers these with status 400 too
PASSING_CODES = {"RequestTimeout", "RequestLimitExceeded", "SlowDown", "Throttling", "ThrottlingException"}
# what a system error asks of the user
ROOM, MOUNT = "make room there, then run the same command again", "mount it with file locks (Lustre: -o flock)"
FIXES = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EROFS: "give a place that can be written to, or mount it for writing",
    errno.ENOSYS: MOUNT,
    errno.ENOLCK: MOUNT,
    errno.EOPNOTSUPP: MOUNT,
}


def opened(uri: str) -> "tuple[fsspec.AbstractFileSystem, str]":
    """Return the file system of a URI and the path in it.

    Raises:
        UserError: when the scheme is unknown or its library is missing, or fsspec would go to another place.
    """
    import fsspec

    if "::" in uri:
        raise UserError(f"{uri}: '::' joins two places into one for fsspec; give a folder or URI without it")

    try:
        # a listing that is remembered would hide what other processes write
        fs, path = fsspec.core.url_to_fs(uri, use_listings_cache=False, **_options(uri))
    except ImportError:
        extra = INSTALL.get(uri.split("://", 1)[0])
        step = f"run in the checkout: pip install -e '.[{extra}]'" if extra else "give a folder, s3://... or gs://..."
        raise UserError(f"{uri} needs a library that is missing; {step}") from None
    except ValueError as error:
        raise UserError(f"{uri}: {error}; give a folder, s3://... or gs://...") from None
    if is_s3(fs):
        fs.retries = 1  # of this instance, which no other options share
        fs.max_concurrency = 1  # parts of 50 MB of a large file that are held at once
    return fs, path


def attempt(uri: str, operation: "Callable[[fsspec.AbstractFileSystem, str], T]") -> T:
    """Do something at a URI; on a store as often as it may help.

    Raises:
        UserError: when the user has to fix something first.
        UnavailableError: when the store fails in every try.
    """
    fs, path = opened(uri)
    try:
        return operation(fs, path) if is_local(fs) else _retrying(operation, fs, path)
    except Exception as error:
        raise raised(error, uri, fs) from error


def raised(error: Exception, uri: str, fs: "fsspec.AbstractFileSystem") -> Exception:
    """Return what an error at a URI means to the user."""
    reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {' '.join(str(error).split())}"
    if not is_local(fs) and _may_pass(error, fs):
        tries = f" ({_tries(fs)} tries)" if _tries(fs) > 1 else ""
        return UnavailableError(f"{uri}: {reason}{tries}; check the store, then run the same command again")
    if isinstance(error, OSError):
        return explained(error, uri)
    return UserError(f"{uri}: {reason}; check the path, the file and the credentials")


def explained(error: OSError, place: str | None) -> UserError:
    """Return what a user has to fix after a system error at a place, a path or a URI, if it has one."""
    if place and isinstance(error, FileNotFoundError):
        return UserError(f"{place} does not exist; check the path and the date")
    if place and isinstance(error, PermissionError):
        return UserError(f"{place}: permission denied; check the rights or the credentials")
    reason = error.strerror or " ".join(str(error).split())
    fix = FIXES.get(error.errno or 0, "check the path" if place else "")
    return UserError("; ".join(filter(None, [f"{place}: {reason}" if place else reason, fix])))


def is_local(fs: "fsspec.AbstractFileSystem") -> bool:
    """Return whether a file system is this machine's, or mounted on it."""
    return "file" in fs.protocol


def is_s3(fs: "fsspec.AbstractFileSystem") -> bool:
    """Return whether a file system is S3."""
    return "s3" in fs.protocol


def is_gcs(fs: "fsspec.AbstractFileSystem") -> bool:
    """Return whether a file system is Google Cloud Storage."""
    return "gs" in fs.protocol


def s3_answer(error: BaseException) -> tuple[int, str]:
    """Return the HTTP status and the code of S3's answer behind an error; 0 and "" when there is none."""
    from botocore.exceptions import ClientError

    for each in _chain(error):  # s3fs turns them into errors of the system
        if isinstance(each, ClientError):
            status = each.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return status, each.response.get("Error", {}).get("Code", "")
    return 0, ""


def _options(uri: str) -> dict[str, Any]:
    """Return what a URI's file system is opened with, beside the user's own fsspec configuration."""
    if not uri.startswith(("s3://", "s3a://")):
        return {}
    import fsspec

    given = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
    # the tries are ours: those of botocore, and below of s3fs, would multiply them
    return {"config_kwargs": given | {"retries": {"total_max_attempts": 1}}}


def _tries(fs: "fsspec.AbstractFileSystem") -> int:
    return 1 if is_gcs(fs) else TRIES  # gcsfs always makes six tries itself, with pauses like ours


def _retrying(operation: "Callable[[fsspec.AbstractFileSystem, str], T]", fs: Any, path: str) -> T:
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    tries = Retrying(
        stop=stop_after_attempt(_tries(fs)),
        wait=wait_random_exponential(multiplier=PAUSE),
        retry=retry_if_exception(lambda error: _may_pass(error, fs)),
        reraise=True,
    )
    return tries(operation, fs, path)


def _may_pass(error: BaseException, fs: "fsspec.AbstractFileSystem") -> bool:
    """Return whether a store may answer differently in a moment."""
    if is_s3(fs):
        return _s3_may_pass(error)
    return _gcs_may_pass(error) if is_gcs(fs) else _other_may_pass(error)


def _s3_may_pass(error: BaseException) -> bool:
    from aiohttp import ClientError as BrokenConnection
    from botocore import exceptions

    network = (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.IncompleteReadError)
    # whoever gives out the credentials, such as a node's metadata server
    credentials = (exceptions.CredentialRetrievalError, exceptions.MetadataRetrievalError)
    if isinstance(error, (*network, *credentials, BrokenConnection, ConnectionError, TimeoutError)):
        return True
    status, code = s3_answer(error)
    return status in PASSING or code in PASSING_CODES


def _gcs_may_pass(error: BaseException) -> bool:
    from gcsfs.retry import is_retriable
    from google.auth.exceptions import RefreshError, TransportError

    if isinstance(error, RefreshError):  # the credentials are refused
        return False
    return bool(is_retriable(error)) or isinstance(error, ConnectionError | TimeoutError | TransportError)


def _other_may_pass(error: BaseException) -> bool:
    """Judge by `status_code`, which Azure's answers carry, or else by what broke below the store's own error."""
    chain = list(_chain(error))
    for each in chain:
        if isinstance(status := getattr(each, "status_code", None), int):
            return status in PASSING
    return any(isinstance(each, ConnectionError | TimeoutError) for each in chain)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Give an error and what caused it."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
