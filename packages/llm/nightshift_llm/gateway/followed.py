"""Files that are reloaded when they change."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log

CHECK_SECONDS = 1.0  # between two checks for changes
Value = TypeVar("Value")


class FollowedFile(Generic[Value]):
    """The parsed content of a file; an invalid change keeps the previous value."""

    def __init__(
        self, flag: str, path: str, parse: Callable[[str, bytes], Value], check_seconds: float = CHECK_SECONDS
    ) -> None:
        """Read the file.

        Args:
            flag: the flag that names the file.
            path: the file.
            parse: (path, content) -> value; raises UserError.
            check_seconds: seconds between two checks for changes.

        Raises:
            UserError: when the file cannot be read, or its content is invalid.
        """
        self._flag, self._path, self._parse, self._check_seconds = flag, path, parse, check_seconds
        self._content, self._next_check = self._load(), 0.0
        self._value = parse(path, self._content)

    def read(self) -> Value:
        """Return the current value."""
        if time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + self._check_seconds
            self._refresh()
        return self._value

    def _refresh(self) -> None:
        try:
            content = self._load()
            if content != self._content:
                self._content = content
                self._value = self._parse(self._path, content)
                log.info("read %s again", self._path)
        except Exception as error:  # any failure of a parser: the gateway keeps running
            log.error("still as before: %s", error)

    def _load(self) -> bytes:
        return read_file(self._flag, self._path)


def read_file(flag: str, path: str) -> bytes:
    """Return the content of a flag's file.

    Raises:
        UserError: when it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{flag} is {path!r}: {error.strerror}; give a file that exists") from None
