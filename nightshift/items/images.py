"""From an image file to pixels: upright, gray or color, a square of one size."""

import warnings
from io import BytesIO
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

Pixels = npt.NDArray[np.uint8]

# decoders are written in C and read what strangers have made: no more of them than anybody needs
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
PLAIN = {"1": "L", "L": "L", "RGB": "RGB"}
HASHED = (9, 8)  # pixels, width and height
HASHED_FROM = 72  # pixels of either side that are enough to shrink to these as the whole image would be
BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


class UnusableError(ValueError):
    """A file that cannot be used; the text is the rule that rejects it."""


class Rules(Protocol):
    """What images have to be like, and what networks see of them: a config's task, or a package's preprocessing."""

    @property
    def side(self) -> int:
        """Pixels of the square."""

    @property
    def channels(self) -> int:
        """1: gray, 3: RGB."""

    @property
    def min_side(self) -> int:
        """Pixels of the shorter side, below which an image is `too_small`."""

    @property
    def max_pixels(self) -> int:
        """Width times height, above which nothing is decoded."""


def prepare_pixels(content: bytes, rules: Rules) -> Pixels:
    """Return what networks see of a file, uint8 (side, side, channels).

    Raises:
        UnusableError: as `decode_image`, or `too_small`.
    """
    image = decode_image(content, rules.max_pixels, rules.side)
    # a JPEG may have been decoded at a smaller scale than it has
    if min(image.size) < rules.min_side and min(_size(content)) < rules.min_side:
        raise UnusableError("too_small")
    return square(image, rules.side, rules.channels)


def media_type(content: bytes) -> str:
    """Return what HTTP calls the format of a file that was decoded before, such as `image/jpeg`."""
    with Image.open(BytesIO(content), formats=FORMATS) as image:
        return Image.MIME[str(image.format)]


def decode_image(content: bytes, max_pixels: int, least: int = 0) -> Image.Image:
    """Return the image of a file as it is meant to be seen.

    Args:
        content: its bytes.
        max_pixels: width times height, above which nothing is decoded.
        least: pixels of either side that are needed, by which a large JPEG decodes in less time; 0: all.

    Returns:
        mode L or RGB, turned upright.

    Raises:
        UnusableError: `undecodable`, `decompression_bomb`, `animated`, or `wrong_mode`: another color space than gray
            and RGB, more than 8 bits, or partly transparent.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # oddities beside the pixels, such as broken EXIF data
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return _plain(_load(content, max_pixels, least))
    except UnusableError:
        raise
    except BOMBS:
        raise UnusableError("decompression_bomb") from None
    except Exception:  # whatever a decoder meets in a broken file
        raise UnusableError("undecodable") from None


def square(image: Image.Image, side: int, channels: int) -> Pixels:
    """Return the square in the middle of an image, resized; uint8 (side, side, channels), 1 channel is gray, 3 RGB."""
    cut = ImageOps.fit(image, (side, side), Image.Resampling.BILINEAR)
    return np.asarray(cut.convert("L" if channels == 1 else "RGB")).reshape(side, side, channels)


def difference_hash(image: Image.Image) -> np.uint64:
    """Return 64 bits that say where an image, shrunk to 9 x 8 grays, becomes lighter from left to right.

    Neal Krawetz, "Kind of Like That", The Hacker Factor Blog, 2013. Another size, quality or light changes a few bits.
    """
    grays = np.asarray(image.convert("L").resize(HASHED, Image.Resampling.BILINEAR))
    return np.uint64(int.from_bytes(np.packbits(grays[:, 1:] > grays[:, :-1]).tobytes()))


def _size(content: bytes) -> tuple[int, int]:
    """Return width and height as the file has them."""
    with Image.open(BytesIO(content), formats=FORMATS) as image:
        return image.size


def _load(content: bytes, max_pixels: int, least: int) -> Image.Image:
    image = Image.open(BytesIO(content), formats=FORMATS)
    if image.width * image.height > max_pixels:
        raise UnusableError("decompression_bomb")
    # what a phone puts behind its picture, such as a smaller one, is no animation
    if image.format != "MPO" and getattr(image, "is_animated", False):
        raise UnusableError("animated")
    if image.format == "PNG" and "16" in str(image.tile[0].args):  # Pillow would drop half of the color's bits
        raise UnusableError("wrong_mode")
    if least:
        image.draft(None, (least, least))
    image.load()
    return ImageOps.exif_transpose(image)


def _plain(image: Image.Image) -> Image.Image:
    if image.mode in PLAIN and "transparency" not in image.info:
        return image.convert(PLAIN[image.mode])
    if image.mode not in (*PLAIN, "LA", "P", "PA", "RGBA"):
        raise UnusableError("wrong_mode")
    whole = image.convert("RGBA")
    low, _ = whole.getchannel("A").getextrema()
    if low != 255:  # what is behind it, nobody knows
        raise UnusableError("wrong_mode")
    return whole.convert("RGB")
