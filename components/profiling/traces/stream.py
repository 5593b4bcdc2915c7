"""Chrome traces read in pieces: only a few megabytes of events are held at once, however long the file.

After an event a piece is cut where `[` + what came before + `]` is JSON: a cut inside a string or inside an event never
is, so the guess where an event ends is always checked by the parser.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec

from components.common.errors import UserError

GZIP = b"\x1f\x8b"
PIECE = 8 << 20  # bytes that are read at once
LONGEST = 64 << 20  # bytes of one event, or of what stands before or after the events
GUESSES = 8  # where a piece may end, before more is read

EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
BETWEEN = re.compile(rb"\}\s*,\s*\{")
AGAIN = "record it again and let the profiler finish (leave its `with` block, or call `stop()`), or copy the file again"


class Arguments(msgspec.Struct, gc=False):
    """The arguments of an event that are used, as different versions of PyTorch name them."""

    device: Any = None
    stream: Any = None
    correlation: Any = None
    bytes: Any = None
    external: Any = msgspec.field(default=None, name="External id")
    external_before: Any = msgspec.field(default=None, name="external id")
    collective: Any = msgspec.field(default=None, name="Collective name")
    elements: Any = msgspec.field(default=None, name="In msg nelems")
    ranks: Any = msgspec.field(default=None, name="Group size")
    dtype: Any = None
    shapes: Any = msgspec.field(default=None, name="Input Dims")
    types: Any = msgspec.field(default=None, name="Input type")
    device_type: Any = msgspec.field(default=None, name="Device Type")
    device_id: Any = msgspec.field(default=None, name="Device Id")
    changed: Any = msgspec.field(default=None, name="Bytes")
    allocated: Any = msgspec.field(default=None, name="Total Allocated")
    reserved: Any = msgspec.field(default=None, name="Total Reserved")


class Event(msgspec.Struct, gc=False):
    """An event of a Chrome trace; times are microseconds."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    ts: Any = None
    dur: Any = None
    tid: Any = None
    pid: Any = None
    args: Arguments | None = None


PROBLEMS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
DECODER = msgspec.json.Decoder(list[Event])


@dataclass
class Reader:
    """Reads a trace once, from its start to its end.

    Attributes:
        file: the trace, as it is stored.
        source: names it in errors.
        about: what stands beside the events: `deviceProperties`, `distributedInfo` ...; complete after the last event.
    """

    file: BinaryIO
    source: str
    about: dict[str, Any] = field(default_factory=dict)
    events: int = 0

    def pieces(self) -> Iterator[list[Event]]:
        """Return the events, some thousands at a time.

        Raises:
            UserError: when it is not a trace, or only a part of one.
        """
        chunks = self._chunks()
        rest = self._opened(chunks)
        for chunk in chunks:
            rest += chunk
            found, rest = self._cut(rest)
            if found:
                yield found
        yield self._last(rest)

    def _chunks(self) -> Iterator[bytes]:
        self.file.seek(0)
        is_gzip = self.file.read(2) == GZIP
        self.file.seek(0)
        file = gzip.GzipFile(fileobj=self.file) if is_gzip else self.file
        try:
            while chunk := file.read(PIECE):
                yield chunk
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(f"{self.source} is a truncated or broken gzip file ({error}) after "
                            f"{self.events:,} events; {AGAIN}") from None  # fmt: skip

    def _opened(self, chunks: Iterator[bytes]) -> bytes:
        """Read up to the events; return what has been read of them."""
        head = b""
        for chunk in chunks:
            head += chunk
            if head.lstrip().startswith(b"["):
                return head.lstrip()[1:]
            if found := EVENTS.search(head):
                self.about |= self._values(head[: found.end()] + b"]}")
                return head[found.end() :]
            if len(head) > LONGEST:
                break
        if not head.strip():
            raise UserError(f"{self.source} is empty; {AGAIN}")
        raise UserError(f"{self.source} is no trace: it has no list 'traceEvents'; give a .json or .json.gz that "
                        "torch.profiler exported (export_chrome_trace)")  # fmt: skip

    def _last(self, rest: bytes) -> list[Event]:
        """Return the events before the end of the list, and read what stands behind it."""
        text = rest.decode(errors="replace").lstrip()
        try:
            _, end = json.JSONDecoder().raw_decode(f"[{text}")
        except (json.JSONDecodeError, RecursionError) as error:
            raise UserError(f"{self.source} is truncated or broken after {self.events:,} events ({error}); "
                            f"{AGAIN}") from None  # fmt: skip
        tail = text[end - 1 :].strip().lstrip(",").strip()
        if tail.strip("}").strip():
            self.about |= self._values(b"{" + tail.encode())
        try:
            return self._counted(text[: end - 2].encode())
        except PROBLEMS as error:
            raise UserError(f"{self.source} is no trace: after {self.events:,} events: {error}; {AGAIN}") from None

    def _values(self, text: bytes) -> dict[str, Any]:
        try:
            found: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        except PROBLEMS as error:
            raise UserError(f"{self.source} is no trace: {error}; {AGAIN}") from None
        found.pop("traceEvents", None)
        return found

    def _cut(self, text: bytes) -> tuple[list[Event], bytes]:
        """Return the complete events at the start of a text, and the rest after the comma."""
        ends = [found.start() + 1 for found in BETWEEN.finditer(text, max(len(text) - PIECE, 0))]
        reason = f"it is longer than {LONGEST >> 20} MB"
        for end in reversed(ends[-GUESSES:]):
            try:
                return self._counted(text[:end]), text[end:].lstrip().removeprefix(b",")
            except PROBLEMS as error:
                reason = str(error)
        if len(text) > LONGEST:
            raise UserError(f"{self.source} is no trace: after {self.events:,} events stands what cannot be read "
                            f"({reason}); {AGAIN}")  # fmt: skip
        return [], text

    def _counted(self, text: bytes) -> list[Event]:
        found = DECODER.decode(b"[" + text + b"]")
        self.events += len(found)
        return found
