"""Which files become pixels, and which."""

import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from nightshift.classification import images
from nightshift.classification.images import UnusableError
from tests.components.pictures import file

LIMIT = 10_000


def bytes_of(image: Image.Image, kind: str, **options) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def animated(kind: str) -> bytes:
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    return bytes_of(frames[0], kind, save_all=True, append_images=frames[1:])


def rotated() -> tuple[bytes, Image.Image]:
    image = Image.new("RGB", (20, 12), "white")
    image.paste("black", (0, 0, 10, 12))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    return bytes_of(image, "PNG", exif=exif), image.transpose(Image.Transpose.ROTATE_270)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def deep_png(color: int, channels: int) -> bytes:
    """A PNG file of 16 bits a channel, which Pillow does not write."""
    rows = (b"\0" + b"\xff\xff" * 8 * channels) * 8
    header = struct.pack(">IIBBBBB", 8, 8, 16, color, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


PNG, JPEG = file("PNG"), file("JPEG")
HALF_SEEN = Image.new("RGBA", (8, 8), (10, 20, 30, 128))
REFUSED = {
    "no file at all": (b"\0" * 100, "undecodable"),
    "text": (b"this is not an image", "undecodable"),
    "HTML with an image's name": (b"<html>404</html>", "undecodable"),
    "half a JPEG": (JPEG[: len(JPEG) // 2], "undecodable"),
    "half a PNG": (PNG[: len(PNG) // 2], "undecodable"),
    "a PNG's signature alone": (PNG[:8], "undecodable"),
    "a PNG whose data is garbled": (PNG[:60] + b"\xff" * 20 + PNG[80:], "undecodable"),
    "a TIFF, which is no format of ours": (file("TIFF"), "undecodable"),
    "an EPS, which would be run": (file("EPS"), "undecodable"),
    "more pixels than are allowed": (file("PNG", size=(200, 51)), "decompression_bomb"),
    "CMYK": (file("JPEG", "CMYK"), "wrong_mode"),
    "16 bits": (bytes_of(Image.fromarray(np.full((8, 8), 40_000, dtype=np.uint16)), "PNG"), "wrong_mode"),
    "16 bits of color": (deep_png(2, 3), "wrong_mode"),
    "16 bits of gray with opacity": (deep_png(4, 2), "wrong_mode"),
    "gray of which one shade is transparent": (bytes_of(Image.new("L", (8, 8)), "PNG", transparency=0), "wrong_mode"),
    "a color that is transparent": (bytes_of(Image.new("RGB", (8, 8)), "PNG", transparency=(0, 0, 0)), "wrong_mode"),
    "partly transparent": (bytes_of(HALF_SEEN, "PNG"), "wrong_mode"),
    "an animated GIF": (animated("GIF"), "animated"),
    "an animated PNG": (animated("PNG"), "animated"),
    "an animated WebP": (animated("WEBP"), "animated"),
}


@pytest.mark.parametrize(("content", "rule"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_nobody_can_be_sure_of_is_refused_by_its_rule(content, rule):
    with pytest.raises(UnusableError) as raised:
        images.decoded(content, LIMIT)
    assert str(raised.value) == rule


TAKEN = {
    "PNG": file("PNG"),
    "lossless WebP": file("WEBP", lossless=True),
    "BMP": file("BMP"),
    "opaque alpha": bytes_of(Image.open(BytesIO(file("PNG"))).convert("RGBA"), "PNG"),
    "a color that nothing has is transparent": file("PNG", transparency=(1, 2, 3)),
    "bytes after its end": file("PNG") + b"and then some",
}


@pytest.mark.parametrize("content", TAKEN.values(), ids=TAKEN)
def test_whatever_the_format_the_pixels_are_the_same(content):
    expected = np.random.default_rng(0).integers(0, 256, (12, 20, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(images.decoded(content, LIMIT)), expected)


@pytest.mark.parametrize("mode", ["1", "L", "P"])
def test_gray_and_palettes_are_taken(mode):
    content = file("PNG", mode)
    assert images.decoded(content, LIMIT).mode in ("L", "RGB")


def test_of_a_phone_s_several_pictures_the_first_is_taken():
    red, blue = (Image.new("RGB", (16, 16), color) for color in ("red", "blue"))
    content = bytes_of(red, "MPO", save_all=True, append_images=[blue])
    taken = images.decoded(content, LIMIT)
    assert np.array_equal(np.asarray(taken), np.asarray(images.decoded(bytes_of(red, "JPEG"), LIMIT)))
    assert images.decoded(content, LIMIT, least=4).size == (4, 4)


def test_a_picture_that_says_it_lies_on_its_side_is_turned_upright():
    content, upright = rotated()
    assert np.array_equal(np.asarray(images.decoded(content, LIMIT)), np.asarray(upright))


def test_a_bomb_is_refused_before_it_takes_memory():
    from nightshift.tasks.images.simulator import _bomb

    for limit in (LIMIT, 89_478_485):
        with pytest.raises(UnusableError, match="decompression_bomb"):
            images.decoded(_bomb(), limit)


def test_a_square_is_cut_from_the_middle():
    wide = Image.new("L", (30, 10), 0)
    wide.paste(255, (10, 0, 20, 10))
    assert (images.square(wide, 10, 1) == 255).all()
    assert images.square(wide, 10, 3).shape == (10, 10, 3)


def test_a_large_jpeg_is_decoded_no_larger_than_needed():
    content = file("JPEG", size=(640, 640))
    assert images.decoded(content, 10**6).size == (640, 640)
    assert images.decoded(content, 10**6, least=64).size == (80, 80)
