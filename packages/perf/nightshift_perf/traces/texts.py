"""Files as UTF-8 in pieces: unpacked where they are gzip, and decoded where they are UTF-16 or UTF-32."""

import codecs
import json
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from nightshift.runtime.errors import UserError

GZIP = b"\x1f\x8b"
PIECE = 2 << 20  # bytes of text that are returned at once
PACKED = 1 << 20  # compressed bytes that are read at once
AGAIN = "record it again and let the profiler finish (leave its `with` block, or call `stop()`), or copy the file again"


def read(file: BinaryIO, source: str) -> Iterator[bytes]:
    """Return a file's text as UTF-8 without a byte order mark, in pieces.

    Args:
        file: text in any Unicode encoding, plain or gzip.
        source: names it in errors.

    Raises:
        UserError: when it is gzip that breaks off; names the byte.
    """
    pieces = _bytes(file, source)
    first = next(pieces, b"")
    encoding = json.detect_encoding(first[:4])
    if encoding == "utf-8":
        yield first
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first).encode(errors="replace")
    for piece in pieces:
        yield decoder.decode(piece).encode(errors="replace")


def _bytes(file: BinaryIO, source: str) -> Iterator[bytes]:
    file.seek(0)
    is_gzip = file.read(2) == GZIP
    file.seek(0)
    if not is_gzip:
        while piece := file.read(PIECE):
            yield piece
        return
    try:
        yield from _unpack(file)
    except (EOFError, zlib.error) as error:
        raise UserError(
            f"{source} is a truncated or broken gzip file ({error}) near its byte {file.tell():,}; {AGAIN}"
        ) from None


def _unpack(file: BinaryIO) -> Iterator[bytes]:
    """Unpack the members of a gzip file; what follows them and is none is left out, as the program gzip does."""
    packed = file.read(PACKED)
    while packed.startswith(GZIP):
        unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        while not unpacker.eof:
            if text := unpacker.decompress(packed, PIECE):
                yield text
            packed = unpacker.unconsumed_tail
            if not unpacker.eof and not packed and not (packed := file.read(PACKED)):
                raise EOFError("it ends before its data does")
        packed = (unpacker.unused_data or file.read(PACKED)).lstrip(b"\0")
