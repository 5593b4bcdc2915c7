"""From the bytes of a DICOM file to the image that a reader sees: one gray or color image of 8 bits a frame.

Decoders are chosen by transfer syntax (`samples.py`). GDCM, which alone has some, runs in a process of its own
(`isolated.py`), since broken frames end it. A file is shown right, or refused by a rule of `ALLOWED`.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image
from pydicom import Dataset

from nightshift.items.images import UnusableError
from nightshift_image_text.dicom import display, samples
from nightshift_image_text.dicom.reading import is_dicom, parse
from nightshift_image_text.dicom.samples import count_frames

ALLOWED = {
    "undecodable": "a whole DICOM file, whose frames its transfer syntax can be read by",
    "no_transfer_syntax": "a DICOM file with the file meta information that names its transfer syntax",
    "unsupported_transfer_syntax": "uncompressed or deflated pixels, RLE, JPEG, JPEG-LS, JPEG 2000 or HTJ2K, no video",
    "no_pixels": "an object with Pixel Data",
    "short_pixels": "as many frames and bytes of Pixel Data as the header says",
    "bad_header": "the tags that describe pixels, with values of the standard that the pixels agree with",
    "bad_window": "a window, or a table in its place, by which different pixels look different",
    "wrong_mode": "gray, RGB, YBR or palette color, in whole numbers",
    "many_frames": "one frame; the source `dicom` makes a row of each frame",
    "decompression_bomb": "rows times columns up to {max_pixels:,} pixels",
}

__all__ = ["ALLOWED", "count_frames", "decode", "frames", "is_dicom", "parse", "render", "silence"]


def decode(content: bytes, max_pixels: int) -> Image.Image:
    """Return the image of a DICOM file with one frame.

    Args:
        content: its bytes.
        max_pixels: rows times columns, above which nothing is decoded.

    Returns:
        mode L or RGB.

    Raises:
        UnusableError: the rules of `ALLOWED`.
    """
    with _refusing():
        dataset = parse(content, max_pixels)
        if count_frames(dataset) > 1:
            raise UnusableError("many_frames")
        return _render(dataset, 0, max_pixels)


def frames(content: bytes, max_pixels: int) -> Iterator[Image.Image]:
    """Yield the images of a DICOM file, frame by frame; see `decode`."""
    with _refusing():
        dataset = parse(content, max_pixels)
        count = count_frames(dataset)
    for frame in range(count):
        yield render(dataset, frame, max_pixels)


def render(dataset: Dataset, frame: int, max_pixels: int) -> Image.Image:
    """Return the image of a frame of what `parse` has read; see `decode`."""
    with _refusing():
        return _render(dataset, frame, max_pixels)


def _render(dataset: Dataset, frame: int, max_pixels: int) -> Image.Image:
    stored = samples.read_frame(dataset, frame, max_pixels)
    return Image.fromarray(display.shade(stored, dataset, frame))


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn whatever a decoder meets in a broken file into a rule."""
    try:
        with silence():
            yield
    except UnusableError:
        raise
    except Exception:
        raise UnusableError("undecodable") from None


@contextmanager
def silence() -> Iterator[None]:
    """Keep what pydicom says of a file out of the logs: it quotes values, and with them identifiers."""
    logger = logging.getLogger("pydicom")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = was_disabled
