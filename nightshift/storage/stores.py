"""The file systems behind URIs: how to open them, explain their errors, and repeat tries.

A store's errors are distinguished by their types and by their HTTP status (`clouds.py`). After a transient error
(throttling, a server error, a broken connection) an operation is repeated with growing pauses, and in the end raises an
`UnavailableError`; any other error is the user's to fix.
"""

import errno
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nightshift.runtime.errors import UnavailableError, UserError, suggest_install
from nightshift.storage import clouds

if TYPE_CHECKING:
    import fsspec

T = TypeVar("T")
PAUSE = 0.5  # seconds: at most this long after the first try, twice as long after each further one
# the user's next step after a system error
ROOM, MOUNT = "make room there, then run the same command again", "mount it with file locks (Lustre: -o flock)"
FIXES = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EROFS: "give a folder that can be written to, or mount it for writing",
    errno.ENOSYS: MOUNT,
    errno.ENOLCK: MOUNT,
    errno.EOPNOTSUPP: MOUNT,
}

SPECIAL: dict[str, Callable[[int], bool]] = {
    "named pipe": stat.S_ISFIFO,
    "socket": stat.S_ISSOCK,
    "device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}


def open_store(uri: str) -> "tuple[fsspec.AbstractFileSystem, str]":
    """Return the file system of a URI and the path in it.

    Raises:
        UserError: when the scheme is unknown or its library is missing, or the URI chains schemes.
    """
    import fsspec

    if "::" in uri:
        raise UserError(f"{uri}: fsspec chains schemes at '::'; give a folder or URI without it")

    store = clouds.find([uri.split("://", 1)[0]])
    try:
        # a cached listing would hide other processes' files
        fs, path = fsspec.core.url_to_fs(uri, use_listings_cache=False, **store.options())
    except ImportError:
        install = f"run {suggest_install(store.extra)}"
        step = install if store.extra else "give a folder, s3://... or gs://..."
        raise UserError(f"{uri} needs a library that is missing; {step}") from None
    except ValueError as error:
        raise UserError(f"{uri}: {error}; give a folder, s3://... or gs://...") from None
    store.prepare(fs)
    return fs, path


def attempt(uri: str, operation: "Callable[[fsspec.AbstractFileSystem, str], T]") -> T:
    """Run an operation on a URI; on an object store repeat it after transient errors.

    Raises:
        UserError: when the user has to fix something first.
        UnavailableError: when the store fails in every try.
    """
    fs, path = open_store(uri)
    try:
        if not is_local(fs):
            return _retry(operation, fs, path)
        _check_kind(path)
        return operation(fs, path)
    except Exception as error:
        raise translate(error, uri, fs) from error


def translate(error: Exception, uri: str, fs: "fsspec.AbstractFileSystem") -> Exception:
    """Return the error for the user behind an error at a URI."""
    if isinstance(error, UserError):
        return error
    reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {' '.join(str(error).split())}"
    store = clouds.find(fs.protocol)
    if not is_local(fs) and store.may_pass(error):
        tries = f" ({store.tries} tries)" if store.tries > 1 else ""
        return UnavailableError(f"{uri}: {reason}{tries}; check the store, then run the same command again")
    if isinstance(error, OSError):
        return explain(error, uri)
    return UserError(f"{uri}: {reason}; check the path, the file and the credentials")


def explain(error: OSError, uri: str | None) -> UserError:
    """Return the error for the user behind a system error at a path or URI, if it has one."""
    if uri and isinstance(error, FileNotFoundError):
        return UserError(f"{uri} does not exist; check the path and the date")
    if uri and isinstance(error, PermissionError):
        return UserError(f"{uri}: permission denied; check the rights or the credentials")
    reason = error.strerror or " ".join(str(error).split())
    fix = FIXES.get(error.errno or 0, "check the path" if uri else "")
    return UserError("; ".join(filter(None, [f"{uri}: {reason}" if uri else reason, fix])))


def _check_kind(path: str) -> None:
    """Refuse what is neither a file nor a folder: a read of a pipe waits for ever, that of a device may have no end.

    Raises:
        UserError: naming what it is.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError:  # missing, or said by the operation
        return
    if kind := next((name for name, is_kind in SPECIAL.items() if is_kind(mode)), None):
        raise UserError(f"{path} is a {kind}; give a file or a folder")


def is_local(fs: "fsspec.AbstractFileSystem") -> bool:
    """Return whether a file system is local or mounted on this machine."""
    return "file" in fs.protocol


def _retry(operation: "Callable[[fsspec.AbstractFileSystem, str], T]", fs: Any, path: str) -> T:
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    store = clouds.find(fs.protocol)
    tries = Retrying(
        stop=stop_after_attempt(store.tries),
        wait=wait_random_exponential(multiplier=PAUSE),
        retry=retry_if_exception(store.may_pass),
        reraise=True,
    )
    return tries(operation, fs, path)
