"""The bearer token of requests."""

import hmac
from pathlib import Path

from nightshift.errors import UserError
from nightshift.step import log


class Bearer:
    """A token in a file, which is read again when the file changes: secrets are rotated."""

    def __init__(self, path: str) -> None:
        """Read it.

        Raises:
            UserError: when there is none.
        """
        self._path = path
        self._state = self._look()
        self._expected = self._read()

    def admits(self, header: bytes) -> bool:
        """Return whether an Authorization header bears the token."""
        state = self._look()
        if state != self._state:
            self._state = state
            self._renew()
        return hmac.compare_digest(header, self._expected)

    def _look(self) -> object:
        try:
            found = Path(self._path).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> bytes:
        return f"Bearer {secret('token-file', self._path, 'openssl rand -hex 32 prints one')}".encode()

    def _renew(self) -> None:
        try:
            self._expected = self._read()
            log.info("the token of %s is a new one", self._path)
        except UserError as error:  # while it is replaced: the old one still counts
            log.error("still the old token: %s", error)


def secret(flag: str, path: str, such: str) -> str:
    """Return the line of a file that a flag names.

    Raises:
        UserError: when the file cannot be read, or is empty.
    """
    try:
        with open(path, encoding="utf-8") as file:
            found = file.read().strip()
    except OSError as error:
        raise UserError(f"{flag} is {path!r}: {error.strerror}; give a file that holds one line ({such})") from None
    except UnicodeDecodeError:
        raise UserError(f"{flag} is {path!r}, which is no text; give a file that holds one line ({such})") from None
    if not found:
        raise UserError(f"{flag} {path!r} is empty; write one line into it ({such})")
    return found
