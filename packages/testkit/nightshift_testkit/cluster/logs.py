"""What a container prints, with the time of each line."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime


class Log:
    """Lines that come in while others read them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: list[tuple[float, bytes]] = []
        self._ended = False

    def write(self, line: bytes) -> None:
        with self._changed:
            self._lines.append((time.time(), line))
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def read(
        self, follow: bool, tail: int | None = None, seconds: float | None = None, times: bool = False
    ) -> Iterator[bytes]:
        """Yield lines, those that are yet to come as well if `follow`."""
        with self._changed:
            begin = 0 if tail is None else max(0, len(self._lines) - tail)
        oldest = 0.0 if seconds is None else time.time() - seconds
        while True:
            with self._changed:
                self._changed.wait_for(lambda begin=begin: not follow or self._ended or len(self._lines) > begin)
                lines, ended = self._lines[begin:], self._ended
            yield from (_shown(line, times) for line in lines if line[0] >= oldest)
            begin += len(lines)
            if not follow or (ended and not lines):
                return

    def last(self, lines: int, size: int) -> str:
        """The last lines, as far as they fit."""
        with self._changed:
            content = b"".join(line for _, line in self._lines[-lines:])
        return content[-size:].decode(errors="replace")


def _shown(line: tuple[float, bytes], times: bool) -> bytes:
    at = datetime.fromtimestamp(line[0], UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return f"{at}000Z ".encode() + line[1] if times else line[1]
