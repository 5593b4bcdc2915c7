"""Files that strangers bring: each is kept as it is meant or quarantined with its reason, and none stops a run."""

import struct
import zlib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from components.ingestion import core
from nightshift import storage
from nightshift.config import parse
from nightshift.contracts.tables import Table
from nightshift.items import images, shards
from tests.components.pictures import bytes_of, config, feature, ingest
from tests.nightshift.config.test_classes import text

Kept = np.ndarray  # pixels as they are to be seen, (height, width) or (height, width, 3)
WIDTH, HEIGHT = 24, 16
SIDE = 16
OFF = 4  # by how much a pixel may differ after JPEG


def animated(kind: str) -> bytes:
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    return bytes_of(frames[0], kind, save_all=True, append_images=frames[1:])


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def deep_png(color: int, channels: int) -> bytes:
    """A PNG file of 16 bits a channel, which Pillow does not write."""
    rows = (b"\0" + b"\xff\xff" * 8 * channels) * 8
    header = struct.pack(">IIBBBBB", 8, 8, 16, color, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


across, down = np.meshgrid(np.linspace(0, 255, WIDTH), np.linspace(255, 0, HEIGHT))
PIXELS = np.stack([across, down, np.full_like(across, 90)], axis=2).astype(np.uint8)
PICTURE = Image.fromarray(PIXELS)
GRAY = PICTURE.convert("L")
PALETTE = PICTURE.quantize(64)
BLACK = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
LONG = np.arange(10_000, dtype=np.uint32).astype(np.uint8)[None]

PNG = bytes_of(PICTURE, "PNG")
CRISP: dict[str, Any] = {"quality": 98, "subsampling": 0}
JPEG = bytes_of(PICTURE, "JPEG", **CRISP)
GIF = bytes_of(GRAY, "GIF")
WEBP = bytes_of(PICTURE, "WEBP", lossless=True)
MPO = bytes_of(PICTURE, "MPO", save_all=True, append_images=[Image.fromarray(BLACK)], **CRISP)
SIGNATURE = b"\x89PNG\r\n\x1a\n"
SCANLINES = b"".join(b"\0" + row.tobytes() for row in PIXELS)


def header(width: int = WIDTH, height: int = HEIGHT, depth: int = 8) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0)


def png(*before: tuple[bytes, bytes], head: tuple[bytes, bytes] | None = None, data: bytes = SCANLINES) -> bytes:
    """A PNG file of chunks."""
    parts = [head or header(), *before, (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return SIGNATURE + b"".join(chunk(*part) for part in parts)


def flipped(content: bytes, offset: int) -> bytes:
    """The file with one byte spoiled."""
    return content[:offset] + bytes([content[offset] ^ 0xFF]) + content[offset + 1 :]


def entry(tag: int, kind: int, value: bytes) -> bytes:
    return struct.pack("<HHI4s", tag, kind, 1, value)


def exif(*entries: bytes) -> bytes:
    """EXIF data whose directory is not checked by anybody."""
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, len(entries)) + b"".join(entries) + b"\0\0\0\0"


# what each orientation has done to the upright picture, EXIF 2.32, 4.6.4
STORED: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda upright: upright,
    2: np.fliplr,
    3: lambda upright: np.rot90(upright, 2),
    4: np.flipud,
    5: lambda upright: upright.transpose(1, 0, 2),
    6: lambda upright: np.rot90(upright, 1),
    7: lambda upright: np.rot90(upright.transpose(1, 0, 2), 2),
    8: lambda upright: np.rot90(upright, -1),
}
LYING = entry(0x0112, 3, struct.pack("<HH", 6, 0))
ON_ITS_SIDE = Image.fromarray(np.ascontiguousarray(STORED[6](PIXELS)))


def turned(orientation: int) -> bytes:
    """A JPEG file that says how it has been stored."""
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](PIXELS)))
    return bytes_of(stored, "JPEG", exif=exif(entry(0x0112, 3, struct.pack("<HH", orientation, 0))), **CRISP)


def seen(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("RGB"))


# name of the file -> its bytes, and the rule that rejects it or the pixels that are kept
IMAGES: dict[str, tuple[bytes, str | Kept]] = {
    # nothing, and nothing like an image
    "empty.jpg": (b"", "empty"),
    "zeros.png": (b"\0" * 512, "undecodable"),
    "page.jpg": (b"<!doctype html><title>404</title>", "undecodable"),
    "drawing.png": (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "undecodable"),
    "paper.jpg": (b"%PDF-1.7\n" + JPEG, "undecodable"),
    "archive.jpg": (b"PK\3\4" + JPEG, "undecodable"),
    "named.jpg": (b"../secret.jpg", "undecodable"),
    "scan.jpg": (bytes_of(PICTURE, "TIFF"), "undecodable"),
    "script.jpg": (bytes_of(PICTURE, "EPS"), "undecodable"),
    # cut short, or damaged
    "half.jpg": (JPEG[: len(JPEG) // 2], "undecodable"),
    "without-end.jpg": (JPEG[:-2], "undecodable"),
    "half.png": (PNG[: len(PNG) // 2], "undecodable"),
    "signature.png": (PNG[:8], "undecodable"),
    "header.png": (PNG[:33], "undecodable"),
    "half.gif": (GIF[: len(GIF) - 40], "undecodable"),
    "half.webp": (WEBP[: len(WEBP) // 2], "undecodable"),
    "half.bmp": (bytes_of(PICTURE, "BMP")[:600], "undecodable"),
    "header-checksum.png": (flipped(PNG, 30), "undecodable"),
    "garbled.png": (flipped(png(), 60), "undecodable"),
    "size-zero.png": (png(head=header(0, 8)), "undecodable"),
    "data-checksum.png": (flipped(PNG, len(PNG) - 13), PIXELS),  # zlib has one of its own, which holds
    "without-end.png": (PNG[:-12], PIXELS),
    # bombs
    "huge.png": (png(head=header(100_000, 100_000)), "decompression_bomb"),
    "huge.gif": (GIF[:6] + b"\xff\xff\xff\xff" + GIF[10:], "decompression_bomb"),
    "large.png": (png(head=header(2000, 2000)), "decompression_bomb"),
    "promise.png": (png(head=header(900, 900)), "undecodable"),
    "too-much-data.png": (png(data=SCANLINES + b"\0" * 20_000_000), PIXELS),
    "comment.png": (png((b"zTXt", b"a\0\0" + zlib.compress(b"\0" * 20_000_000))), "undecodable"),
    # colors that are others than gray and RGB, deep or transparent
    "print.jpg": (bytes_of(PICTURE.convert("CMYK"), "JPEG"), "wrong_mode"),
    "deep-gray.png": (bytes_of(Image.fromarray(np.full((16, 24), 40_000, np.uint16)), "PNG"), "wrong_mode"),
    "deep-color.png": (deep_png(2, 3), "wrong_mode"),
    "deep-gray-with-opacity.png": (deep_png(4, 2), "wrong_mode"),
    "hidden-depth.png": (
        SIGNATURE + chunk(b"tEXt", b"a\0" + b"\1" * 40) + png(head=header(12, 16, 16))[8:],
        "wrong_mode",
    ),
    "half-seen.png": (bytes_of(Image.new("RGBA", (8, 8), (10, 20, 30, 128)), "PNG"), "wrong_mode"),
    "palette-with-a-hole.png": (bytes_of(PALETTE, "PNG", transparency=0), "wrong_mode"),
    "gif-with-a-hole.gif": (bytes_of(PALETTE, "GIF", transparency=0), "wrong_mode"),
    "gray-with-a-hole.png": (bytes_of(GRAY, "PNG", transparency=GRAY.getpixel((0, 0))), "wrong_mode"),
    "color-with-a-hole.png": (bytes_of(PICTURE, "PNG", transparency=PICTURE.getpixel((0, 0))), "wrong_mode"),
    "color-that-nothing-has.png": (bytes_of(PICTURE, "PNG", transparency=(1, 2, 3)), PIXELS),
    "opaque.png": (bytes_of(PICTURE.convert("RGBA"), "PNG"), PIXELS),
    "palette.png": (bytes_of(PALETTE, "PNG"), seen(PALETTE)),
    "opaque-gray.png": (bytes_of(GRAY.convert("LA"), "PNG"), np.asarray(GRAY)),
    "black-and-white.png": (bytes_of(GRAY.convert("1"), "PNG"), seen(GRAY.convert("1"))),
    "gray.gif": (GIF, np.asarray(GRAY)),
    # several pictures
    "moving.gif": (animated("GIF"), "animated"),
    "moving.png": (animated("PNG"), "animated"),
    "moving.webp": (animated("WEBP"), "animated"),
    "phone.jpg": (MPO, PIXELS),
    "phone-cut.jpg": (MPO[:-100], PIXELS),
    # one pixel, and one line
    "dot.png": (bytes_of(Image.new("RGB", (1, 1), (9, 8, 7)), "PNG"), np.full((1, 1, 3), (9, 8, 7), np.uint8)),
    "line.png": (bytes_of(Image.fromarray(LONG), "PNG"), LONG),
    "post.jpg": (bytes_of(Image.new("L", (1, 10_000), 50), "JPEG"), np.full((10_000, 1), 50, np.uint8)),
    # odd, and right
    "progressive.jpg": (bytes_of(PICTURE, "JPEG", progressive=True, **CRISP), PIXELS),
    "tail.jpg": (JPEG + b"PK\3\4" * 1000, PIXELS),
    "really-png.jpg": (PNG + b"tail", PIXELS),
    "really-webp.png": (WEBP, PIXELS),
    "whole.bmp": (bytes_of(PICTURE, "BMP"), PIXELS),
    "icc.jpg": (bytes_of(PICTURE, "JPEG", icc_profile=b"no profile", **CRISP), PIXELS),
    "icc.png": (png((b"iCCP", b"a\0\0no zlib")), PIXELS),
    "exif-garbage.jpg": (bytes_of(PICTURE, "JPEG", exif=b"Exif\0\0garbage", **CRISP), PIXELS),
    "exif-cut.jpg": (bytes_of(PICTURE, "JPEG", exif=exif(LYING)[:24], **CRISP), PIXELS),
    "exif-nonsense.jpg": (bytes_of(PICTURE, "JPEG", exif=exif(entry(0x0112, 3, b"\x09\0\0\0")), **CRISP), PIXELS),
    "exif-text.jpg": (bytes_of(PICTURE, "JPEG", exif=exif(entry(0x0112, 2, b"6\0\0\0")), **CRISP), PIXELS),
    "exif-and-garbage.jpg": (
        bytes_of(ON_ITS_SIDE, "JPEG", exif=exif(LYING, entry(0x8825, 4, b"\xff" * 4)), **CRISP),
        PIXELS,
    ),
    "exif.png": (bytes_of(ON_ITS_SIDE, "PNG", exif=exif(LYING)), PIXELS),
    **{f"orientation-{number}.jpg": (turned(number), PIXELS) for number in STORED},
}

LONGEST = 100_000  # characters
HEBREW = "\u05d1\u05e8\u05d0\u05e9\u05d9\u05ea"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f3fd \U0001f1fa\U0001f1f3 #\ufe0f\u20e3"
# name -> its bytes, and the rule that rejects it
REFUSED_TEXTS: dict[str, tuple[bytes | None, str]] = {
    "null": (None, "empty"),
    "nothing": (b"", "empty"),
    "spaces": (b" \t\r\n\x0b\x0c", "empty"),
    "wide spaces": ("\u00a0\u2003\u3000\u2028".encode(), "empty"),
    "without width": ("\u200b\u200c\u200d\u2060\ufeff\u200e".encode(), "empty"),
    "only a byte order mark": (b"\xef\xbb\xbf", "empty"),
    "NUL": (b"a\0b", "binary"),
    "NUL at the end": (b"text\0", "binary"),
    "UTF-16 without a mark": ("text".encode("utf-16-le"), "binary"),
    "UTF-16": ("text".encode("utf-16"), "invalid_utf8"),
    "Latin-1": ("caf\u00e9".encode("latin-1"), "invalid_utf8"),
    "cut in a character": ("caf\u00e9".encode()[:-1], "invalid_utf8"),
    "half a surrogate pair": (b"a\xed\xa0\x80b", "invalid_utf8"),
    "overlong": (b"\xc0\xaf", "invalid_utf8"),
    "beyond Unicode": (b"\xf5\x80\x80\x80", "invalid_utf8"),
    "an image": (PNG, "invalid_utf8"),
    "a character too many": (b"x" * (LONGEST + 1), "too_long"),
    "10 MB without width": ("\u200b".encode() * 3_333_333, "too_long"),
}
# name -> what is kept of its UTF-8
KEPT_TEXTS = {
    "plain": "In the beginning",
    "a word as long as may be": "y" * LONGEST,
    "right to left": HEBREW,
    "controls of direction": f"\u202e{HEBREW}\u202c \u2066abc\u2069",
    "emoji": FAMILY,
    "combining": "Z\u0351\u036b\u0343 e\u0301",
    "composed": "\u00e9",
    "characters of no use": "\ufffe\ue000",
    "line ends of Windows": "a\r\nb\r\n",
    "controls of a terminal": "\x1b[31mred\x07",
    "HTML": "<script>alert('&amp;')</script>",
    "a formula": '=cmd|"/C calc"!A0,1\n2',
}


def rows(count: int, **columns: list[Any]) -> pd.DataFrame:
    """Rows that are dealt to the seven days that the step looks at."""
    days = pd.Timestamp("2024-03-04") + pd.to_timedelta(np.arange(count) % 7, unit="D")
    return pd.DataFrame({"id": range(count), "time": days.astype("datetime64[us]"), **columns})


def reasons(table: Table) -> dict[int, str]:
    """Id of each rejected row -> the rule."""
    uris = filter(None, (part.details["quarantine_uri"] for part in table.partitions))
    bad = pd.concat([storage.read_frame(uri) for uri in uris] or [pd.DataFrame({"id": [], core.REASON: []})])
    return dict(zip(bad["id"].astype(int), bad[core.REASON], strict=True))


def kept(table: Table, content: str) -> dict[int, Any]:
    """Id of each kept row -> what is kept."""
    good = pd.concat(storage.read_frame(part.uri) for part in table.partitions)
    return dict(zip(good["event_id"], good[content], strict=True))


@pytest.fixture(scope="module")
def ingested_images(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[int, str], dict[int, bytes], dict[int, Any]]:
    """Of all images by number: the rules that reject them, the files that are kept, and what networks see of these."""
    folder = tmp_path_factory.mktemp("images")
    for name, (content, _) in IMAGES.items():
        (folder / name).write_bytes(content)
    rows(len(IMAGES), image=list(IMAGES), label=["cross"] * len(IMAGES)).to_csv(folder / "all.csv", index=False)
    raw = config(
        source={"files": None, "table": "all.csv"},
        columns={"event_id": "id"},
        task={"min_side": 1, "max_pixels": 1_000_000, "side": SIDE, "channels": 3},
        quarantine={"max_share": 1.0, "max_label_share": 1.0},
    )
    table = ingest(folder, raw, str(folder))
    shown = {}
    for part in feature(folder, raw)[0].partitions:
        shown |= dict(zip(storage.read_frame(part.uri)["event_id"], shards.map_shard(part), strict=True))
    return reasons(table), kept(table, "image"), shown


@pytest.mark.parametrize("number", range(len(IMAGES)), ids=IMAGES)
def test_an_image_is_shown_to_networks_as_it_is_meant_or_quarantined_with_its_reason(ingested_images, number):
    rejected, files, shown = ingested_images
    content, expected = list(IMAGES.values())[number]
    if isinstance(expected, str):
        assert rejected.get(number) == expected
        assert number not in shown
        return
    assert files.get(number) == content, rejected.get(number)
    decoded = seen(images.decode_image(content, 10**6)).astype(int)
    whole = seen(Image.fromarray(expected))
    assert decoded.shape == whole.shape
    assert np.abs(decoded - whole).max() <= OFF
    square = images.square(Image.fromarray(whole), SIDE, 3)
    assert np.abs(shown[number].astype(int) - square).max() <= OFF


@pytest.fixture(scope="module")
def ingested_texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, str], dict[int, str]]:
    """Of all texts by number: the rules that reject them, and those that are kept."""
    folder = tmp_path_factory.mktemp("texts")
    contents = [content for content, _ in REFUSED_TEXTS.values()] + [
        content.encode() for content in KEPT_TEXTS.values()
    ]
    rows(len(contents), verse=contents, book=["Genesis"] * len(contents)).to_parquet(folder / "all.parquet")
    limits = {"task": text()["task"] | {"max_characters": LONGEST}}
    raw = text(source={"table": "all.parquet"}, quarantine={"max_share": 1.0, "max_label_share": 1.0}, **limits)
    table = ingest(folder, raw, str(folder))
    return reasons(table), kept(table, "text")


@pytest.mark.parametrize("name", REFUSED_TEXTS)
def test_a_text_that_nobody_can_read_is_quarantined_with_its_reason(ingested_texts, name):
    assert ingested_texts[0].get(list(REFUSED_TEXTS).index(name)) == REFUSED_TEXTS[name][1]


@pytest.mark.parametrize("name", KEPT_TEXTS)
def test_a_text_that_is_odd_is_kept_to_the_letter(ingested_texts, name):
    number = len(REFUSED_TEXTS) + list(KEPT_TEXTS).index(name)
    assert ingested_texts[1].get(number) == KEPT_TEXTS[name], ingested_texts[0].get(number)


def texts_of(folder: Path, **columns: pa.Array) -> tuple[dict[int, str], dict[int, str]]:
    """Ingest texts whose columns are of these types: the rules that reject them, and those that are kept."""
    table = pa.table({name: pa.array(column) for name, column in rows(14).items()} | columns)
    parquet.write_table(table, folder / "all.parquet")
    raw = text(source={"table": "all.parquet"}, quarantine={"max_share": 1.0, "max_label_share": 1.0})
    ingested = ingest(folder, raw, str(folder))
    return reasons(ingested), kept(ingested, "text")


def unchecked(*contents: bytes) -> pa.Array:
    """A column that says it is text, whatever it holds, as careless writers of Parquet make them."""
    return pa.Array.from_buffers(pa.string(), len(contents), pa.array(contents, pa.binary()).buffers())


def test_a_column_of_texts_may_hold_what_is_none(tmp_path):
    verses = unchecked(b"\xff", *(b"verse %d" % number for number in range(1, 14)))
    books = unchecked(*[b"Genesis"] * 13, b"Ex\xffdus")
    rejected, taken = texts_of(tmp_path, verse=verses, book=books)
    assert rejected == {0: "invalid_utf8", 13: "unknown_label"}
    assert taken == {number: f"verse {number}" for number in range(1, 13)}


def test_a_mark_of_byte_order_is_no_part_of_a_text_and_labels_may_be_bytes(tmp_path):
    verses = pa.array([b"\xef\xbb\xbfverse %d" % number for number in range(14)])
    _, taken = texts_of(tmp_path, verse=verses, book=pa.array([b"Genesis"] * 14))
    assert taken == {number: f"verse {number}" for number in range(14)}


def test_half_a_surrogate_pair_in_memory_is_no_text():
    frame = rows(1, verse=pd.Series(["a\ud800b"], dtype=object), book=["Genesis"])
    bad = core.split(frame, parse(text()), date(2024, 3, 4), labels_due=True).bad
    assert (bad["verse"][0], bad[core.REASON][0]) == (b"a\xed\xa0\x80b", "invalid_utf8")
