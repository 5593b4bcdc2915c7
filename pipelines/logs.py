"""What steps print, as people are shown it."""

from pathlib import Path

from nightshift import storage
from nightshift.runtime.printable import printable

TAIL = 1 << 16  # bytes at the end of a log that are read


def last_lines(log: Path, count: int) -> str:
    """Return the last lines of a log that are not empty."""
    return "\n".join(list_last_lines(str(log), count))


def list_last_lines(uri: str, count: int) -> list[str]:
    """Return the last lines of a log at a URI that are not empty, none where there is no log."""
    lines = storage.read_tail(uri, TAIL).decode(errors="replace").splitlines() if storage.exists(uri) else []
    return [printable(line) for line in lines if line.strip()][-count:]
