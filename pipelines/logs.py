"""What steps print, as people are shown it."""

from pathlib import Path

from nightshift.runtime.printable import printable


def last_lines(log: Path, count: int) -> str:
    """Return the last lines of a log that are not empty."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([printable(line) for line in lines if line.strip()][-count:])
