"""The number of a ledger's last commit, in a file beside it.

SQLite ends a write-ahead log silently at the first damaged frame, and does not miss a log that is gone. A ledger whose
own number is lower has lost commits.
"""

import os

from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log

SUFFIX = "-commits"  # beside SQLite's own -wal and -shm
DIGITS = 20


class CommitCount:
    """The file; it is written after each commit, without a sync of its own: it may be behind, never ahead."""

    def __init__(self, ledger: str) -> None:
        """Open the file of a ledger, or create it.

        Raises:
            UserError: when it cannot be opened.
        """
        self._path = f"{ledger}{SUFFIX}"
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UserError(f"{self._path}: {error.strerror}; give a ledger in a folder that can be written") from None

    def check(self, number: int) -> None:
        """Compare it with the ledger's own number.

        Raises:
            UserError: when the ledger has fewer commits, or the file is damaged.
        """
        text = os.pread(self._file, DIGITS, 0)
        if text and not (len(text) == DIGITS and text.isdigit()):
            raise UserError(f"{self._path} is damaged: {text!r}; see docs/runbooks/restore.md")
        if (lost := int(text or 0) - number) > 0:
            raise UserError(
                f"the ledger lacks its last {lost} commits, of which {self._path} tells: its write-ahead log is damaged"
                " or missing, or it is an older copy; see docs/runbooks/restore.md"
            )

    def write(self, number: int) -> None:
        """Note a commit; on a failure only later damage may go unnoticed."""
        try:
            os.pwrite(self._file, b"%0*d" % (DIGITS, number), 0)
        except OSError as error:
            log.error("%s cannot be written: %s", self._path, error)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
