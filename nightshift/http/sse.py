"""Server-sent events: whole events from a body that arrives in pieces."""

import re

END_OF_EVENT = re.compile(rb"\r?\n\r?\n")
DONE = b"[DONE]"  # data of the last event of an engine's stream
MAX_EVENT = 16 * 1024 * 1024  # bytes


class SseReader:
    """Splits a body into its events."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the events that are whole now, without the empty lines between them.

        Args:
            piece: the next bytes of the body; empty at its end, where the last event may lack its empty line.

        Raises:
            ValueError: when an event has more than `MAX_EVENT` bytes.
        """
        if not piece:
            return [bytes(self._rest)]
        scanned = max(len(self._rest) - 3, 0)  # an end may have begun before
        self._rest += piece
        events, start = [], 0
        for end in END_OF_EVENT.finditer(self._rest, scanned):
            events.append(bytes(self._rest[start : end.start()]))
            start = end.end()
        del self._rest[:start]
        if len(self._rest) > MAX_EVENT:
            raise ValueError(f"an event has more than {MAX_EVENT} bytes")
        return events


def read_data(event: bytes) -> bytes:
    """Return the data of an event, its lines joined; empty for a comment."""
    return b"\n".join([line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")])
