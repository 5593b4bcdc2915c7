"""The size that a JPEG, JPEG-LS or JPEG 2000 codestream says it has, found without decoding it."""

import struct

from nightshift.items.images import UnusableError

JPEG_2000 = b"\xff\x4f\xff\x51"  # start of codestream, image and tile size: ITU-T T.800, A.4.1 and A.5.1
JPEG = b"\xff\xd8"
# start of frame: ITU-T T.81, table B.1, without tables (C4), extensions (C8) and conditioning (CC); T.87 for JPEG-LS
FRAMES = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}
ALONE = {0x01, *range(0xD0, 0xD9)}  # markers without a length


def find_size(codestream: bytes) -> tuple[int, int]:
    """Return rows and columns.

    Raises:
        UnusableError: `undecodable`.
    """
    try:
        if codestream.startswith(JPEG):
            return _find_frame(codestream)
        right, bottom, left, top = struct.unpack_from(">4I", codestream, codestream.index(JPEG_2000) + 8)
    except (ValueError, IndexError, struct.error):
        raise UnusableError("undecodable") from None
    return bottom - top, right - left


def _find_frame(codestream: bytes) -> tuple[int, int]:
    position = codestream.index(b"\xff", 2)
    while (marker := codestream[position + 1]) not in FRAMES:
        if marker == 0xFF:  # a fill byte
            position += 1
        else:
            position += 2 if marker in ALONE else 2 + int(struct.unpack_from(">H", codestream, position + 2)[0])
            position = codestream.index(b"\xff", position)
    rows, columns = struct.unpack_from(">2H", codestream, position + 5)
    return rows, columns
