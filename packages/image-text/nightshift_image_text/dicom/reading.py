"""From bytes to a DICOM data set, which is not inflated beyond what its pixels can need."""

import warnings
import zlib
from io import BytesIO
from typing import cast

from pydicom import Dataset, dcmread
from pydicom.errors import InvalidDicomError
from pydicom.filereader import data_element_generator
from pydicom.uid import DeflatedExplicitVRLittleEndian

from nightshift.items.images import UnusableError

PREAMBLE = 128  # bytes before the file's mark
MARK = b"DICM"
GROUPS = (b"\x02\x00", b"\x08\x00", b"\x00\x02", b"\x00\x08")  # what begins a file without its mark, in either order
TRANSFER_SYNTAX = 0x0002_0010
HEADER = 1 << 24  # bytes that a header may have
PER_PIXEL = 12  # bytes: three samples of 32 bits


def is_dicom(content: bytes) -> bool:
    """Return whether bytes claim to be a DICOM file, be it one without file meta information."""
    return content[PREAMBLE : PREAMBLE + len(MARK)] == MARK or content[:2] in GROUPS


def parse(content: bytes, max_pixels: int) -> Dataset:
    """Return the data set of a file.

    Args:
        content: the file's bytes.
        max_pixels: rows times columns, above which no deflated file is inflated.

    Raises:
        UnusableError: `no_transfer_syntax`, `decompression_bomb`, or `undecodable`: no DICOM file, or not all of it.
    """
    try:
        offset, syntax = _find_syntax(content)
        if syntax == DeflatedExplicitVRLittleEndian:
            _require_inflatable(content[offset:], HEADER + PER_PIXEL * max_pixels)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "(?i).*end of file")  # pydicom would go on without what it has read
            return dcmread(BytesIO(content))
    except UnusableError:
        raise
    except (InvalidDicomError, Exception) as error:
        missing = isinstance(error, InvalidDicomError) and is_dicom(content)
        raise UnusableError("no_transfer_syntax" if missing else "undecodable") from None


def _find_syntax(content: bytes) -> tuple[int, str]:
    """Return where a file's data set begins, and its transfer syntax."""
    file = BytesIO(content)
    file.seek(PREAMBLE)
    if file.read(len(MARK)) != MARK:
        raise UnusableError("no_transfer_syntax" if is_dicom(content) else "undecodable")
    elements = data_element_generator(file, False, True, stop_when=lambda tag, _vr, _length: tag >> 16 != 2)
    meta = {int(element.tag): element.value for element in elements}
    syntax = cast(bytes, meta.get(TRANSFER_SYNTAX) or b"").rstrip(b"\x00 ").decode("ascii")
    if not syntax:
        raise UnusableError("no_transfer_syntax")
    return file.tell(), syntax


def _require_inflatable(deflated: bytes, limit: int) -> None:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    size = 0
    while deflated and size <= limit:
        size += len(inflater.decompress(deflated, 1 << 20))
        deflated = inflater.unconsumed_tail
    if size > limit:
        raise UnusableError("decompression_bomb")
