"""The bearer token of requests."""

import hmac
from pathlib import Path

from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log


class Bearer:
    """A token in a file; a changed file is read again, since secrets are rotated."""

    def __init__(self, path: str) -> None:
        """Read the token.

        Raises:
            UserError: when the file is missing or empty.
        """
        self._path = path
        self._state = self._read_state()
        self._expected = self._read()

    def admits(self, header: bytes) -> bool:
        """Return whether an Authorization header bears the token."""
        state = self._read_state()
        if state != self._state:
            self._state = state
            self._renew()
        return hmac.compare_digest(header, self._expected)

    def _read_state(self) -> object:
        """Return a value that changes with the file; None while it is missing."""
        try:
            stat = Path(self._path).stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_ino, stat.st_size

    def _read(self) -> bytes:
        return f"Bearer {read_secret('token-file', self._path, 'openssl rand -hex 32 prints one')}".encode()

    def _renew(self) -> None:
        try:
            self._expected = self._read()
            log.info("read a new token from %s", self._path)
        except UserError as error:  # during a rotation the old one stays valid
            log.error("still the old token: %s", error)


def read_secret(flag: str, path: str, example: str) -> str:
    """Return the line of a flag's file.

    Raises:
        UserError: when the file cannot be read, or is empty.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read().strip()
    except OSError as error:
        raise UserError(f"{flag} is {path!r}: {error.strerror}; give a file that holds one line ({example})") from None
    except UnicodeDecodeError:
        raise UserError(f"{flag} is {path!r}, which is no text; give a file that holds one line ({example})") from None
    if not text:
        raise UserError(f"{flag} {path!r} is empty; write one line into it ({example})")
    return text
