"""Chrome traces read in pieces: only a few megabytes of events are held at once, however long the file.

After an event a piece is cut where `[` + what came before + `]` is JSON: a cut inside a string or inside an event never
is, so the guess where an event ends is always checked by the parser. A piece that is no JSON is read event by event
(`mending.py`).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec

from nightshift.runtime.errors import UserError
from nightshift_perf.traces import mending, texts
from nightshift_perf.traces.texts import AGAIN

LONGEST = 64 << 20  # bytes of one event, or of what stands before or after the events
MARGIN = 1 << 20  # bytes: what seems broken so near the end of a piece may only be cut
GUESSES = 8  # where a piece may end, before it is read event by event

EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
BETWEEN = re.compile(rb"\}\s*,\s*\{")
SEPARATORS = re.compile(r"[\s,]*")
EXPECTED = "give a .json or .json.gz that torch.profiler exported (export_chrome_trace)"
STRANGERS = {
    b"<": "is a web page, not a trace: download the file itself, signed in where that is needed",
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd: unpack it first (unzstd)",
    b"BZh": "is compressed by bzip2: unpack it first (bunzip2)",
    b"\xfd7zXZ": "is compressed by xz: unpack it first (unxz)",
}


class Arguments(msgspec.Struct, gc=False):
    """The arguments of an event that are used, as different versions of PyTorch name them."""

    device: Any = None
    stream: Any = None
    correlation: Any = None
    bytes: Any = None
    external: Any = msgspec.field(default=None, name="External id")
    external_before: Any = msgspec.field(default=None, name="external id")
    collective: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    elements: Any = msgspec.field(default=None, name="In msg nelems")
    ranks: Any = msgspec.field(default=None, name="Group size")
    dtype: Any = None
    blocks: Any = msgspec.field(default=None, name="blocks per SM")
    occupancy: Any = msgspec.field(default=None, name="est. achieved occupancy %")
    shapes: Any = msgspec.field(default=None, name="Input Dims")
    types: Any = msgspec.field(default=None, name="Input type")
    device_type: Any = msgspec.field(default=None, name="Device Type")
    device_id: Any = msgspec.field(default=None, name="Device Id")
    changed: Any = msgspec.field(default=None, name="Bytes")
    allocated: Any = msgspec.field(default=None, name="Total Allocated")
    reserved: Any = msgspec.field(default=None, name="Total Reserved")


class TraceEvent(msgspec.Struct, gc=False):
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
DECODER = msgspec.json.Decoder(list[TraceEvent])


@dataclass
class EventReader:
    """Reads a trace once, from its start to its end.

    Attributes:
        file: the trace, as it is stored.
        source: names it in errors.
        about: what stands beside the events: `deviceProperties`, `distributedInfo` ...; complete after the last event.
        events: how many have been read.
        mended: how many of them were no JSON.
        offset: bytes of the text, as UTF-8, before what is being read.
        is_list: nothing stands beside the events.
        is_open: nor has their list an end, which the format allows then.
    """

    file: BinaryIO
    source: str
    about: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    mended: int = 0
    offset: int = 0
    is_list: bool = False
    is_open: bool = False

    def pieces(self) -> Iterator[list[TraceEvent]]:
        """Yield the events in batches of some thousands.

        Raises:
            UserError: when the file is no trace, or a truncated one; names the offset in bytes.
        """
        chunks = texts.read(self.file, self.source)
        rest, is_closed = self._open(chunks), False
        for chunk in chunks:
            rest += chunk
            if not is_closed:
                events, rest, is_closed = self._cut(rest)
                yield events
            if len(rest) > LONGEST and not is_closed:
                raise self._explain_break(rest)
        if not is_closed:
            events, rest, is_closed = self._read_each(rest, margin=0)
            yield events
        yield self._close(rest, is_closed)

    def _open(self, chunks: Iterator[bytes]) -> bytes:
        """Read up to the events; return what has been read of them."""
        head = b""
        for chunk in chunks:
            head += chunk
            start = head.lstrip()
            if start.startswith(b"["):
                self.is_list = True
                return self._after(head, len(head) - len(start) + 1)
            if start and not start.startswith(b"{"):
                break
            if events := EVENTS.search(head):
                self._describe(head[: events.end()] + b"]}")
                return self._after(head, events.end())
            if len(head) > LONGEST:
                break
        raise self._stranger(head)

    def _stranger(self, head: bytes) -> UserError:
        """Return what a file is that does not begin as a trace."""
        start = head.lstrip()
        if not start.strip(b"\0"):
            return UserError(f"{self.source} is empty; {AGAIN}")
        for magic, problem in STRANGERS.items():
            if start.startswith(magic):
                return UserError(f"{self.source} {problem}")
        where = f": its text begins with {start[:12]!r}" if not start.startswith(b"{") else ""
        return UserError(f"{self.source} is no trace: it has no list 'traceEvents'{where}; {EXPECTED}")

    def _after(self, text: bytes, end: int) -> bytes:
        self.offset += end
        return text[end:]

    def _cut(self, text: bytes) -> tuple[list[TraceEvent], bytes, bool]:
        """Return the complete events at the start of a text, what follows them, and whether the list has ended."""
        ends = [match.start() + 1 for match in BETWEEN.finditer(text, max(len(text) - texts.PIECE, 0))]
        for end in reversed(ends[-GUESSES:]):
            try:
                events = DECODER.decode(b"[" + text[:end] + b"]")
            except PROBLEMS:
                continue
            self.events += len(events)
            return events, self._after(text, text.index(b"{", end)), False
        return self._read_each(text)

    def _read_each(self, data: bytes, margin: int = MARGIN) -> tuple[list[TraceEvent], bytes, bool]:
        """Do as `_cut`, event by event, which need not be JSON."""
        text = mending.decode(data[: data.rfind(b"}") + 1])  # where no character is cut
        events: list[TraceEvent] = []
        end = _next(text, 0)
        while end < len(text) and text[end] != "]":
            try:
                value, behind, is_mended = mending.read(text, end, len(text) - margin)
            except mending.PROBLEMS:
                break
            events.append(self._event(value, text, end))
            self.mended += is_mended
            end = _next(text, behind)
        self.events += len(events)
        rest = self._after(data, len(text[:end].encode())).lstrip(b", \t\r\n")
        is_closed = rest.startswith(b"]")
        return events, rest[is_closed:], is_closed

    def _event(self, value: Any, text: str, position: int) -> TraceEvent:
        try:
            return msgspec.convert(value, TraceEvent)
        except msgspec.ValidationError as error:
            at = self.offset + len(text[:position].encode())
            where = f"at byte {at:,}, after {self.events:,} events"
            raise UserError(f"{self.source} is no trace: {where}: {error}; {EXPECTED}") from None

    def _close(self, rest: bytes, is_closed: bool) -> list[TraceEvent]:
        """Read what stands behind the events; return the events of another list there."""
        text = mending.decode(rest).strip("\0 \t\r\n")
        if not self.is_list and is_closed:
            return self._describe(b"{" + text.lstrip(",").encode())
        if text or not self.is_list:
            raise self._explain_break(rest)
        self.is_open = not is_closed
        return []

    def _describe(self, data: bytes) -> list[TraceEvent]:
        """Take what stands beside the events; return the events among it."""
        text = mending.decode(data)
        try:
            values, end, _ = mending.read(text, 0, len(text))
        except mending.PROBLEMS as error:
            where = f"near byte {self.offset:,} of its text, beside its events"
            raise UserError(f"{self.source} is truncated or broken {where} ({error}); {AGAIN}") from None
        if text[end:].strip("\0 \t\r\n"):
            raise UserError(f"{self.source} goes on after its end ({text[end:].strip()[:12]!r}): are these two traces? "
                            "Give each as a file of its own")  # fmt: skip
        more = values.pop("traceEvents", None)
        self.about |= values
        return [self._event(event, "", 0) for event in more] if isinstance(more, list) else []

    def _explain_break(self, rest: bytes) -> UserError:
        """Return where and why the text cannot be read any further."""
        text = mending.decode(rest)
        at = _next(text, 0)
        try:
            _, at = mending.DECODER.raw_decode(text, at)
            reason = "something else follows"
        except json.JSONDecodeError as error:
            reason, at = error.msg, error.pos
        except RecursionError:
            reason = "nested too deep"
        at = self.offset + len(text[:at].encode())
        return UserError(
            f"{self.source} is truncated or broken at byte {at:,} of its text, after {self.events:,} events "
            f"({reason}); {AGAIN}"
        )


def _next(text: str, position: int) -> int:
    """Return the position of the next event, or of the end of their list."""
    match = SEPARATORS.match(text, position)
    return match.end() if match else position
